"""Order papers today; tomorrow sell what is asked for, and return the rest."""

import pyomo.environ as pyo

import pyomo_csg as csg


def build(
    cost: float = 4.0, price: float = 5.0, refund: float = 1.0
) -> pyo.ConcreteModel:
    """Return the annotated model."""
    m = pyo.ConcreteModel("newsvendor")
    m.demand = pyo.Param(within=pyo.NonNegativeReals, initialize=60, mutable=True)
    m.order = pyo.Var(bounds=(0, 500))
    m.sold = pyo.Var(within=pyo.NonNegativeReals)
    m.returned = pyo.Var(within=pyo.NonNegativeReals)
    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    m.stock = pyo.Constraint(expr=m.sold + m.returned <= m.order)
    m.profit = pyo.Objective(
        expr=price * m.sold + refund * m.returned - cost * m.order, sense=pyo.maximize
    )
    # What is decided now, and what is not known yet.
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    return m

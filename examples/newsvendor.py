"""The newsvendor, from a plain Pyomo model to its three programs. Run: make demo."""

import pyomo.environ as pyo

import pyomo_csg as csg

# A model of one day, as one would write it anyway. The demand is a mutable Param.
m = pyo.ConcreteModel("newsvendor")
m.demand = pyo.Param(within=pyo.NonNegativeReals, initialize=15, mutable=True)
m.order = pyo.Var(bounds=(0, 60))
m.sold = pyo.Var(within=pyo.NonNegativeReals)
m.salvaged = pyo.Var(within=pyo.NonNegativeReals)
m.market = pyo.Constraint(expr=m.sold <= m.demand)
m.stock = pyo.Constraint(expr=m.sold + m.salvaged <= m.order)
m.cost = pyo.Objective(expr=1.0 * m.order - 1.9 * m.sold - 0.1 * m.salvaged)

# The one call that is ours: what is decided now, and what is not known yet.
csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
print(csg.TwoStageModel(m), "\n")

solver = pyo.SolverFactory("appsi_highs")
scenarios = [[8], [14], [15], [22]]

# 1. The extensive form: one order for all four demands.
ef = pyo.TransformationFactory("csg.extensive_form").create_using(
    m, scenarios=scenarios
)
solver.solve(ef)
value = pyo.value(ef.cost)
print(f"Demands 8, 14, 15 or 22: order {ef.order.value:g}, expected cost {value:.3f}")

# 2. Opt-Search: of all orders that are optimal above, the best for one outcome.
for demand in (12, 20):
    search = pyo.TransformationFactory("csg.opt_search").create_using(
        m, scenarios=scenarios, outcome=[demand], optimal_value=value
    )
    solver.solve(search)
    cost = pyo.value(search.cost)
    print(
        f"Best optimal order for demand {demand}: {search.order.value:g}, cost {cost:.3f}"
    )

# 3. The recourse: what any order costs once the demand is known.
for order in (8, 14, 15, 22):
    recourse = pyo.TransformationFactory("csg.recourse").create_using(
        m, decision={"order": order}, outcome={"demand": 12}
    )
    solver.solve(recourse)
    left = recourse.outcome.salvaged.value
    print(
        f"Order {order:2}, demand 12: cost {pyo.value(recourse.cost):.3f}, {left:g} left"
    )

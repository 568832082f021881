"""Build the annotated Pyomo model of an SMPS problem."""

from __future__ import annotations

import math
from typing import Any

import pyomo.environ as pyo
from pyomo.core.expr.numeric_expr import LinearExpression

from pyomo_csg.interop.smps_core import Core
from pyomo_csg.interop.smps_periods import Periods
from pyomo_csg.interop.smps_stoch import Entry, Stoch, core_value
from pyomo_csg.stages import annotate

_PARAMS = ("rhs", "matrix", "cost", "lower", "upper")


def build_model(core: Core, periods: Periods, stoch: Stoch) -> pyo.ConcreteModel:
    """Return the model with the core's data in it.

    Variables are ``first_stage`` and ``recourse``, constraints ``rows``, all indexed by
    the names in the file; the uncertain numbers are ``rhs[row]``, ``matrix[row, column]``,
    ``cost[column]``, ``lower[column]`` and ``upper[column]``.
    """
    model = pyo.ConcreteModel(core.name or core.path.stem)
    uncertain = _add_params(model, core, stoch)
    variables = _add_variables(model, core, periods, uncertain)
    _add_rows(model, core, variables, uncertain)
    _add_objective(model, core, variables, uncertain)
    annotate(
        model,
        first_stage_variables=model.first_stage,
        uncertain_params=[uncertain[entry] for entry in stoch.entries],
    )
    return model


def _add_params(model: Any, core: Core, stoch: Stoch) -> dict[Entry, Any]:
    found: dict[Entry, Any] = {}
    for name in _PARAMS:
        entries = [entry for entry in stoch.entries if entry.param == name]
        if not entries:
            continue
        values = {entry.key: _finite(core_value(core, entry)) for entry in entries}
        param = pyo.Param(
            list(values), initialize=values, within=pyo.Reals, mutable=True
        )
        model.add_component(name, param)
        found.update({entry: param[entry.key] for entry in entries})
    return found


def _finite(value: float) -> float:
    """Return a value for an uncertain bound that is infinite in the core."""
    return value if math.isfinite(value) else 0.0


def _add_variables(
    model: Any, core: Core, periods: Periods, uncertain: dict[Entry, Any]
) -> dict[str, Any]:
    first = [name for name in core.columns if name in periods.first_columns]
    later = [name for name in core.columns if name not in periods.first_columns]
    model.first_stage = pyo.Var(first)
    model.recourse = pyo.Var(later)
    variables: dict[str, Any] = {**model.first_stage, **model.recourse}
    for name, variable in variables.items():
        if name in core.integer:
            variable.domain = pyo.Integers
        low, high = core.bounds(name)
        lower = uncertain.get(Entry("lower", name), low)
        upper = uncertain.get(Entry("upper", name), high)
        variable.setlb(None if lower is low and low == -math.inf else lower)
        variable.setub(None if upper is high and high == math.inf else upper)
    return variables


def _add_rows(
    model: Any, core: Core, variables: dict[str, Any], uncertain: dict[Entry, Any]
) -> None:
    terms: dict[str, dict[str, Any]] = {row: {} for row in core.rows}
    for column, entries in core.columns.items():
        for row, value in entries.items():
            if row != core.objective:
                terms[row][column] = value
    for entry, param in uncertain.items():
        if entry.param == "matrix":
            row, column = entry.key[0], entry.key[1]
            terms[row][column] = param
    anything = next(iter(variables))  # what a row without entries multiplies by 0
    model.rows = pyo.Constraint(list(core.rows))
    for row, found in terms.items():
        side = uncertain.get(Entry("rhs", row), core.rhs.get(row, 0.0))
        body = _linear(found or {anything: 0.0}, variables)
        below, above = core.sides(row)
        if below == above:
            model.rows[row] = body == side
        else:
            lower = None if below == -math.inf else side + below
            upper = None if above == math.inf else side + above
            model.rows[row] = (lower, body, upper)


def _add_objective(
    model: Any, core: Core, variables: dict[str, Any], uncertain: dict[Entry, Any]
) -> None:
    costs: dict[str, Any] = {}
    for column, entries in core.columns.items():
        cost = uncertain.get(Entry("cost", column))
        if cost is not None:
            costs[column] = cost
        elif core.objective in entries or not entries:
            # A column without entries is kept by a cost of 0.
            costs[column] = entries.get(core.objective, 0.0)
    # The right-hand side of an objective is minus its constant.
    constant = -core.rhs.get(core.objective, 0.0)
    moving = uncertain.get(Entry("rhs", core.objective))
    total = _linear(costs, variables, constant if moving is None else 0.0)
    sense = pyo.maximize if core.maximize else pyo.minimize
    model.objective = pyo.Objective(
        expr=total if moving is None else total - moving, sense=sense
    )


def _linear(
    terms: dict[str, Any], variables: dict[str, Any], constant: float = 0.0
) -> LinearExpression:
    return LinearExpression(
        constant=constant,
        linear_coefs=list(terms.values()),
        linear_vars=[variables[column] for column in terms],
    )

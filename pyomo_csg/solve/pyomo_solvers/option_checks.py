"""Options of Pyomo's solvers, validated before anything is solved."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from typing import Any

from pyomo_csg.errors import DataError
from pyomo_csg.solve.lp.highs_program import check_options
from pyomo_csg.validation import is_number


def option_problems(
    brand: str, exact: Mapping[str, Any], options: Mapping[str, Any]
) -> list[str]:
    """Return the problems of the options of a solver, each with the option's name.

    HiGHS, Gurobi and SCIP check options themselves. For other solvers, an option that is
    also in ``exact`` must have the same type.
    """
    problems = [
        f"option {name!r:.80} is {option!r:.80}; give a name and a number or a text"
        for name, option in options.items()
        if not isinstance(name, str) or not _is_value(option)
    ]
    if problems:
        return problems
    if brand == "highs":
        return _highs_problems(options)
    if brand == "gurobi":
        return [p for name in options for p in _gurobi_problems(name, options[name])]
    if brand == "scip":
        return [p for name in options for p in _scip_problems(name, options[name])]
    return [
        f"option '{name}' is {option!r:.80}; give a number"
        for name, option in options.items()
        if is_number(exact.get(name)) and not is_number(option)
    ]


def _is_value(option: Any) -> bool:
    """Whether a value can be an option: a number other than NaN, a bool or text."""
    if isinstance(option, float):
        return not math.isnan(option)
    return isinstance(option, str | bool | int)


def _highs_problems(options: Mapping[str, Any]) -> list[str]:
    try:
        check_options(options)  # appsi would only log a misspelled one
    except DataError as error:
        return list(error.problems)
    return []


def _gurobi_problems(name: str, option: Any) -> list[str]:
    import gurobipy
    from pyomo.contrib.solver.solvers.gurobi.gurobi_direct_base import GurobiDirectBase

    model = gurobipy.Model(env=GurobiDirectBase.env())
    try:
        info = model.getParamInfo(name)
    finally:
        model.dispose()
    if info is None or "*" in name:
        known = [n for n in dir(gurobipy.GRB.Param) if not n.startswith("_")]
        return [_unknown_option("Gurobi", name, known)]
    _, kind, _, low, high, _ = info
    return _type_problems("Gurobi", name, option, kind, low, high)


def _scip_problems(name: str, option: Any) -> list[str]:
    import pyscipopt

    model = pyscipopt.Model()
    known = model.getParams()
    if name not in known:
        return [_unknown_option("SCIP", name, known)]
    kind = type(known[name])
    if problems := _type_problems("SCIP", name, option, kind):
        return problems
    try:
        model.hideOutput()
        model.setParam(name, option)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return [f"SCIP does not take {option!r:.80} for option '{name}': {error}"]
    return []


def _type_problems(
    solver: str,
    name: str,
    option: Any,
    kind: type,
    low: float = -math.inf,
    high: float = math.inf,
) -> list[str]:
    """Return the problem of a value that is not of the type, or not in the range."""
    found = f"{solver} does not take {option!r:.80} for option '{name}'"
    if kind is str:
        return [] if isinstance(option, str) else [f"{found}; give a text"]
    if kind is bool:
        return [] if isinstance(option, bool) else [f"{found}; give True or False"]
    if isinstance(option, str | bool):
        return [f"{found}; give a number"]
    if kind is int and not float(option).is_integer():
        return [f"{found}; give a whole number"]
    if not low <= option <= high:
        return [f"{found}; give a number from {low:g} to {high:g}"]
    return []


def _unknown_option(solver: str, name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"see {solver}'s manual"
    return f"{solver} has no option '{name}'; {hint}"

"""Differences between the models of several scenarios, and whether Params account for them."""

from __future__ import annotations

import math
from itertools import chain
from numbers import Real
from typing import TYPE_CHECKING, Any

from pyomo.core.base.block import BlockData
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.objective import Objective
from pyomo.core.base.param import Param
from pyomo.core.base.sos import SOSConstraint
from pyomo.core.base.var import Var
from pyomo.repn import generate_standard_repn

from pyomo_csg.stages.stage_inference import leaves

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 40


class SideBySide:
    """The first scenario's model, with which the others are compared one by one.

    With another scenario's values in its mutable Params, it must be that scenario's model.
    Otherwise some data is not in a Param but a number in an expression. ``params`` are the
    mutable Params that the model uses, by name; their values change until :meth:`restore`.
    ``problems`` are the first differences by component, and ``frozen`` the names of Params
    that differ and are not mutable.
    """

    def __init__(self, name: str, model: BlockData):
        self._name = name
        self.model = model
        self._parts = _parts(model)
        self._texts = {key: _text(part) for key, part in self._parts.items()}
        self.params = _params_in_use(model, self._parts)
        self._frozen = _frozen(model)
        self._first = {
            key: param(exception=False) for key, param in self.params.items()
        }
        self._rows = {name: self._first}
        self.problems: dict[str, str] = {}
        self.frozen: list[str] = []

    def compare(self, name: str, model: BlockData) -> None:
        """Record the data of another scenario, and other differences of its model."""
        params, parts = _mutable_params(model), _parts(model)
        values = {
            key: params[key](exception=False) if key in params else value
            for key, value in self._first.items()
        }
        self._rows[name] = values
        self._load(values)
        for key, part in {**self._parts, **parts}.items():
            if problem := self._difference(key, name, parts.get(key)):
                self.problems.setdefault(part.parent_component().name, problem)
        for key, numbers in _frozen(model).items():
            if numbers != self._frozen.get(key) and key not in self.frozen:
                self.frozen.append(key)

    def restore(self) -> None:
        """Set the first scenario's model back to its data."""
        self._load(self._first)

    def table(self) -> pd.DataFrame:
        """Return the mutable Params in use: one row per scenario, one column per number."""
        import pandas as pd

        return pd.DataFrame.from_dict(self._rows, orient="index")

    def _load(self, values: dict[str, Any]) -> None:
        for key, number in values.items():
            if number is not None:
                self.params[key].set_value(number)

    def _difference(self, key: str, name: str, other: Any) -> str | None:
        """Return how a part differs in another scenario; None if it does not."""
        part = self._parts.get(key)
        if part is None or other is None:
            present, absent = (name, self._name) if part is None else (self._name, name)
            return (
                f"'{key}' is in '{present}' but not in '{absent}'; build the same "
                "variables and constraints for each scenario"
            )
        text = _text(other)
        if text is not None and text == self._texts[key]:
            return None  # so the coefficients, which take longer to compute, are equal
        ours, theirs = _facts(part), _facts(other)
        for fact in {**ours, **theirs}:
            one, another = ours.get(fact, 0.0), theirs.get(fact, 0.0)
            if not _equal(one, another):
                return (
                    f"{_kind(part)} '{key}': {fact} is {_quote(one)} in '{self._name}' "
                    f"but {_quote(another)} in '{name}', and no mutable Param accounts for it; "
                    "declare a Param(..., mutable=True) for the data that differs, and "
                    "use the Param itself in its place"
                )
        return None


def _parts(model: BlockData) -> dict[str, Any]:
    """Return the variables, constraints and objectives by name."""
    kinds = (Constraint, Objective, SOSConstraint, Var)
    return {
        part.name: part for part in model.component_data_objects(kinds, active=True)
    }


def _text(part: Any) -> str | None:
    """Return an expression as text: mutable Params by their names, numbers in full."""
    if part.ctype is Constraint:
        return str(part.expr)
    return f"{part.sense.name} {part.expr}" if part.ctype is Objective else None


def _facts(part: Any) -> dict[str, Any]:
    """Return what a solver sees of a part, by description."""
    if part.ctype is Var:
        return {
            "the domain": part.domain.name,
            "the lower bound": -math.inf if part.lb is None else part.lb,
            "the upper bound": math.inf if part.ub is None else part.ub,
            "the fixed value": part.value if part.fixed else None,
        }
    if part.ctype is SOSConstraint:
        return {"the list of members": [(v.name, w) for v, w in part.get_items()]}
    if part.ctype is Objective:
        constant, facts = _terms(part.expr)
        return {"the sense": part.sense.name, "the constant": constant, **facts}
    lower, body, upper = part.to_bounded_expression(evaluate_bounds=True)
    constant, facts = _terms(body)
    return {
        "the lower bound": -math.inf if lower is None else lower - constant,
        "the upper bound": math.inf if upper is None else upper - constant,
        **facts,
    }


def _terms(expr: Any) -> tuple[float, dict[str, Any]]:
    """Return the constant, and the coefficients by description."""
    repn = generate_standard_repn(expr, quadratic=True)
    if repn.nonlinear_expr is not None:
        return 0.0, {"the expression": str(expr)}
    linear = zip(repn.linear_vars, repn.linear_coefs, strict=True)
    quadratic = zip(repn.quadratic_vars, repn.quadratic_coefs, strict=True)
    facts = {f"the coefficient of '{v.name}'": c for v, c in linear}
    for pair, c in quadratic:
        names = "*".join(sorted(v.name for v in pair))
        facts[f"the coefficient of '{names}'"] = c
    return repn.constant, facts


def _params_in_use(model: BlockData, parts: dict[str, Any]) -> dict[str, Any]:
    used = {id(p) for part in parts.values() for p in _params_in(part)}
    return {key: p for key, p in _mutable_params(model).items() if id(p) in used}


def _params_in(part: Any) -> list[Any]:
    if part.ctype is Var:
        return list(chain(leaves(part.lower)[1], leaves(part.upper)[1]))
    return [] if part.ctype is SOSConstraint else leaves(part.expr)[1]


def _mutable_params(model: BlockData) -> dict[str, Any]:
    components = model.component_objects(Param, active=True)
    members = (p[index] for p in components if p.mutable for index in p)
    return {member.name: member for member in members}


def _frozen(model: BlockData) -> dict[str, dict]:
    components = model.component_objects(Param, active=True)
    return {p.name: dict(p.items()) for p in components if not p.mutable}


def _kind(part: Any) -> str:
    return part.ctype.__name__


def _equal(one: Any, another: Any) -> bool:
    if isinstance(one, Real) and isinstance(another, Real):
        return math.isclose(one, another, rel_tol=1e-9, abs_tol=1e-12)
    return one == another


def _quote(fact: Any) -> str:
    text = f"{fact:g}" if isinstance(fact, Real) else f"'{fact}'"
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}...'"

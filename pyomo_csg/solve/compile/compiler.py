"""Compile an annotated Pyomo model to arrays, from which programs are assembled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.numeric_types import native_numeric_types
from pyomo.core.expr.numvalue import value
from pyomo.repn.linear import LinearRepnVisitor
from pyomo.repn.parameterized import (
    ParameterizedLinearRepnVisitor,
    ParameterizedQuadraticRepnVisitor,
)
from pyomo.repn.util import OrderedVarRecorder, VarRecorder

from pyomo_csg.errors import ModelError
from pyomo_csg.solve.compile.compiled_model import (
    Columns,
    CompiledModel,
    Cost,
    Functions,
    Numbers,
    Rows,
    hessian_matrix,
    is_positive,
)
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.stage_inference import Uncertainty, leaves, split_cost
from pyomo_csg.transform.recourse_copy import Substitution

_DENSE = 10**6  # entries up to which slopes are a dense array, which multiplies faster
_OTHER_SOLVERS = (
    "give the oracle another solver: solver='scip_persistent' (pip install pyscipopt) "
    "or solver='gurobi_persistent' (pip install gurobipy)"
)
_NONLINEAR_SOLVERS = (
    "give the oracle a solver for nonlinear models: solver='ipopt', or "
    "solver='scip_persistent' (pip install pyscipopt)"
)


def compile_model(two_stage: TwoStageModel) -> CompiledModel:
    """Compile a two-stage model; a ModelError names everything that is not linear or quadratic."""
    return _Compiler(two_stage).compile()


class _Compiler:
    def __init__(self, two_stage: TwoStageModel):
        self._two_stage = two_stage
        params = [*two_stage.uncertain_params, *two_stage.known_params]
        self._scratch = pyo.ConcreteModel()
        self._scratch.w = pyo.Var(range(len(params)))
        self._placeholders = list(self._scratch.w.values())
        self._variables = [
            *two_stage.first_stage_variables,
            *two_stage.recourse_variables,
        ]
        # Here only the data matters: no variable counts as uncertain.
        data = Uncertainty(self._variables, params)
        self._touches = data.touches
        self._is_moving = data.is_recourse
        self._is_uncertain = two_stage.uncertainty.touches
        self._substitute = Substitution(
            data, {id(p): w for p, w in zip(params, self._placeholders, strict=True)}
        )
        self._recourse = {id(v) for v in two_stage.recourse_variables}
        self._column = {id(v): j for j, v in enumerate(self._variables)}
        free = {id(v): v for v in self._variables if not v.fixed}
        order = {key: self._column[key] for key in free}
        recorder = OrderedVarRecorder(free, order, None)
        cache: dict = {}
        self._certain = LinearRepnVisitor(cache, var_recorder=recorder)
        self._linear = ParameterizedLinearRepnVisitor(
            {}, wrt=self._placeholders, var_recorder=recorder
        )
        self._quadratic = ParameterizedQuadraticRepnVisitor(
            {}, wrt=self._placeholders, var_recorder=recorder
        )
        self._numbers = Translator(self._placeholders).numbers
        self._problems: list[str] = []

    def compile(self) -> CompiledModel:
        two_stage, width = self._two_stage, len(self._two_stage.first_stage_variables)
        known = Uncertainty(self._variables, two_stage.known_params)
        certain, moving = split_cost(two_stage.first_stage_cost, known)
        compiled = CompiledModel(
            sense=int(two_stage.sense),
            p=len(two_stage.uncertain_params),
            r=len(two_stage.known_params),
            first=self._columns(self._variables[:width], is_first=True),
            recourse=self._columns(self._variables[width:]),
            first_rows=self._rows(two_stage.first_stage_constraints),
            recourse_rows=self._rows(
                two_stage.recourse_constraints, two_stage.uncertain_bounds
            ),
            first_cost=self._cost(certain),
            recourse_cost=self._cost(two_stage.recourse_cost + moving),
        )
        if compiled.quadratic and compiled.integer:
            self._problems.append(
                f"Objective '{two_stage.objective.name}' is quadratic and the model has "
                f"integer variables; {_OTHER_SOLVERS}"
            )
        if compiled.quadratic and not _is_convex(compiled):
            self._problems.append(
                f"Objective '{two_stage.objective.name}' is quadratic but not convex; "
                f"{_OTHER_SOLVERS}"
            )
        if self._problems:
            raise ModelError(
                f"'{two_stage.model.name}' cannot be compiled for HiGHS", self._problems
            )
        return compiled

    def _columns(self, variables: list[Any], is_first: bool = False) -> Columns:
        """Return bounds; uncertain bounds of first-stage variables become recourse rows."""
        lower, upper = [], []
        for v in variables:
            if v.domain.get_interval()[2] not in (0, 1):
                self._problems.append(
                    f"Var '{v.name}' has the domain {v.domain.name}, which is neither an "
                    f"interval nor a range of integers; {_OTHER_SOLVERS}"
                )
            lower.append(v.value if v.fixed else self._bound(v._lb, -np.inf, is_first))
            upper.append(v.value if v.fixed else self._bound(v._ub, np.inf, is_first))
        domain = np.array([_domain_bounds(v) for v in variables]).reshape(-1, 2)
        return Columns(
            self._numbers(lower),
            self._numbers(upper),
            domain[:, 0],
            domain[:, 1],
            np.array([not v.is_continuous() for v in variables], bool),
        )

    def _bound(self, bound: Any, infinite: float, is_first: bool) -> Any:
        if bound is None:
            return infinite
        if bound.__class__ in native_numeric_types:
            return bound
        if not self._touches(bound):
            return value(bound)
        if is_first and self._is_uncertain(bound):
            return infinite  # it becomes a row
        return self._substitute(bound)

    def _rows(self, constraints: list[Any], bounded: Iterable[Any] = ()) -> Rows:
        found = [row for con in constraints if (row := self._row(con)) is not None]
        found += [row for v in bounded for row in self._bound_rows(v)]
        sizes = [len(entries) for entries, _, _ in found]
        return Rows(
            np.repeat(np.arange(len(found)), sizes),
            np.array([column for entries, _, _ in found for column in entries], int),
            self._numbers(e for entries, _, _ in found for e in entries.values()),
            self._numbers(-np.inf if low is None else low for _, low, _ in found),
            self._numbers(np.inf if high is None else high for _, _, high in found),
            np.array([low is not None and low is high for _, low, high in found], bool),
        )

    def _bound_rows(self, v: Any) -> Iterator[tuple[dict[int, Any], Any, Any]]:
        """Yield a row for each uncertain bound of a first-stage variable."""
        if id(v) in self._recourse:
            return
        entries = {self._column[id(v)]: 1.0}
        if self._is_uncertain(v._lb):
            yield entries, self._substitute(v._lb), None
        if self._is_uncertain(v._ub):
            yield entries, None, self._substitute(v._ub)

    def _row(self, con: Any) -> tuple[dict[int, Any], Any, Any] | None:
        if con.ctype is not pyo.Constraint:
            self._problems.append(
                f"SOSConstraint '{con.name}' is not linear; {_OTHER_SOLVERS}"
            )
            return None
        low, body, high = con.to_bounded_expression()
        repn = self._repn(body)
        if repn.nonlinear is not None:
            quantile = self._two_stage.quantile
            is_tail = quantile is not None and con is quantile.parent_block().tail
            found = f"Constraint '{con.name}' is not linear in the variables"
            if is_tail:
                found = (
                    f"Objective '{self._two_stage.objective.name}' is not linear in the "
                    "variables, and risk= makes a constraint of it"
                )
            self._problems.append(f"{found}; {_NONLINEAR_SOLVERS}")
            return None
        entries = {self._column[key]: coef for key, coef in repn.linear.items()}
        lower = self._side(low, repn.constant)
        # Both sides of an equality are one object; equal numbers may be a coincidence.
        return (
            entries,
            lower,
            lower if con.equality else self._side(high, repn.constant),
        )

    def _repn(self, body: Any) -> Any:
        _, params = leaves(body)
        if any(map(self._is_moving, params)):
            return self._linear.walk_expression(self._substitute(body))
        return self._certain.walk_expression(body)

    def _side(self, side: Any, constant: Any) -> Any:
        if side is None:
            return None
        if self._touches(side):
            return self._substitute(side) - constant
        return value(side) - constant

    def _cost(self, expr: Any) -> Cost:
        sense = int(self._two_stage.sense)
        repn = self._quadratic.walk_expression(self._substitute(expr))
        if repn.nonlinear is not None:
            self._problems.append(
                f"Objective '{self._two_stage.objective.name}' is neither linear nor "
                f"quadratic in the variables; {_NONLINEAR_SOLVERS}"
            )
        linear = [0.0] * len(self._variables)
        for key, coef in repn.linear.items():
            linear[self._column[key]] = sense * coef
        quadratic = {
            tuple(sorted((self._column[one], self._column[other]))): sense * coef
            for (one, other), coef in (repn.quadratic or {}).items()
        }
        rows, columns = np.array(list(quadratic), int).reshape(-1, 2).T
        return Cost(
            self._numbers(linear),
            self._numbers([sense * repn.constant]),
            rows,
            columns,
            self._numbers(c * (2 if i == j else 1) for (i, j), c in quadratic.items()),
        )


def _is_convex(compiled: CompiledModel) -> bool:
    """Whether the quadratic terms are convex, as far as they are certain."""
    cost = compiled.recourse_cost
    if not cost.hessian.certain:
        return True  # checked for each case
    size = len(compiled.first) + len(compiled.recourse)
    first, recourse = (
        hessian_matrix(c, c.hessian.constant, size) for c in (compiled.first_cost, cost)
    )
    return is_positive(first + recourse)


def _domain_bounds(v: Any) -> tuple[float, float]:
    low, high = (None, None) if v.fixed else v.domain.bounds()
    return (-np.inf if low is None else low), (np.inf if high is None else high)


class Translator:
    """Turns expressions of placeholders, which stand for the uncertain Params, into Numbers."""

    def __init__(self, placeholders: list[Any]):
        self._index = {id(v): i for i, v in enumerate(placeholders)}
        self._visitor = LinearRepnVisitor(
            {}, var_recorder=VarRecorder({id(v): v for v in placeholders}, None)
        )

    def numbers(self, entries: Iterable[Any]) -> Numbers:
        """Return numbers, or expressions of the placeholders, as one vector."""
        constant: list[float] = []
        affine: list[tuple[int, int, float]] = []
        texts: dict[int, str] = {}
        for position, entry in enumerate(entries):
            if entry.__class__ in native_numeric_types:
                constant.append(entry)
                continue
            repn = self._visitor.walk_expression(entry)
            if repn.nonlinear is None:
                constant.append(repn.constant)
                for key, slope in repn.linear.items():
                    affine.append((self._index[key], position, slope))
            else:
                constant.append(0.0)
                texts[position] = self._text(entry)
        return Numbers(
            np.array(constant, float),
            self._slopes(affine, len(constant)),
            np.array(list(texts), int),
            Functions(tuple(texts.values()), len(self._index)),
        )

    def _slopes(self, affine: list[tuple[int, int, float]], size: int) -> Any:
        if not affine:
            return None
        rows, columns, slopes = zip(*affine, strict=True)
        shape = (len(self._index), size)
        if np.prod(shape) <= _DENSE:
            dense = np.zeros(shape)
            np.add.at(dense, (rows, columns), slopes)
            return dense
        from scipy import sparse  # on first use: its import is slow

        matrix = sparse.coo_array((slopes, (rows, columns)), shape=shape, dtype=float)
        return matrix.tocsr()

    def _text(self, expr: Any) -> str:
        import sympy
        from pyomo.core.expr.sympy_tools import sympyify_expression

        objects, translated = sympyify_expression(expr)
        names = {
            symbol: sympy.Symbol(
                f"w{self._index[id(objects.sympy2pyomo[symbol])]}", real=True
            )
            for symbol in translated.free_symbols
        }
        return sympy.srepr(translated.xreplace(names))  # with every digit

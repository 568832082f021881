"""Copy the recourse of a model into a Block for each scenario; remove the original."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import ref

from pyomo.common.modeling import unique_component_name
from pyomo.common.numeric_types import native_types
from pyomo.core.base.block import Block, BlockData
from pyomo.core.base.boolean_var import BooleanVar
from pyomo.core.base.component import ComponentBase
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.expression import Expression
from pyomo.core.base.indexed_component import IndexedComponent
from pyomo.core.base.logical_constraint import LogicalConstraint
from pyomo.core.base.objective import Objective
from pyomo.core.base.param import Param
from pyomo.core.base.set import Set
from pyomo.core.base.sos import SOSConstraint
from pyomo.core.base.suffix import Suffix
from pyomo.core.base.var import Var
from pyomo.core.expr import ceil, floor
from pyomo.core.expr.numeric_expr import MonomialTermExpression
from pyomo.gdp import Disjunct, Disjunction
from pyomo.network import Arc, Port

from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.annotation import ANNOTATION, KNOWN, UNCERTAIN
from pyomo_csg.stages.stage_inference import (
    Uncertainty,
    group_by_component,
    leaves,
    unique,
)


class RecourseRemoval:
    """Removes the recourse and everything that refers to it, active or not.

    Only components that the model has now are removed; what is added later stays.
    """

    def __init__(self, two_stage: TwoStageModel):
        self._two_stage = two_stage
        self._model = two_stage.model
        self._touches = two_stage.uncertainty.touches
        self._roots = list(self._model.component_objects(descend_into=False))
        self._marks = list(suffix_entries(self._model))
        self._recourse_tests = {
            Var: self._touches,
            Param: self._touches,
            Expression: self._refers_to_recourse,
            Constraint: self._refers_to_recourse,
            Objective: self._refers_to_recourse,
            SOSConstraint: lambda sos: any(map(self._touches, sos.get_variables())),
            Block: self._is_left_empty,
            Disjunct: self._is_left_empty,
            # A reformulation has replaced these; they refer to the recourse only.
            BooleanVar: lambda _: True,
            LogicalConstraint: lambda _: True,
            Disjunction: lambda _: True,
            Port: lambda _: True,
            Arc: lambda _: True,
        }

    def run(self) -> None:
        """Remove everything but the first stage and what it needs."""
        for suffix, key in self._marks:
            if self._is_recourse(key):
                del suffix[key]
        for name in (UNCERTAIN, KNOWN):
            self._model.del_component(name)
        for v in self._two_stage.uncertain_bounds:
            if not self._touches(v):
                v.setlb(None if self._touches(v.lower) else v.lower)
                v.setub(None if self._touches(v.upper) else v.upper)
                v.parent_component()._rule_bounds = None
        for block in list(_all_blocks(self._model)):
            for component in list(block.component_objects(descend_into=False)):
                if _is_reference(component) and self._points_to_recourse(component):
                    block.del_component(component)
        self._remove_from(self._model, self._roots)
        self._drop_references()

    def _drop_references(self) -> None:
        """Drop rules and private data that refer to the recourse."""
        self._two_stage.objective.parent_component()._rule = None
        for block in _all_blocks(self._model):
            for scope in list(block._private_data or {}):
                if scope.startswith("pyomo.gdp"):
                    del block._private_data[scope]

    def _remove_from(self, block: BlockData, components: list[ComponentBase]) -> None:
        for component in components:
            if component.parent_block() is not block:
                continue  # removed above
            if component.local_name in block._Block_reserved_words:
                continue  # the indicators of a Disjunct, which Pyomo does not delete
            if self._is_recourse(component):
                block.del_component(component)
            elif component.ctype in (Block, Disjunct):
                for inner in component.values():
                    self._remove_from(
                        inner, list(inner.component_objects(descend_into=False))
                    )
            elif component.is_indexed() and component.ctype in self._recourse_tests:
                for index in [k for k, v in component.items() if self._is_recourse(v)]:
                    del component[index]

    def _is_recourse(self, part: Any) -> bool:
        """Return True if a component belongs to the recourse."""
        if part.__class__ in native_types or part.ctype not in self._recourse_tests:
            return False
        if part.is_indexed():
            return all(map(self._is_recourse, part.values()))
        return self._recourse_tests[part.ctype](part)

    def _points_to_recourse(self, reference: ComponentBase) -> bool:
        return any(map(self._is_recourse, reference.values()))

    def _refers_to_recourse(self, part: Any) -> bool:
        if part is self._two_stage.objective or part.expr is None:
            return False
        return self._touches(part.expr)

    def _is_left_empty(self, block: BlockData) -> bool:
        idle: tuple[type, ...] = (Suffix,)
        if block.local_name.startswith("_pyomo_gdp"):
            idle = (Suffix, Set)  # index sets that a reformulation added
        return all(
            component.ctype in idle or self._is_recourse(component)
            for component in block.component_objects(descend_into=False)
        )


def suffix_entries(model: BlockData) -> Iterator[tuple[Suffix, Any]]:
    """Yield each Suffix with each component in it, except for the annotation."""
    for block in _all_blocks(model):
        for suffix in block.component_objects(Suffix, descend_into=False):
            if suffix.local_name not in ANNOTATION:
                for component in suffix:
                    yield suffix, component


def _is_reference(component: ComponentBase) -> bool:
    return isinstance(component, IndexedComponent) and component.is_reference()


def _all_blocks(model: BlockData) -> Iterator[BlockData]:
    return model.block_data_objects(descend_into=(Block, Disjunct))


# Scenarios and known numbers are real numbers, and HiGHS 1.15 may report a suboptimal
# solution as optimal when an integer variable has a fractional bound.
_WHOLE = 1e-9  # rounding errors up to this do not move a bound to the next integer


class RecoursePart:
    """Copies the recourse of a model, once for each scenario.

    Pyomo's ``clone`` takes three times as long: it also copies index sets, the first
    stage, and every node of every expression.
    """

    def __init__(self, two_stage: TwoStageModel):
        self._two_stage = two_stage
        self._model = two_stage.model
        self._uncertainty = two_stage.uncertainty
        self._columns = {id(p): k for k, p in enumerate(two_stage.uncertain_params)}
        constraints = two_stage.recourse_constraints
        touches = self._uncertainty.touches
        bounded = (*two_stage.uncertain_bounds, *two_stage.known_bounds)
        self._recourse_bounds = [v for v in unique(bounded) if touches(v)]
        self._first_stage_bounds = [
            v for v in two_stage.uncertain_bounds if not touches(v)
        ]
        self._variables = group_by_component(two_stage.recourse_variables)
        self._params = group_by_component(two_stage.uncertain_params)
        self._expressions = group_by_component(self._named_expressions())
        self._constraints = group_by_component(
            c for c in constraints if c.ctype is Constraint
        )
        self._sos = group_by_component(
            c for c in constraints if c.ctype is SOSConstraint
        )
        self._marks = list(suffix_entries(self._model))

    def copy_into(self, block: BlockData, outcome: Iterable[float]) -> Any:
        """Copy the recourse, on an outcome, into an empty Block; return its cost."""
        copies: dict[int, Any] = {}
        home = _TargetBlocks(self._model, block)
        substitute = Substitution(self._uncertainty, copies)
        self._copy_params(home, copies, list(outcome))
        self._copy_variables(home, copies, substitute)
        self._copy_expressions(home, copies, substitute)
        for component, members in self._constraints:
            copy = home.add(component, Constraint(component.index_set()), copies)
            for con in members:
                copies[id(con)] = copy.add(con.index(), substitute(con.expr))
        for component, members in self._sos:
            copy = home.add(component, _sos_copy(component, members, copies), copies)
            copy._rule = None  # no longer needed, and it would not pickle
        self._restrict_first_stage(block, substitute)
        self._copy_suffixes(copies)
        return substitute(self._two_stage.recourse_cost)

    def _named_expressions(self) -> Iterator[Any]:
        """Yield recourse Expressions of active Blocks, without unknown variables."""
        known = {id(v) for v in self._two_stage.first_stage_variables}
        known.update(id(v) for v in self._two_stage.recourse_variables)
        for e in self._model.component_data_objects(Expression, active=True):
            if e.expr is not None and self._uncertainty.touches(e.expr):
                variables, _ = leaves(e.expr)
                if all(id(v) in known for v in variables):
                    yield e

    def _copy_params(
        self, home: _TargetBlocks, copies: dict, outcome: list[float]
    ) -> None:
        for component, members in self._params:
            values = {p.index(): outcome[self._columns[id(p)]] for p in members}
            copy = Param(
                component.index_set(),
                mutable=True,
                within=component.domain,
                units=component.get_units(),
                initialize=values if component.is_indexed() else values[None],
            )
            home.add(component, copy, copies)
            copies.update((id(p), copy[p.index()]) for p in members)

    def _copy_variables(
        self, home: _TargetBlocks, copies: dict, substitute: Substitution
    ) -> None:
        for component, members in self._variables:
            if component.is_indexed():
                copy = Var(
                    component.index_set(), dense=False, units=component.get_units()
                )
            else:
                copy = Var(units=component.get_units())
            home.add(component, copy, copies)
            for v in members:
                copies[id(v)] = _variable_copy(v, copy)

        for v in self._recourse_bounds:
            self._copy_bounds(v, copies[id(v)], substitute)

    def _copy_bounds(self, v: Any, copy: Any, substitute: Substitution) -> None:
        """Set bounds that depend on the copy's data, rounded for an integer variable."""
        moves, whole = self._two_stage.has_moving_data, not v.is_continuous()
        if moves(v.lower):
            lower = substitute(v.lower)
            copy.lower = ceil(lower - _WHOLE) if whole else lower
        if moves(v.upper):
            upper = substitute(v.upper)
            copy.upper = floor(upper + _WHOLE) if whole else upper

    def round_known_bounds(self) -> None:
        """Round bounds of first-stage integer variables that depend on known Params."""
        touches = self._uncertainty.touches
        for v in self._two_stage.known_bounds:
            if not (touches(v) or touches(v.lower) or touches(v.upper)):
                self._copy_bounds(v, v, Substitution(self._uncertainty, {}))

    def _copy_expressions(
        self, home: _TargetBlocks, copies: dict, substitute: Substitution
    ) -> None:
        for component, members in self._expressions:
            copy = home.add(component, Expression(component.index_set()), copies)
            for e in members:
                copies[id(e)] = copy.add(e.index(), None)
        for _, members in self._expressions:
            for e in members:
                copies[id(e)].set_value(substitute(e.expr))

    def _restrict_first_stage(self, block: BlockData, substitute: Substitution) -> None:
        """Add constraints for the first-stage bounds that depend on an outcome."""
        if not self._first_stage_bounds:
            return
        bounds = Constraint(["lower", "upper"], range(len(self._first_stage_bounds)))
        name = unique_component_name(block, "first_stage_bounds")
        block.add_component(name, bounds)
        for k, v in enumerate(self._first_stage_bounds):
            if self._uncertainty.touches(v.lower):
                bounds["lower", k] = v >= substitute(v.lower)
            if self._uncertainty.touches(v.upper):
                bounds["upper", k] = v <= substitute(v.upper)

    def _copy_suffixes(self, copies: dict) -> None:
        for suffix, key in self._marks:
            if id(key) in copies:
                suffix[copies[id(key)]] = suffix[key]


class Substitution:
    """Rebuilds expressions on copies, which are found by the id of the original data.

    Parts that refer to no recourse are shared, not copied.
    """

    def __init__(self, uncertainty: Uncertainty, copies: dict[int, Any]):
        self._touches: Callable[[Any], bool] = uncertainty.touches
        self._copies = copies

    def __call__(self, expr: Any) -> Any:
        """Return the expression on the copies."""
        copy = self._copies.get(id(expr))
        if copy is not None:
            return copy
        if expr.__class__ is MonomialTermExpression:
            coefficient, variable = expr.args
            if coefficient.__class__ not in native_types:
                coefficient = self(coefficient)
            return MonomialTermExpression(
                (coefficient, self._copies.get(id(variable), variable))
            )
        if not self._touches(expr) or not expr.is_expression_type():
            return expr
        if expr.is_named_expression_type():  # one that was not copied
            return self(expr.args[0])
        return expr.create_node_with_local_data([self(arg) for arg in expr.args])


class _TargetBlocks:
    """The Blocks that copies go to: the same path below another Block."""

    def __init__(self, source: BlockData, target: BlockData):
        self._blocks = {id(source): target}

    def add(
        self, component: ComponentBase, copy: ComponentBase, copies: dict[int, Any]
    ) -> Any:
        copy.doc = component.doc
        self._block(component.parent_block()).add_component(component.local_name, copy)
        copies[id(component)] = copy
        return copy

    def _block(self, source: BlockData) -> BlockData:
        if id(source) not in self._blocks:
            component = source.parent_component()
            parent = self._block(component.parent_block())
            copy = parent.component(component.local_name)
            if copy is None:
                copy = Block(component.index_set(), concrete=True, dense=False)
                parent.add_component(component.local_name, copy)
            self._blocks[id(source)] = copy[source.index()]
        return self._blocks[id(source)]


def _variable_copy(v: Any, component: Any) -> Any:
    """Copy a variable's value, bounds, domain and fixed flag.

    The slots are set directly, as in Var.construct: the setters would validate each one.
    """
    if component.is_indexed():
        copy = component._data[v.index()] = component._ComponentDataClass.copy(v)
        copy._component = ref(component)
        return copy
    for slot in ("_value", "_lb", "_ub", "_domain", "_fixed", "_stale"):
        setattr(component, slot, getattr(v, slot))
    return component


def _sos_copy(component: Any, members: list[Any], copies: dict[int, Any]) -> Any:
    by_index = {sos.index(): sos for sos in members}

    def rule(_: Any, *index: Any) -> Any:
        key = index[0] if len(index) == 1 else index or None
        if key not in by_index:
            return SOSConstraint.Skip
        items = list(by_index[key].get_items())
        return [copies.get(id(v), v) for v, _ in items], [w for _, w in items]

    return SOSConstraint(component.index_set(), rule=rule, sos=members[0].level)

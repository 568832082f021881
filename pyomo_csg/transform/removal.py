"""Taking the original recourse out of a model once it has been copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
from pyomo.gdp import Disjunct, Disjunction
from pyomo.network import Arc, Port

from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.annotation import FIRST_STAGE, UNCERTAIN


class RecourseRemoval:
    """Removes the recourse, and whatever else refers to it, active or not.

    Parameters
    ----------
    two_stage : TwoStageModel
        What stands on its model now is looked at; what is added later stays.
    """

    def __init__(self, two_stage: TwoStageModel):
        self._two_stage = two_stage
        self._model = two_stage.model
        self._touches = two_stage.uncertainty.touches
        self._roots = list(self._model.component_objects(descend_into=False))
        self._marks = list(suffix_entries(self._model))
        self._moves_by_type = {
            Var: self._touches,
            Param: self._touches,
            Expression: self._refers,
            Constraint: self._refers,
            Objective: self._refers,
            SOSConstraint: lambda sos: any(map(self._touches, sos.get_variables())),
            Block: self._is_left_empty,
            Disjunct: self._is_left_empty,
            # Once a reformulation has spoken for them, these only name what moves.
            BooleanVar: lambda _: True,
            LogicalConstraint: lambda _: True,
            Disjunction: lambda _: True,
            Port: lambda _: True,
            Arc: lambda _: True,
        }

    def run(self) -> None:
        """Leave the first stage, and what it needs, on the model."""
        for suffix, key in self._marks:
            if self._moves(key):
                del suffix[key]
        self._model.del_component(UNCERTAIN)
        for v in self._two_stage.uncertain_bounds:
            if not self._touches(v):
                v.setlb(None if self._touches(v.lower) else v.lower)
                v.setub(None if self._touches(v.upper) else v.upper)
                v.parent_component()._rule_bounds = None
        for block in list(_all_blocks(self._model)):
            for component in list(block.component_objects(descend_into=False)):
                if _is_reference(component) and self._shows_recourse(component):
                    block.del_component(component)
        self._thin_out(self._model, self._roots)
        self._forget()

    def _forget(self) -> None:
        """Let go of what was kept beside the components and refers to the recourse."""
        self._two_stage.objective.parent_component()._rule = None
        for block in _all_blocks(self._model):
            for scope in list(block._private_data or {}):
                if scope.startswith("pyomo.gdp"):
                    del block._private_data[scope]

    def _thin_out(self, block: BlockData, components: list[ComponentBase]) -> None:
        for component in components:
            if component.parent_block() is not block:
                continue  # removed above
            if component.local_name in block._Block_reserved_words:
                continue  # the indicators of a Disjunct, which Pyomo does not let go
            if self._moves(component):
                block.del_component(component)
            elif component.ctype in (Block, Disjunct):
                for inner in component.values():
                    self._thin_out(
                        inner, list(inner.component_objects(descend_into=False))
                    )
            elif component.is_indexed() and component.ctype in self._moves_by_type:
                for index in [k for k, v in component.items() if self._moves(v)]:
                    del component[index]

    def _moves(self, part: Any) -> bool:
        """Whether the root has no place for it."""
        if part.__class__ in native_types or part.ctype not in self._moves_by_type:
            return False
        if part.is_indexed():
            return all(map(self._moves, part.values()))
        return self._moves_by_type[part.ctype](part)

    def _shows_recourse(self, reference: ComponentBase) -> bool:
        return any(map(self._moves, reference.values()))

    def _refers(self, part: Any) -> bool:
        if part is self._two_stage.objective or part.expr is None:
            return False
        return self._touches(part.expr)

    def _is_left_empty(self, block: BlockData) -> bool:
        idle: tuple[type, ...] = (Suffix,)
        if block.local_name.startswith("_pyomo_gdp"):
            idle = (Suffix, Set)  # index sets of a reformulation's own
        return all(
            component.ctype in idle or self._moves(component)
            for component in block.component_objects(descend_into=False)
        )


def suffix_entries(model: BlockData) -> Iterator[tuple[Suffix, Any]]:
    """Yield each Suffix, our own apart, with each component that it marks."""
    for block in _all_blocks(model):
        for suffix in block.component_objects(Suffix, descend_into=False):
            if suffix.local_name not in (FIRST_STAGE, UNCERTAIN):
                for component in suffix:
                    yield suffix, component


def _is_reference(component: ComponentBase) -> bool:
    return isinstance(component, IndexedComponent) and component.is_reference()


def _all_blocks(model: BlockData) -> Iterator[BlockData]:
    return model.block_data_objects(descend_into=(Block, Disjunct))

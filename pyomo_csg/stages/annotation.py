"""The one call a user adds to a model, and where its answer is kept."""

from __future__ import annotations

from typing import Any

from pyomo.core.base.block import BlockData
from pyomo.core.base.component import ComponentData
from pyomo.core.base.param import Param
from pyomo.core.base.suffix import Suffix
from pyomo.core.base.var import Var

from pyomo_csg.errors import AnnotationError
from pyomo_csg.stages.selection import select

FIRST_STAGE = "csg_first_stage_variables"
UNCERTAIN = "csg_uncertain_params"


def annotate(
    model: BlockData, *, first_stage_variables: Any, uncertain_params: Any
) -> None:
    """Mark which variables are decided now and which data is uncertain.

    Every other variable is recourse: it is chosen once the uncertain data is
    known. Nothing else in the model changes. The marks are LOCAL Suffixes on the
    model, so cloning, pickling and other transformations keep them. Annotating
    again replaces them.

    Parameters
    ----------
    model : ConcreteModel
        A model of one scenario, with that scenario's data in it.
    first_stage_variables, uncertain_params
        A component, an element of one (``m.x[1]``), a slice (``m.x[:, 1]``), a name
        (``'x'``, ``'x[1]'``, ``'x[*,1]'``), or an iterable of those. Uncertain Params
        must be mutable.

    Raises
    ------
    AnnotationError
        Listing everything that cannot be marked. The model stays as it was.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> import pyomo_csg as csg
    >>> m = pyo.ConcreteModel()
    >>> m.demand = pyo.Param(mutable=True, initialize=15, within=pyo.NonNegativeReals)
    >>> m.order = pyo.Var(bounds=(0, 60))
    >>> m.sold = pyo.Var(within=pyo.NonNegativeReals)
    >>> m.stock = pyo.Constraint(expr=m.sold <= m.order)
    >>> m.market = pyo.Constraint(expr=m.sold <= m.demand)
    >>> m.cost = pyo.Objective(expr=m.order - 1.05 * m.sold)
    >>> csg.annotate(m, first_stage_variables=m.order, uncertain_params='demand')
    """
    refuse_unbuilt(model)
    variables, problems = select(
        model, first_stage_variables, Var, "first_stage_variables"
    )
    params, more = select(model, uncertain_params, Param, "uncertain_params")
    problems += more
    for name in (FIRST_STAGE, UNCERTAIN):
        taken = model.component(name)
        if taken is not None and taken.ctype is not Suffix:
            problems.append(
                f"'{name}' is the name of a {taken.ctype.__name__} of the model, but "
                "the marks are kept under that name; rename it"
            )
    if problems:
        raise AnnotationError(f"Cannot annotate '{model.name}'", problems)
    _store(model, FIRST_STAGE, variables)
    _store(model, UNCERTAIN, params)


def annotated(model: BlockData, name: str) -> list[ComponentData] | None:
    """Return what one of the two Suffixes marks, in order; None without it."""
    suffix = model.component(name)
    if suffix is None or suffix.ctype is not Suffix:
        return None
    return sorted(suffix, key=suffix.__getitem__)


def is_annotated(model: Any) -> bool:
    """Say if somebody has marked anything in a model."""
    return isinstance(model, BlockData) and any(
        annotated(model, name) is not None for name in (FIRST_STAGE, UNCERTAIN)
    )


def refuse_unbuilt(model: Any) -> None:
    """Raise unless the model is a Pyomo model with data in it."""
    if not isinstance(model, BlockData):
        raise AnnotationError(
            "Expected a Pyomo ConcreteModel",
            [f"an object of type {type(model).__name__} was given"],
        )
    if not model.parent_component().is_constructed():
        remedy = (
            "it is an AbstractModel: call instance = model.create_instance(...) first "
            "and annotate that instance"
        )
        raise AnnotationError(f"'{model.name}' holds no data yet", [remedy])


def _store(model: BlockData, name: str, marked: list[ComponentData]) -> None:
    if model.component(name) is not None:
        model.del_component(name)
    suffix = Suffix(direction=Suffix.LOCAL)
    model.add_component(name, suffix)
    for position, data in enumerate(marked):
        suffix[data] = position

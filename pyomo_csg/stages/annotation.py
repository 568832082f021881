"""csg.annotate: which variables are first stage, which Params uncertain, which known.

The annotation is stored in LOCAL Suffixes on the model.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from pyomo.common.collections import ComponentSet
from pyomo.common.numeric_types import native_numeric_types
from pyomo.core.base.block import BlockData
from pyomo.core.base.component import Component, ComponentBase, ComponentData
from pyomo.core.base.componentuid import ComponentUID
from pyomo.core.base.indexed_component import IndexedComponent, IndexedComponent_slice
from pyomo.core.base.param import Param
from pyomo.core.base.suffix import Suffix
from pyomo.core.base.var import Var

from pyomo_csg.errors import AnnotationError, shortlist
from pyomo_csg.stages.risk import MeanCVaR, add_risk, remove_risk
from pyomo_csg.validation import Problems

FIRST_STAGE = "csg_first_stage_variables"
UNCERTAIN = "csg_uncertain_params"
KNOWN = "csg_known_params"
RISK = "csg_risk"
ANNOTATION = (FIRST_STAGE, UNCERTAIN, KNOWN, RISK)


def annotate(
    model: BlockData,
    *,
    first_stage_variables: Any,
    uncertain_params: Any,
    known_params: Any = None,
    risk: MeanCVaR | None = None,
) -> None:
    """Declare which variables are first stage and which Params are uncertain.

    Every other variable is recourse: it is chosen once the uncertain data is known.
    Nothing else in the model changes. The annotation is stored in LOCAL Suffixes on the
    model, so cloning, pickling and other transformations keep it. Annotating again
    replaces it.

    Parameters
    ----------
    model : ConcreteModel
        A model of one scenario, with that scenario's data in it.
    first_stage_variables, uncertain_params
        A component, an element of one (``m.x[1]``), a slice (``m.x[:, 1]``), a name
        (``'x'``, ``'x[1]'``, ``'x[*,1]'``), or an iterable of those. Uncertain Params
        must be mutable.
    known_params : optional
        Mutable Params, in the same forms, whose values are known when the decision is
        made but differ from case to case: today's stock, tariff or fleet. They may
        stand anywhere in either stage.
    risk : MeanCVaR, optional
        Minimize a weighted sum of the mean and the CVaR of the cost instead of its
        expectation; of a profit, maximize it. The model stays as it is: programs are
        rewritten when they are made.

    Raises
    ------
    AnnotationError
        Listing everything that cannot be annotated. The model is left unchanged.

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
    check_constructed(model)
    problems = Problems(f"Cannot annotate '{model.name}'", AnnotationError)
    variables, found = select_data(
        model, first_stage_variables, Var, "first_stage_variables"
    )
    problems.add(*found)
    params, found = select_data(model, uncertain_params, Param, "uncertain_params")
    problems.add(*found)
    known: list[Any] = []
    if known_params is not None:
        known, found = select_data(
            model, known_params, Param, "known_params", is_optional=True
        )
        problems.add(*found)
    if not isinstance(risk, MeanCVaR | None):
        problems.add(
            f"risk is a {type(risk).__name__}; give csg.MeanCVaR(weight=0.5, level=0.95)"
        )
    uncertain = ComponentSet(params)
    if both := [p.name for p in known if p in uncertain]:
        problems.add(
            f"Param {shortlist(both)} is in both uncertain_params and known_params; "
            "leave it in one of them"
        )
    for name in ANNOTATION:
        existing = model.component(name)
        if existing is not None and existing.ctype is not Suffix:
            problems.add(
                f"'{name}' is the name of a {existing.ctype.__name__} of the model, but "
                "the annotation is stored under that name; rename it"
            )
    problems.raise_any()
    _store(model, FIRST_STAGE, variables)
    _store(model, UNCERTAIN, params)
    _store(model, KNOWN, known)
    _store_risk(model, model, risk if risk is not None and risk.weight else None)


def read_annotation(model: BlockData, name: str) -> list[ComponentData] | None:
    """Return the data in one of the Suffixes, in order; None if it is missing."""
    suffix = model.component(name)
    if suffix is None or suffix.ctype is not Suffix:
        return None
    return sorted(suffix, key=suffix.__getitem__)


def is_annotated(model: Any) -> bool:
    """Return True if the model has an annotation."""
    return isinstance(model, BlockData) and any(
        read_annotation(model, name) is not None for name in (FIRST_STAGE, UNCERTAIN)
    )


def check_constructed(model: Any) -> None:
    """Raise an AnnotationError unless this is a Pyomo model with data."""
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


def _store(model: BlockData, name: str, members: list[ComponentData]) -> None:
    if model.component(name) is not None:
        model.del_component(name)
    if not members:
        return
    suffix = Suffix(direction=Suffix.LOCAL)
    model.add_component(name, suffix)
    for position, data in enumerate(members):
        suffix[data] = position


def read_risk(model: BlockData) -> tuple[MeanCVaR | None, BlockData | None]:
    """Return the risk measure, and the Block that states it if the model was rewritten."""
    suffix = model.component(RISK)
    if suffix is not None and suffix.ctype is Suffix:
        for key, risk in suffix.items():
            return risk, None if key is model else key
    return None, None


def state_risk(model: BlockData) -> bool:
    """Rewrite a model with a risk measure, in place, if it is not yet; say whether it was."""
    risk, block = read_risk(model)
    if risk is None or block is not None or not is_annotated(model):
        return False
    block = add_risk(model, model.component(FIRST_STAGE), risk)
    if block is not None:
        _store_risk(model, block, risk)
    return block is not None


def withdraw_risk(model: BlockData, forget: bool = False) -> None:
    """Undo :func:`state_risk`, in place; ``forget`` the measure, too."""
    risk, block = read_risk(model)
    if block is not None:
        remove_risk(model, model.component(FIRST_STAGE), block)
    _store_risk(model, model, None if forget else risk)


def _store_risk(model: BlockData, key: Any, risk: MeanCVaR | None) -> None:
    """Keep a risk measure by the model, or by the Block that states it."""
    if model.component(RISK) is not None:
        model.del_component(RISK)
    if risk is not None:
        suffix = Suffix(direction=Suffix.LOCAL)
        model.add_component(RISK, suffix)
        suffix[key] = risk


def select_data(
    model: BlockData,
    items: Any,
    ctype: type,
    argument: str,
    is_optional: bool = False,
) -> tuple[list[ComponentBase], list[str]]:
    """Return the Var or Param data that an argument names, in order, and the problems."""
    chosen, problems = ComponentSet(), []
    for item in flatten(items):
        for found in _resolve(model, item, argument):
            if isinstance(found, str):
                problems.append(found)
            elif problem := _usage_problem(model, found, ctype, argument):
                problems.append(problem)
            else:
                chosen.update(_members(found))
    if not (chosen or problems or is_optional):
        problems.append(
            f"{argument}: nothing was given; name at least one {ctype.__name__}"
        )
    return list(chosen), problems


def flatten(items: Any) -> Iterator[Any]:
    """Yield the items of nested lists, tuples, sets and generators."""
    single = (str, ComponentBase, IndexedComponent_slice)
    if isinstance(items, single) or not isinstance(items, Iterable):
        yield items
    else:
        for item in items:
            yield from flatten(item)


def _resolve(model: BlockData, item: Any, argument: str) -> Iterator[Any]:
    """Yield the components that an item refers to, or a problem as text."""
    if isinstance(item, str):
        yield from _resolve_name(model, item, argument)
    elif isinstance(item, IndexedComponent_slice):
        yield from _resolve_slice(model, item, argument)
    elif isinstance(item, ComponentBase):
        # The data of a Reference belong to other components.
        reference = isinstance(item, IndexedComponent) and item.is_reference()
        yield from item.values() if reference else (item,)
    elif item.__class__ in native_numeric_types:
        yield (
            f"{argument}: the number {item} was given; an element of a Param that "
            "is not mutable is just a number. If this is one, declare the Param with "
            "mutable=True and build the model again"
        )
    else:
        yield (
            f"{argument}: '{item}' of type {type(item).__name__} was given; expected a "
            "component, an element of one, a slice, a name, or an iterable of those"
        )


def _resolve_slice(
    model: BlockData, item: IndexedComponent_slice, argument: str
) -> Iterator[Any]:
    try:
        found = list(item)
    except (AttributeError, KeyError) as error:
        yield f"{argument}: the slice '{item}' does not fit the model: {error}"
        return
    numbers = [
        element for element in found if element.__class__ in native_numeric_types
    ]
    if not found:
        yield f"{argument}: the slice '{item}' matches nothing"
    elif numbers:
        yield from _resolve(model, numbers[0], f"{argument}, in the slice '{item}'")
    else:
        for element in found:
            yield from _resolve(model, element, argument)


def _resolve_name(model: BlockData, name: str, argument: str) -> Iterator[Any]:
    try:
        found = ComponentUID(name).find_component_on(model)
    except (ValueError, TypeError, AttributeError, KeyError, AssertionError, OSError):
        found = None  # Pyomo raises each of these for some text that is not a name
    if isinstance(found, (IndexedComponent_slice, ComponentBase)):
        yield from _resolve(model, found, argument)
    else:
        known = [c.name for c in model.component_objects((Var, Param))]
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "check the spelling"
        yield f"{argument}: the model has no component '{name}'; {hint}"


def _usage_problem(
    model: BlockData, found: ComponentBase, ctype: type, argument: str
) -> str | None:
    """Return why a component cannot be annotated, or None if it can."""
    if found.ctype is not ctype:
        return (
            f"{argument}: '{found.name}' is a {found.ctype.__name__}; "
            f"expected a {ctype.__name__}"
        )
    if not belongs_to(model, found):
        return (
            f"{argument}: '{found.name}' belongs to another model than "
            f"'{model.name}'; give the component of the model that you annotate "
            "(a clone has components of its own)"
        )
    if ctype is Param and not found.parent_component().mutable:
        return (
            f"{argument}: Param '{found.name}' is not mutable, so its value is "
            "already baked into the expressions; declare it with "
            f"Param(..., mutable=True) and build the model again"
        )
    if isinstance(found, Component) and not len(found):
        missing = "has no value; give it one" if ctype is Param else "has no elements"
        return f"{argument}: {ctype.__name__} '{found.name}' {missing}"
    return None


def _members(found: ComponentBase) -> list[ComponentBase]:
    if found.is_indexed():
        # By index, not .values(): that creates the elements of a mutable Param which
        # only its default describes.
        return [found[index] for index in found]
    return [found]


def belongs_to(model: BlockData, component: ComponentBase) -> bool:
    """Return True if a component is still attached to the model."""
    parent = component.parent_component()
    if parent is None:
        return False
    if component is not parent and (
        component.index() not in parent or parent[component.index()] is not component
    ):
        return False
    block = parent.parent_block()
    while block is not None and block is not model:
        block = block.parent_block()
    return block is model

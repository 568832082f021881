"""Models from and for mpi-sppy: csg.from_mpisppy and TwoStageModel.to_mpisppy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from numbers import Real
from typing import TYPE_CHECKING, Any

from pyomo.common.modeling import unique_component_name
from pyomo.core.base.block import Block, BlockData
from pyomo.core.base.constraint import Constraint, ConstraintList
from pyomo.core.base.param import Param
from pyomo.core.base.range import NumericRange
from pyomo.core.base.set import RangeSet, SetData
from pyomo.core.base.var import Var
from pyomo.core.expr.numvalue import polynomial_degree

from pyomo_csg.errors import AnnotationError, CsgError, DataError, ModelError, shortlist
from pyomo_csg.interop.scenario_differences import SideBySide
from pyomo_csg.stages.annotation import (
    FIRST_STAGE,
    UNCERTAIN,
    annotate,
    check_constructed,
    flatten,
    read_annotation,
    select_data,
)
from pyomo_csg.stages.inputs import scenario_array, weight_vector
from pyomo_csg.stages.model_checks import active_objectives, is_discrete
from pyomo_csg.stages.stage_inference import Uncertainty, is_zero, split_cost
from pyomo_csg.stages.two_stage import TwoStageModel
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def mutable_params(names: Collection[str]) -> Iterator[None]:
    """Make Params with these names mutable, and their domains intervals, as they are built.

    An AbstractModel constructs its Params in each instance, so this applies to them too.
    """
    construct = Param.construct

    def construct_mutable(param: Any, data: Any = None) -> None:
        if not param.is_constructed() and param.local_name in names:
            param._mutable = True
            param.domain = _spanned_interval(param.domain)
        construct(param, data)

    Param.construct = construct_mutable
    try:
        yield
    finally:
        Param.construct = construct


def _spanned_interval(domain: SetData) -> SetData:
    """Return the interval around a discrete domain; other domains unchanged."""
    if not is_discrete(domain):
        return domain
    low, high, _ = domain.get_interval()
    whole = NumericRange(low, high, 0)
    return RangeSet(ranges=[whole], name=str(whole))


Creator = Callable[[str], BlockData]
ScenarioCreator = Callable[..., BlockData]


def from_mpisppy(
    scenario_creator: Callable[..., BlockData],
    scenario_names: Iterable[str],
    uncertain_params: Any = None,
    **kwargs: Any,
) -> tuple[BlockData, pd.DataFrame, pd.Series]:
    """Turn an mpi-sppy model into an annotated model and a table of its scenarios.

    The first-stage variables are those of the root node (``attach_root_node``, or
    ``_mpisppy_node_list``), including those that are equal in the extensive form only. The
    uncertain data is what differs between the scenarios. Each scenario is built once, and
    must be the first one's model with other values in its mutable Params.

    Parameters
    ----------
    scenario_creator : callable
        As in mpi-sppy: a function from a name (and ``kwargs``) to that scenario's model.
    scenario_names : iterable of str
    uncertain_params : name or iterable of names, optional
        The uncertain Params. Those that are not mutable are made mutable while the
        scenario_creator runs, and a domain with gaps becomes the interval around it:
        [0, 1] for ``Binary``. Default: all mutable Param data that differs between the
        scenarios.
    **kwargs
        Passed to ``scenario_creator``.

    Returns
    -------
    model : ConcreteModel
        Annotated, with the data of the first scenario.
    scenarios : DataFrame
        One row per scenario, by its name; one column per uncertain number.
    weights : Series
        The scenarios' probabilities, divided by their sum.

    Raises
    ------
    ModelError
        If the scenarios are not one two-stage model with different data, for instance
        because data that differs is not in a mutable Param. The error names each
        such component and the remedy.
    AnnotationError
        If a Param in ``uncertain_params`` cannot be annotated.
    DataError
        If names repeat, or probabilities are not numbers from 0 to 1.

    Examples
    --------
    >>> import contextlib, io
    >>> import pyomo_csg as csg
    >>> with contextlib.redirect_stdout(io.StringIO()):  # mpi-sppy prints
    ...     from mpisppy.tests.examples import farmer
    >>> names = farmer.scenario_names_creator(3)
    >>> model, scenarios, weights = csg.from_mpisppy(farmer.scenario_creator, names)
    >>> scenarios
           Yield[WHEAT0]  Yield[CORN0]  Yield[SUGAR_BEETS0]
    scen0            2.0           2.4                 16.0
    scen1            2.5           3.0                 20.0
    scen2            3.0           3.6                 24.0
    >>> round(csg.Oracle(model).solve(scenarios, weights).value, 6)
    -108390.0
    """
    if not callable(scenario_creator):
        found = f"a {type(scenario_creator).__name__} was given; give a function"
        raise DataError("scenario_creator makes no scenarios", [found])
    names = _read_names(scenario_names)
    create: Creator = partial(scenario_creator, **kwargs)
    if uncertain_params is not None:
        create = _make_mutable(create, names[0], uncertain_params)
    model = _build_scenario(create, names[0])
    first_stage = _first_stage(model)
    probabilities = [_probability(model)]
    sides = SideBySide(names[0], model)
    for name in names[1:]:
        scenario = _build_scenario(create, name)
        probabilities.append(_probability(scenario))
        sides.compare(name, scenario)
        if _names(_first_stage(scenario)) != _names(first_stage):
            sides.problems["root node"] = (
                f"the root node of '{name}' lists other variables than that of "
                f"'{names[0]}'; list the same for each scenario"
            )
    sides.restore()
    table = sides.table()
    uncertain = _uncertain_params(sides, table, uncertain_params)
    annotate(model, first_stage_variables=first_stage, uncertain_params=uncertain)
    del model._mpisppy_node_list  # with it, unpickling the model needs mpi-sppy
    two_stage = TwoStageModel(model)
    columns = _names(two_stage.uncertain_params)
    outcomes = scenario_array(two_stage, table[columns])
    weights = weight_vector(_normalize(probabilities), outcomes)
    import pandas as pd

    scenarios = pd.DataFrame(outcomes, index=names, columns=columns)
    return model, scenarios, pd.Series(weights, index=names, name="weight")


def _read_names(scenario_names: Iterable[str]) -> list[str]:
    listed = isinstance(scenario_names, Iterable)
    unlisted = not listed or isinstance(scenario_names, str)
    names = [] if unlisted else [str(name) for name in scenario_names]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice or not names:
        found = f"{shortlist(twice)} twice" if twice else repr(scenario_names)
        raise DataError(
            "scenario_names does not name the scenarios",
            [f"{found} was given; expected a list of different names"],
        )
    return names


def _build_scenario(create: Creator, name: str) -> BlockData:
    """Return the model of a scenario; raise if it does not have two stages."""
    model = create(name)
    check_constructed(model)
    nodes = getattr(model, "_mpisppy_node_list", ())
    if len(nodes) != 1:
        found = (
            f"it has the nodes {shortlist(node.name for node in nodes)}, more than two "
            "stages; build a scenario tree whose only node is the root"
            if nodes
            else "it has no _mpisppy_node_list; let the scenario_creator call "
            "attach_root_node(model, cost, variables)"
        )
        raise ModelError(f"Scenario '{name}' is not a two-stage scenario", [found])
    return model


def _first_stage(model: BlockData) -> list[Any]:
    """Return the variables that are equal in all scenarios of the extensive form.

    Surrogates are left out: the others determine their values.
    """
    (root,) = model._mpisppy_node_list
    listed = (*root.nonant_vardata_list, *root.nonant_ef_suppl_vardata_list)
    return [v for v in listed if v not in root.surrogate_vardatas]


def _uncertain_params(sides: SideBySide, table: pd.DataFrame, given: Any) -> Any:
    """Return the Params to annotate; raise if other data differs."""
    problems = list(sides.problems.values())
    differ = [column for column in table if table[column].nunique() > 1]
    if problems and sides.frozen:
        problems.append(
            f"Param {shortlist(sides.frozen)} differs between the scenarios and is not "
            "mutable; declare it with Param(..., mutable=True), or name it in "
            "uncertain_params"
        )
    if given is not None:
        chosen, _ = select_data(sides.model, given, Param, "uncertain_params")
        if missed := [name for name in differ if name not in _names(chosen)]:
            problems.append(
                f"Param {shortlist(missed)} differs between the scenarios but is not in "
                "uncertain_params; add it"
            )
    elif not differ and not problems:
        problems.append(
            "no mutable Param differs between them; give more scenario_names, or name "
            "the uncertain Params in uncertain_params"
        )
    if problems:
        raise ModelError(
            "The scenarios are not the same model with different data", problems
        )
    return [sides.params[name] for name in differ] if given is None else given


def _make_mutable(create: Creator, name: str, uncertain_params: Any) -> Creator:
    """Return a creator that makes the Params of these names mutable.

    Params that are not mutable are made mutable while it runs; the model must stay the
    same otherwise.
    """
    model = _build_scenario(create, name)
    _, problems = select_data(model, uncertain_params, Param, "uncertain_params")
    if not problems:
        return create
    names = _component_names(uncertain_params)

    def mutable(name: str) -> BlockData:
        with mutable_params(names):
            return create(name)

    subject = f"Cannot annotate scenario '{name}'"
    try:
        built = mutable(name)
    except Exception as error:  # code that expects numbers may raise anything
        raise AnnotationError(subject, problems) from error
    sides = SideBySide(name, model)
    sides.compare(f"{name}, with mutable Params", built)
    _, remaining = select_data(built, uncertain_params, Param, "uncertain_params")
    if remaining or sides.problems:
        raise AnnotationError(subject, remaining or problems)
    return mutable


def _component_names(given: Any) -> set[str]:
    """Return the local names of Params: 'p' of 'b.p' and of 'p[1]'."""
    whole = (re.sub(r"\[[^]]*\]", "", str(item)) for item in flatten(given))
    return {name.rpartition(".")[2] for name in whole}


def _probability(model: BlockData) -> Any:
    return getattr(model, "_mpisppy_probability", "uniform")


def _normalize(probabilities: list[Any]) -> Any:
    """Return probabilities that sum to 1, as in mpi-sppy's extensive form."""
    share = 1 / len(probabilities)
    numbers = [share if p == "uniform" else p for p in probabilities]
    if strange := [p for p in numbers if not isinstance(p, Real)]:
        found = f"_mpisppy_probability is {strange[0]!r}; give a number from 0 to 1"
        raise DataError("The probabilities do not fit", [found])
    total = sum(numbers)
    return [p / total for p in numbers] if total > 0 else numbers


def _names(data: Iterable[Any]) -> list[str]:
    return [item.name for item in data]


def export(
    two_stage: TwoStageModel, scenarios: Any, weights: Any
) -> tuple[ScenarioCreator, list[str], dict[str, Any]]:
    """Return what :meth:`TwoStageModel.to_mpisppy` does."""
    if find_spec("mpisppy") is None:
        raise CsgError(
            "mpi-sppy is not installed; install it by pip install pyomo-csg[mpi]"
        )
    problems = Problems(f"The data does not fit '{two_stage.model.name}'")
    outcomes = problems.check("scenarios", scenario_array, two_stage, scenarios)
    probabilities = problems.check("weights", weight_vector, weights, outcomes)
    problems.raise_any()
    names = _scenario_names(scenarios, len(outcomes))
    kwargs = {
        "model": two_stage.model,
        "outcomes": dict(zip(names, outcomes.tolist(), strict=True)),
        "probabilities": dict(zip(names, probabilities.tolist(), strict=True)),
    }
    return scenario_creator, names, kwargs


def scenario_creator(
    scenario_name: str,
    model: BlockData,
    outcomes: Mapping[str, Sequence[float]],
    probabilities: Mapping[str, float],
) -> BlockData:
    """Return one scenario for mpi-sppy: a clone of the model, with its root node attached."""
    from mpisppy.utils import sputils  # prints, and starts MPI

    scenario = model.clone()
    first_stage = read_annotation(scenario, FIRST_STAGE) or []
    uncertain = read_annotation(scenario, UNCERTAIN) or []
    for param, number in zip(uncertain, outcomes[scenario_name], strict=True):
        param.set_value(number)
    cost = _separate_stages(scenario, first_stage, uncertain)
    sputils.attach_root_node(scenario, cost, first_stage)
    scenario._mpisppy_probability = probabilities[scenario_name]
    return scenario


def _separate_stages(
    scenario: BlockData, first_stage: list[Any], uncertain: list[Any]
) -> Any:
    """Add a recourse variable to all uncertain data; return the first-stage cost.

    mpi-sppy's L-shaped method reads the costs, constraints and bounds that hold no
    recourse variable from one scenario alone, and counts a constant of the objective
    once more for each scenario. The scenario's optima do not change.
    """
    stages = Uncertainty(first_stage, uncertain)
    recourse = Uncertainty(first_stage, [])
    block = Block(concrete=True)
    name = unique_component_name(scenario, "uncertain_first_stage")
    scenario.add_component(name, block)
    block.zero = Var()
    block.zero.fix(0)
    block.bounds = ConstraintList()
    for con in list(scenario.component_data_objects(Constraint, active=True)):
        if stages.touches(con.expr) and not recourse.touches(con.expr):
            lower, body, upper = con.to_bounded_expression()
            con.set_value((lower, body + block.zero, upper))
    for v in first_stage:
        if stages.touches(v.lower):
            block.bounds.add(v + block.zero >= v.lower)
            v.setlb(None)
        if stages.touches(v.upper):
            block.bounds.add(v + block.zero <= v.upper)
            v.setub(None)
    return _separate_cost(scenario, block, stages, recourse)


def _separate_cost(
    scenario: BlockData, block: BlockData, stages: Uncertainty, recourse: Uncertainty
) -> Any:
    """Replace uncertain first-stage costs and constants by a recourse variable.

    Only if they are linear: most solvers do not take an equation with quadratic terms.
    """
    (objective,) = active_objectives(scenario)
    first, second = split_cost(objective.expr, stages)
    constant, first = split_cost(first, Uncertainty([], []))
    early, second = split_cost(second, recourse)
    moved = constant + early
    if not is_zero(moved) and polynomial_degree(moved) in (0, 1):
        block.cost = Var()
        block.equation = Constraint(expr=block.cost == moved)
        objective.set_value(first + block.cost + second)
    return first


def _scenario_names(scenarios: Any, count: int) -> list[str]:
    """Return a DataFrame's labels if they are text, as mpi-sppy's names are."""
    labels = list(scenarios.index) if hasattr(scenarios, "columns") else []
    if not labels or not all(isinstance(label, str) for label in labels):
        return [f"scenario{k}" for k in range(1, count + 1)]
    twice = [label for label, number in Counter(labels).items() if number > 1]
    if twice:
        raise DataError(
            "The scenarios do not fit mpi-sppy",
            [
                f"the label {shortlist(twice)} is used more than once; give each row its own"
            ],
        )
    return labels

"""csg.read_smps: two-stage problems in SMPS files as annotated models."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.core.base.block import BlockData
from pyomo.core.expr.numeric_expr import LinearExpression

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.interop.smps_core import Core, read_core
from pyomo_csg.interop.smps_periods import Periods, read_periods
from pyomo_csg.interop.smps_stoch import (
    Discrete,
    Entry,
    Group,
    Stoch,
    core_value,
    read_stoch,
)
from pyomo_csg.stages import annotate
from pyomo_csg.validation import Problems

logger = logging.getLogger(__name__)

ENDINGS = {
    "core": (".cor", ".core", ".mps"),
    "time": (".tim", ".time"),
    "stoch": (".sto", ".stoch", ".stc"),
}
PathLike = str | os.PathLike[str]
_PARAMS = ("rhs", "matrix", "cost", "lower", "upper")


@dataclass(frozen=True, repr=False)
class SmpsProblem:
    """A two-stage problem that :func:`read_smps` has read.

    Attributes
    ----------
    name : str
        As in the core file; the file's own name if it has none.
    model : ConcreteModel
        Annotated, with the core's data in it.
    files : tuple of Path
        Core, time and stoch.
    """

    name: str
    model: BlockData
    files: tuple[Path, Path, Path]
    _groups: list[Group]
    _size: int

    def __repr__(self) -> str:
        count = self.scenario_count
        shown = "continuous" if count is None else f"{_readable(count)} scenarios"
        return f"<SmpsProblem '{self.name}': {shown}>"

    @property
    def scenario_count(self) -> int | None:
        """The number of scenarios; None if a distribution is continuous."""
        discrete = self._discrete
        if len(discrete) < len(self._groups):
            return None
        return math.prod(len(group.probabilities) for group in discrete)

    def scenarios(self, limit: int = 100_000) -> tuple[np.ndarray, np.ndarray]:
        """Enumerate the joint distribution.

        Parameters
        ----------
        limit : int, optional
            The largest number of scenarios to enumerate.

        Returns
        -------
        values : array (n, p)
            In the order of the model's uncertain numbers.
        weights : array (n,)
            Probabilities.

        Raises
        ------
        DataError
            If there are more than ``limit``, or infinitely many.
        """
        problems = Problems(f"Cannot enumerate the scenarios of '{self.name}'")
        problems.check_counts(limit=limit)
        problems.raise_any()
        count = self.scenario_count
        if count is None:
            problems.add("a distribution is continuous; call sample(n, seed) instead")
        elif count > limit:
            problems.add(
                f"there are {_readable(count)}, more than limit={limit:,}; call sample(n, seed) "
                "instead, or raise the limit"
            )
        problems.raise_any()
        shape = tuple(len(group.probabilities) for group in self._discrete)
        places = np.unravel_index(
            np.arange(math.prod(shape)), shape
        )  # the last group is fastest
        values, weights = (
            np.empty((len(places[0]), self._size)),
            np.ones(len(places[0])),
        )
        for group, place in zip(self._discrete, places, strict=True):
            values[:, group.positions] = group.values[place]
            weights *= group.probabilities[place]
        return values, weights / weights.sum()

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """Draw independent scenarios.

        Parameters
        ----------
        n : int
        seed : int, optional

        Returns
        -------
        array (n, p)
            The scenarios; each has the weight 1/n.
        """
        problems = Problems(f"Cannot sample scenarios of '{self.name}'")
        problems.check_counts(n=n)
        problems.check_seed(seed)
        problems.raise_any()
        rng = np.random.default_rng(seed)
        values = np.empty((n, self._size))
        for group in self._groups:
            values[:, group.positions] = group.draw(n, rng)
        return values

    @property
    def _discrete(self) -> list[Discrete]:
        return [group for group in self._groups if isinstance(group, Discrete)]


def read_smps(
    path: PathLike,
    time: PathLike | None = None,
    stoch: PathLike | None = None,
    *,
    fixed: bool | None = None,
) -> SmpsProblem:
    """Read a two-stage problem from its core, time and stoch files.

    Core files are MPS: free or fixed format, RANGES, all types of BOUNDS but
    semi-continuous ones, integer markers, OBJSENSE. Time files may be implicit or
    explicit. Stoch files have INDEP (DISCRETE, NORMAL, UNIFORM), BLOCKS (DISCRETE) or
    SCENARIOS, each with the modes REPLACE, ADD and MULTIPLY. Right-hand sides, matrix
    entries, costs and bounds may be uncertain.

    In the model, variables are ``first_stage`` and ``recourse``, constraints ``rows``,
    indexed by the names in the file. Uncertain numbers are ``rhs[row]``,
    ``matrix[row, column]``, ``cost[column]``, ``lower[column]`` and ``upper[column]``.

    Parameters
    ----------
    path : str or path
        The common part of the three names, such as ``'data/ssn'``; one of the three
        files, if the others are in the same folder; or the core file, with ``time`` and
        ``stoch``.
    time, stoch : str or path, optional
        The time and stoch files.
    fixed : bool, optional
        Whether to read fields by column instead of splitting at spaces. Default: True if
        names contain spaces.

    Returns
    -------
    SmpsProblem

    Raises
    ------
    DataError
        Naming file, line and section, what was found, and what to do.

    Examples
    --------
    >>> import os, tempfile
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import farmer
    >>> stem = os.path.join(tempfile.mkdtemp(), 'farmer')
    >>> files = csg.write_smps(farmer.build(), farmer.scenarios(3), None, stem)
    >>> problem = csg.read_smps(stem)
    >>> problem
    <SmpsProblem 'farmer': 3 scenarios>
    >>> values, weights = problem.scenarios()
    >>> round(csg.Oracle(problem.model).solve(values, weights).value)
    -108390
    """
    core_path, time_path, stoch_path = _locate(path, time, stoch)
    core = read_core(core_path, fixed)
    periods = read_periods(time_path, core)
    data = read_stoch(stoch_path, core, periods)
    names = list(dict.fromkeys(n for n in (core.name, periods.name, data.name) if n))
    if len(names) > 1:
        logger.warning(
            "'%s': the three files have different names: %s; make sure that they "
            "belong together",
            *(core.path, shortlist(names)),
        )
    model = build_model(core, periods, data)
    files = core.path, periods.path, data.path
    return SmpsProblem(model.name, model, files, data.groups, len(data.entries))


def is_smps_file(path: PathLike) -> bool:
    """Return True if a file's ending is one of SMPS."""
    return Path(path).suffix.lower() in sum(ENDINGS.values(), ())


def _locate(
    path: PathLike, time: PathLike | None, stoch: PathLike | None
) -> list[Path]:
    for value in (path, time, stoch):
        if value is not None and not isinstance(value, str | os.PathLike):
            found = "it is not a path; give the name of a file"
            raise DataError(f"'{value!s:.80}' cannot be read", [found])
    if (time is None) != (stoch is None):
        found = f"only the {'stoch' if time is None else 'time'} file was given with it"
        raise DataError(
            f"'{path}' cannot be read", [f"{found}; give all three, or one"]
        )
    if time is not None and stoch is not None:
        return [Path(path), Path(time), Path(stoch)]
    stem = Path(path)
    if is_smps_file(stem):
        stem = stem.with_suffix("")
    return [_beside(stem, Path(path), kind, known) for kind, known in ENDINGS.items()]


def _beside(stem: Path, given: Path, kind: str, endings: Sequence[str]) -> Path:
    """Return the file of one kind, which may have several endings in either case."""
    if given.suffix.lower() in endings and given.is_file():
        return given
    tried = [stem.with_name(stem.name + one) for one in endings]
    tried += [stem.with_name(stem.name + one.upper()) for one in endings]
    for place in tried:
        if place.is_file():
            return place
    found = (
        f"there is no {kind} file '{tried[0]}'; put it there, or give all three paths"
    )
    raise DataError(f"'{given}' cannot be read", [found])


def _readable(count: int) -> str:
    """Return an integer with all digits, or as 'about 1.2e70' if it has many."""
    digits = str(count)  # float overflows beyond 1e308
    if len(digits) <= 15:
        return f"{count:,}"
    return f"about {digits[0]}.{digits[1]}e{len(digits) - 1}"


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
    anything = next(iter(variables))  # a row without entries multiplies it by 0
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

"""csg.read_smps: two-stage problems in SMPS files as annotated models."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.interop.smps_core import read_core
from pyomo_csg.interop.smps_distributions import (
    Group,
    count_scenarios,
    enumerate_scenarios,
    sample_scenarios,
)
from pyomo_csg.interop.smps_model import build_model
from pyomo_csg.interop.smps_periods import read_periods
from pyomo_csg.interop.smps_stoch import read_stoch
from pyomo_csg.validation import Problems

logger = logging.getLogger(__name__)

ENDINGS = {
    "core": (".cor", ".core", ".mps"),
    "time": (".tim", ".time"),
    "stoch": (".sto", ".stoch", ".stc"),
}
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
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
    _groups: list[Group] = field(repr=False)
    _size: int = field(repr=False)

    @property
    def scenario_count(self) -> int | None:
        """The number of scenarios; None if a distribution is continuous."""
        return count_scenarios(self._groups)

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
            # Exact up to what can be read: integers of many digits are long.
            size = f"{count:,}" if count < 10**15 else f"about {_rounded(count)}"
            problems.add(
                f"there are {size}, more than limit={limit:,}; call sample(n, seed) "
                "instead, or raise the limit"
            )
        problems.raise_any()
        return enumerate_scenarios(self._groups, self._size)

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """Draw scenarios independently of each other.

        Parameters
        ----------
        n : int
        seed : int, optional

        Returns
        -------
        array (n, p)
            Each has the weight 1/n.
        """
        problems = Problems(f"Cannot sample scenarios of '{self.name}'")
        problems.check_counts(n=n)
        problems.check_seed(seed)
        problems.raise_any()
        return sample_scenarios(self._groups, self._size, n, seed)


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
        What the three names have in common, such as ``'data/ssn'``; one of the three
        files, if the others are beside it; or the core file, with the next two.
    time, stoch : str or path, optional
        The time and stoch files.
    fixed : bool, optional
        Whether fields are told by their columns, not by spaces. Default: if names
        contain spaces.

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
    >>> from models import farmer
    >>> stem = os.path.join(tempfile.mkdtemp(), 'farmer')
    >>> files = csg.write_smps(farmer.build(), farmer.scenarios(3), None, stem)
    >>> problem = csg.read_smps(stem)
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
        found = (
            f"only the {'stoch' if time is None else 'time'} file was given beside it"
        )
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


def _rounded(count: int) -> str:
    """Return a large integer as 1.2e70; float overflows beyond 1e308."""
    digits = str(count)
    return f"{digits[0]}.{digits[1]}e{len(digits) - 1}"

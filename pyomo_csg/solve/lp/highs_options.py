"""Options of HiGHS: the exact ones, and checks of the user's."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

import highspy

from pyomo_csg.errors import DataError

_OK = highspy.HighsStatus.kOk
EXACT_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    "small_matrix_value": 1e-12,  # the least it accepts; smaller entries are dropped
}
_NEEDED = {"solver": ("choose", "simplex"), "run_crossover": ("on",)}
_TYPES = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


def check_options(
    options: Mapping[str, Any] | None, basis: bool = False
) -> dict[str, Any]:
    """Return HiGHS options, or raise a DataError that suggests the nearest names.

    With ``basis``, also refuse options that leave no exact basis.
    """
    known = [name for name in dir(highspy.HighsOptions()) if not name.startswith("_")]
    problems = []
    for name in options or {}:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=3)
            hint = (
                f"did you mean {' or '.join(near)}?" if near else "see HiGHS's manual"
            )
            problems.append(f"HiGHS has no option '{name}'; {hint}")
    if not problems:
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        for name, value in (options or {}).items():
            if not _accepts(solver, name, value):
                problems.append(
                    f"HiGHS does not take {value!r} for option '{name}'; give "
                    f"{_TYPES[type(solver.getOptionValue(name)[1])]}"
                )
    for name, allowed in _NEEDED.items() if basis else ():
        if options is not None and name in options and options[name] not in allowed:
            problems.append(
                f"option '{name}' is {options[name]!r}; the oracle needs "
                f"{' or '.join(repr(a) for a in allowed)}, for an exact basis"
            )
    if basis and options is not None and options.get("threads", 1) != 1:
        problems.append(
            "option 'threads' must be 1, since HiGHS uses one thread count for the "
            "whole process; use workers= instead"
        )
    if problems:
        raise DataError("The solver's options do not fit", problems)
    return dict(options or {})


def _accepts(solver: Any, name: str, value: Any) -> bool:
    """Whether HiGHS accepts a value; it would accept NaN, so that is refused here."""
    if isinstance(value, float) and math.isnan(value):
        return False
    is_numeric = type(solver.getOptionValue(name)[1]) in (int, float)
    if is_numeric and isinstance(value, str | bool):  # HiGHS would convert them
        return False
    try:
        return solver.setOptionValue(name, value) == _OK
    except (TypeError, ValueError):
        return False

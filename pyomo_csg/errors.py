"""Every error that pyomo_csg raises, in one tree under :class:`CsgError`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from pyomo.common.errors import PyomoException


class CsgError(PyomoException):
    """Base of every error that pyomo_csg raises.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> m = newsvendor.build()
    >>> try:
    ...     csg.annotate(m, first_stage_variables="ordr", uncertain_params="demand")
    ... except csg.CsgError as error:
    ...     print(error)
    Cannot annotate 'newsvendor':
      - first_stage_variables: the model has no component 'ordr'; did you mean order?
    """


class ProblemsError(CsgError):
    """An error that lists every problem found, not only the first.

    Parameters
    ----------
    subject : str
        What was being checked.
    problems : iterable of str
        One line for each: the component, what was found, what to do.

    Attributes
    ----------
    problems : tuple of str
    """

    def __init__(self, subject: str, problems: Iterable[str]):
        self.subject = subject
        self.problems = tuple(problems)
        super().__init__(subject, self.problems)

    def __str__(self) -> str:
        return "\n  - ".join([f"{self.subject}:", *self.problems])


class AnnotationError(ProblemsError):
    """:func:`pyomo_csg.annotate` was called with something that it cannot annotate."""


class ModelError(ProblemsError):
    """An annotated model that is not a usable two-stage model."""


class DataError(ProblemsError):
    """Scenarios, weights, outcomes or decisions that do not fit the model."""


class SolveError(CsgError):
    """A program that could not be solved.

    Attributes
    ----------
    case : int
        The number of the case in its batch, from 0.
    status : str
        ``'infeasible'``, ``'unbounded'``, ``'time limit'``, ...
    detail : str
        More about the cause; often empty.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> m = newsvendor.build()
    >>> m.sold.setlb(100)
    >>> try:
    ...     csg.Oracle(m).solve([[10.0], [14.0]])
    ... except csg.SolveError as error:
    ...     error.case, error.status
    (0, 'infeasible')
    """

    def __init__(
        self,
        case: int,
        status: str,
        detail: str = "",
        program: Callable[[], Any] | None = None,
    ):
        super().__init__(case, status, detail)
        self.case = case
        self.status = status
        self.detail = detail
        self._program = program

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return (
            f"Case {self.case}: {self.status}{detail}. To look at its program, call "
            "error.write('case.lp')"
            + self._is_infeasible
            * "; error.explain() names what conflicts"
        )

    @property
    def _is_infeasible(self) -> bool:
        return self.status == "infeasible"

    def replace(self, detail: str | None = None, case: int | None = None) -> SolveError:
        """Return the same error with another detail, or of another case."""
        return SolveError(
            self.case if case is None else case,
            self.status,
            self.detail if detail is None else detail,
            self._program,
        )

    def __reduce__(self) -> Any:
        return SolveError, (self.case, self.status, self.detail)

    def explain(self) -> Any:
        """Return which constraints and bounds of an infeasible program conflict.

        ``print`` the result to read it. It is an irreducible set: if any one is left out, the
        others can be satisfied, unless that takes longer than half a minute to find.

        Raises
        ------
        CsgError
            If the program is not infeasible, is not linear, or was solved elsewhere.

        Examples
        --------
        >>> import pyomo.environ as pyo
        >>> import pyomo_csg as csg
        >>> from pyomo_csg.zoo import newsvendor
        >>> m = newsvendor.build()
        >>> m.least = pyo.Constraint(expr=m.sold >= 20)
        >>> try:
        ...     csg.Oracle(m).solve([[15.0]])
        ... except csg.SolveError as error:
        ...     print(error.explain().constraints)
        ('scenario[1].market', 'scenario[1].least')
        """
        if not self._is_infeasible:
            raise CsgError(
                f"The program of case {self.case} is not infeasible, but '{self.status}'"
            )
        find = getattr(self._program, "conflict", None)
        if find is None:
            raise CsgError(
                f"The program of case {self.case} is not available in this process"
            )
        return find()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the program, with the model's names, to a file such as case.lp."""
        if self._program is None:
            raise CsgError(
                f"The program of case {self.case} is not available in this process"
            )
        from pyomo_csg.storage import writable_path  # which knows these errors

        place = writable_path(path)
        try:
            self._program().write(
                str(place), io_options={"symbolic_solver_labels": True}
            )
        except ValueError as error:
            found = f"{error}; give a name that ends in .lp, .mps or .nl"
            raise DataError(f"'{place}' cannot be written", [found]) from None


def shortlist(names: Iterable[str], most: int = 5) -> str:
    """Join names for a message, the first few of them when there are many."""
    names = list(names)
    shown = ", ".join(f"'{name}'" for name in names[:most])
    more = len(names) - most
    return shown if more <= 0 else f"{shown} and {more} more"

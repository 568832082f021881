"""Find Pyomo's solvers by name, check that they are available, and set exact options."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pyomo.core.base.block import BlockData
from pyomo.core.base.var import Var

from pyomo_csg.errors import ModelError, shortlist
from pyomo_csg.solve.pyomo_solvers.interfaces import (
    CONTRIB,
    Interface,
    availability,
    make_interface,
    solver_names,
)
from pyomo_csg.solve.pyomo_solvers.option_checks import option_problems
from pyomo_csg.solve.pyomo_solvers.solver_profiles import PROFILES, Profile
from pyomo_csg.validation import Problems


class SolverKind:
    """One of Pyomo's solvers with its options, ready to take programs.

    ``name`` is that of a solver of ``pyomo.contrib.appsi``, such as ``'appsi_highs'``, or of
    ``pyomo.contrib.solver``, such as ``'scip_persistent'``, where the prefix ``'contrib_'`` is
    required for ``'contrib_highs'`` only. ``options`` override the exact settings;
    ``time_limit``, in seconds per program, works with every solver. ``brand`` is the solver
    behind the interface, such as ``'gurobi'``. A ModelError is raised for a solver that is
    not available, a DataError for an invalid option.
    """

    def __init__(self, name: str, options: Mapping[str, Any] | None = None):
        self.name = name
        self._family, self._key = _find_solver(name)
        self.brand = self._key.split("_")[0]
        self.profile = PROFILES.get(
            self.brand, Profile(f"see the manual of {self.brand}")
        )
        found = availability(self._family, self._key)
        if not found:
            raise _unavailable(name, found, self.profile)
        own = dict(options or {})
        self.time_limit: float | None = own.pop("time_limit", None)
        problems = Problems("The solver's options do not fit")
        problems.add(*option_problems(self.brand, self.profile.exact, own))
        if self.time_limit is not None:
            problems.check_positive(time_limit=self.time_limit)
        problems.raise_any()
        self.options = {**self.profile.exact, **own}

    def make(self) -> Interface:
        """Return a new solver, which checks for changed Params only."""
        return make_interface(self._family, self._key)

    def refuse_integers(self, model: BlockData) -> None:
        """Raise if the model has integer variables and the solver would relax them."""
        if self.profile.has_integers:
            return
        for v in model.component_data_objects(Var):
            if not v.is_continuous() and not v.fixed:
                found = f"'{v.name}' is an integer variable, which it would relax"
                raise ModelError(
                    f"'{self.name}' does not take '{model.name}'",
                    [f"{found}; choose another solver, such as 'scip_persistent'"],
                )


def _find_solver(name: str) -> tuple[str, str]:
    names = solver_names()
    if name in names:
        return names[name]
    shown = sorted({"highs", *names} - {CONTRIB + n for n in names})
    near = difflib.get_close_matches(name, shown, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise ModelError(
        "No such solver",
        [f"this Pyomo has no '{name}'; {hint}It has {_by_availability(shown)}"],
    )


def _by_availability(shown: list[str]) -> str:
    """Return a list of solvers as text, the available ones first."""
    names = solver_names()
    here = [name for name in shown if name == "highs" or availability(*names[name])]
    others = [name for name in shown if name not in here]
    text = f"on this machine {shortlist(here, len(here))}"
    more = f"; not installed: {shortlist(others, len(others))}" if others else ""
    return text + more


def _unavailable(name: str, found: Any, profile: Profile) -> ModelError:
    remedies = {
        "NotFound": f"install it: {profile.install}",
        "BadVersion": f"Pyomo does not take its version; install a release: "
        f"{profile.install}",
        "BadLicense": "it has no valid license; get one from its vendor",
        "NeedsCompiledExtension": "appsi's extension is not compiled; run: pyomo "
        "build-extensions",
    }
    remedy = remedies.get(found.name, f"Pyomo says {found.name}")
    return ModelError(
        "The solver is not available on this machine", [f"'{name}': {remedy}"]
    )

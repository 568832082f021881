"""appsi's solvers: found by name, told to be exact, refused when not there."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyomo.environ  # noqa: F401, it registers appsi's solvers
from pyomo.contrib.appsi.base import SolverFactory

from pyomo_csg.errors import ModelError, shortlist
from pyomo_csg.solve.lp.highs_program import check_options
from pyomo_csg.validation import Problems

_PREFIX = "appsi_"


@dataclass(frozen=True)
class Profile:
    """What one solver is told, and how exact it then is.

    Attributes
    ----------
    install : str
        How one gets it.
    exact : mapping
        Options for answers as exact as the solver gives.
    decisive : mapping
        Options on top, with which it tells infeasible from unbounded. A solver keeps an
        option until it is set again, so ``exact`` has the usual values of these.
    accuracy : float
        The relative error of a value recomputed from the point it returns.
    """

    install: str
    exact: Mapping[str, Any] = field(default_factory=dict)
    decisive: Mapping[str, Any] = field(default_factory=dict)
    accuracy: float = 1e-9


PROFILES = {
    "highs": Profile(
        "pip install highspy",
        {
            "output_flag": False,
            "presolve": "choose",
            "primal_feasibility_tolerance": 1e-9,
            "dual_feasibility_tolerance": 1e-9,
            "mip_feasibility_tolerance": 1e-9,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": 0.0,
        },
        {"presolve": "off"},
    ),
    "gurobi": Profile(
        "pip install gurobipy, with a licence for larger models",
        {
            "OutputFlag": 0,
            "DualReductions": 1,
            "FeasibilityTol": 1e-9,
            "OptimalityTol": 1e-9,
            "IntFeasTol": 1e-9,
            "BarConvTol": 1e-10,
            "BarQCPConvTol": 1e-10,
            "MIPGap": 0,
            "MIPGapAbs": 0,
        },
        {"DualReductions": 0},
    ),
    "cplex": Profile(
        "pip install cplex, with a licence for larger models",
        {
            "simplex_tolerances_feasibility": 1e-9,
            "simplex_tolerances_optimality": 1e-9,
            "mip_tolerances_integrality": 0,
            "mip_tolerances_mipgap": 0,
            "mip_tolerances_absmipgap": 0,
        },
        {"preprocessing_presolve": 0},
    ),
    "ipopt": Profile(
        "conda install -c conda-forge ipopt, or idaes get-extensions",
        {"tol": 1e-9, "constr_viol_tol": 1e-9, "acceptable_tol": 1e-9},
    ),
    "cbc": Profile(
        "apt-get install coinor-cbc, or conda install -c conda-forge coin-or-cbc",
        {
            "primalTolerance": 1e-9,
            "dualTolerance": 1e-9,
            "integerTolerance": 1e-9,
            "ratioGap": 0,
            "allowableGap": 0,
        },
        accuracy=1e-7,  # its solution file has eight digits
    ),
    "maingo": Profile(
        "pip install maingopy",
        {"epsilonA": 1e-9, "epsilonR": 1e-9, "deltaIneq": 1e-9, "deltaEq": 1e-9},
    ),
}


class SolverKind:
    """One of appsi's solvers with its options, ready to take programs.

    Parameters
    ----------
    name : str
        ``'appsi_highs'``, ``'appsi_gurobi'``, ... as in Pyomo's ``SolverFactory``.
    options : mapping, optional
        The solver's own, which win over the exact ones; ``time_limit``, in seconds for
        one program, goes for every solver.

    Raises
    ------
    ModelError
        If appsi has no such solver, or this machine has not.
    """

    def __init__(self, name: str, options: Mapping[str, Any] | None = None):
        self.name = name
        self.key = _known_key(name)
        self.profile = PROFILES.get(self.key, Profile(f"see the manual of {self.key}"))
        own = dict(options or {})
        self.time_limit: float | None = own.pop("time_limit", None)
        if self.time_limit is not None:
            problems = Problems("The solver's options do not fit")
            problems.check_positive(time_limit=self.time_limit)
            problems.raise_any()
        if self.key == "highs":
            check_options(own)  # appsi would only log a misspelt one
        self._options = {**self.profile.exact, **own}
        _refuse_unavailable(name, self.make(), self.profile)

    def make(self) -> Any:
        """Return a new solver, which looks for changed Params and for nothing else."""
        solver = SolverFactory(self.key)
        solver.config.load_solution = False
        solver.config.time_limit = self.time_limit
        self.set_options(solver)
        for name in solver.update_config:
            if name not in ("update_params", "treat_fixed_vars_as_params"):
                solver.update_config[name] = False
        return solver

    def set_options(self, solver: Any, **more: Any) -> None:
        """Give a solver its options, and more of them."""
        setattr(solver, f"{self.key}_options", {**self._options, **more})


def _known_key(name: str) -> str:
    known = [_PREFIX + key for key in SolverFactory]
    if name in known:
        return name.removeprefix(_PREFIX)
    near = difflib.get_close_matches(name, [*known, *SolverFactory], n=1)
    hint = f"did you mean '{_PREFIX}{near[0].removeprefix(_PREFIX)}'? " if near else ""
    raise ModelError(
        "No such solver",
        [f"appsi has no '{name}'; {hint}It has {shortlist(sorted(known), len(known))}"],
    )


def _refuse_unavailable(name: str, solver: Any, profile: Profile) -> None:
    found = solver.available()
    if found:
        return
    remedy = {
        found.NotFound: f"install it: {profile.install}",
        found.BadVersion: f"its version is too old; upgrade it: {profile.install}",
        found.BadLicense: "it has no valid licence; get one from its vendor",
        found.NeedsCompiledExtension: "appsi's extension is not compiled; run: pyomo "
        "build-extensions",
    }
    raise ModelError(
        "The solver is not available on this machine", [f"'{name}': {remedy[found]}"]
    )

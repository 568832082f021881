"""Solvers of Pyomo: their names, availability, exact settings and options."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyomo.core.base.block import BlockData
from pyomo.core.base.var import Var

from pyomo_csg.errors import DataError, ModelError, shortlist
from pyomo_csg.solve.lp.highs_options import check_options
from pyomo_csg.solve.pyomo_solvers.interfaces import (
    CONTRIB,
    Interface,
    availability,
    make_interface,
    solver_names,
)
from pyomo_csg.validation import Problems, is_number


@dataclass(frozen=True)
class Profile:
    """The settings of one solver, and how exact it is with them."""

    install: str  # how to install it
    # Options for the most exact answers that the solver can give.
    exact: Mapping[str, Any] = field(default_factory=dict)
    # More options, which let it distinguish infeasible from unbounded. Solvers keep options, so
    # ``exact`` resets these to their usual values.
    decisive: Mapping[str, Any] = field(default_factory=dict)
    accuracy: float = (
        1e-9  # relative error of a value recomputed from the point it returns
    )
    has_integers: bool = True  # Ipopt would silently relax them


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
        "pip install gurobipy, with a license for larger models",
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
    "scip": Profile(
        "pip install pyscipopt",
        {
            "numerics/feastol": 1e-9,
            "numerics/dualfeastol": 1e-9,
            "presolving/maxrounds": -1,
            "limits/gap": 0.0,
            "limits/absgap": 0.0,
        },
        {"presolving/maxrounds": 0},
    ),
    "cplex": Profile(
        "pip install cplex, with a license for larger models",
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
        has_integers=False,
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
    "knitro": Profile(
        "pip install knitro, with a license",
        {
            "outlev": 0,
            "feastol": 1e-9,
            "opttol": 1e-9,
            "mip_opt_gap_rel": 0.0,
            "mip_opt_gap_abs": 0.0,
        },
    ),
    "gams": Profile(
        "see gams.com, with a license for larger models",
        {"optcr": 0.0, "optca": 0.0},
    ),
}


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
        chosen = dict(options or {})
        self.time_limit: float | None = chosen.pop("time_limit", None)
        problems = Problems("The solver's options do not fit")
        problems.add(*option_problems(self.brand, self.profile.exact, chosen))
        if self.time_limit is not None:
            problems.check_positive(time_limit=self.time_limit)
        problems.raise_any()
        self.options = {**self.profile.exact, **chosen}

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


def option_problems(
    brand: str, exact: Mapping[str, Any], options: Mapping[str, Any]
) -> list[str]:
    """Return the problems of the options of a solver, each with the option's name.

    HiGHS, Gurobi and SCIP check options themselves. For other solvers, an option that is
    also in ``exact`` must have the same type.
    """
    problems = [
        f"option {name!r:.80} is {option!r:.80}; give a name and a number or a text"
        for name, option in options.items()
        if not isinstance(name, str) or not _is_value(option)
    ]
    if problems:
        return problems
    if brand == "highs":
        return _highs_problems(options)
    if brand == "gurobi":
        return [p for name in options for p in _gurobi_problems(name, options[name])]
    if brand == "scip":
        return [p for name in options for p in _scip_problems(name, options[name])]
    return [
        f"option '{name}' is {option!r:.80}; give a number"
        for name, option in options.items()
        if is_number(exact.get(name)) and not is_number(option)
    ]


def _is_value(option: Any) -> bool:
    """Whether a value can be an option: a number other than NaN, a bool or text."""
    if isinstance(option, float):
        return not math.isnan(option)
    return isinstance(option, str | bool | int)


def _highs_problems(options: Mapping[str, Any]) -> list[str]:
    try:
        check_options(options)  # appsi would only log a misspelled one
    except DataError as error:
        return list(error.problems)
    return []


def _gurobi_problems(name: str, option: Any) -> list[str]:
    import gurobipy
    from pyomo.contrib.solver.solvers.gurobi.gurobi_direct_base import GurobiDirectBase

    model = gurobipy.Model(env=GurobiDirectBase.env())
    try:
        info = model.getParamInfo(name)
    finally:
        model.dispose()
    if info is None or "*" in name:
        known = [n for n in dir(gurobipy.GRB.Param) if not n.startswith("_")]
        return [_unknown_option("Gurobi", name, known)]
    _, kind, _, low, high, _ = info
    return _type_problems("Gurobi", name, option, kind, low, high)


def _scip_problems(name: str, option: Any) -> list[str]:
    import pyscipopt

    model = pyscipopt.Model()
    known = model.getParams()
    if name not in known:
        return [_unknown_option("SCIP", name, known)]
    kind = type(known[name])
    if problems := _type_problems("SCIP", name, option, kind):
        return problems
    try:
        model.hideOutput()
        model.setParam(name, option)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return [f"SCIP does not take {option!r:.80} for option '{name}': {error}"]
    return []


def _type_problems(
    solver: str,
    name: str,
    option: Any,
    kind: type,
    low: float = -math.inf,
    high: float = math.inf,
) -> list[str]:
    """Return the problem of a value that is not of the type, or not in the range."""
    found = f"{solver} does not take {option!r:.80} for option '{name}'"
    if kind is str:
        return [] if isinstance(option, str) else [f"{found}; give a text"]
    if kind is bool:
        return [] if isinstance(option, bool) else [f"{found}; give True or False"]
    if isinstance(option, str | bool):
        return [f"{found}; give a number"]
    if kind is int and not float(option).is_integer():
        return [f"{found}; give a whole number"]
    if not low <= option <= high:
        return [f"{found}; give a number from {low:g} to {high:g}"]
    return []


def _unknown_option(solver: str, name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"see {solver}'s manual"
    return f"{solver} has no option '{name}'; {hint}"

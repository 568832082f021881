"""The settings of each solver, and how exact its answers are with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Profile:
    """The settings of one solver, and how exact it is with them.

    Attributes
    ----------
    install : str
        How to install it.
    exact : mapping
        Options for the most exact answers that the solver can give.
    decisive : mapping
        Additional options that let it distinguish infeasible from unbounded. Solvers keep
        options, so ``exact`` resets these to their usual values.
    accuracy : float
        The relative error of a value recomputed from the point it returns.
    has_integers : bool
        Whether it solves integer programs; Ipopt would silently relax them.
    """

    install: str
    exact: Mapping[str, Any] = field(default_factory=dict)
    decisive: Mapping[str, Any] = field(default_factory=dict)
    accuracy: float = 1e-9
    has_integers: bool = True


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

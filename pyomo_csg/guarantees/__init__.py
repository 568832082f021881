"""How good a policy is, and with what confidence: certificates, diagnostics and bounds."""

from pyomo_csg.guarantees.certificate import Certificate, certify
from pyomo_csg.guarantees.diagnostics import (
    Ambiguity,
    Values,
    ambiguity,
    conditional_values,
    values,
)
from pyomo_csg.guarantees.gap import Gap, optimality_gap
from pyomo_csg.guarantees.intervals import Interval, mean_interval
from pyomo_csg.guarantees.paper.constants import (
    TaskConstants,
    cost_range,
    task_constants,
)
from pyomo_csg.guarantees.paper.theorems import (
    Bound,
    Term,
    approximate_bound,
    mmd_bound,
    task_bound,
)
from pyomo_csg.learn.distributions.distances import (
    JointMMD,
    joint_mmd,
    kappa_distance,
    wasserstein,
)

__all__ = [
    "Ambiguity",
    "Bound",
    "Certificate",
    "Gap",
    "Interval",
    "JointMMD",
    "TaskConstants",
    "Term",
    "Values",
    "ambiguity",
    "approximate_bound",
    "certify",
    "conditional_values",
    "cost_range",
    "joint_mmd",
    "kappa_distance",
    "mean_interval",
    "mmd_bound",
    "optimality_gap",
    "task_bound",
    "task_constants",
    "values",
    "wasserstein",
]

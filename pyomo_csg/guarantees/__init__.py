"""How good a policy is, and how sure that is: certificates, bounds and diagnostics."""

from pyomo_csg.guarantees.ambiguity import Ambiguity, ambiguity
from pyomo_csg.guarantees.bounds import Bound, Term
from pyomo_csg.guarantees.certificate import Certificate
from pyomo_csg.guarantees.certifying import certify
from pyomo_csg.guarantees.constants import TaskConstants, task_constants
from pyomo_csg.guarantees.extremes import cost_range
from pyomo_csg.guarantees.gap import Gap, optimality_gap
from pyomo_csg.guarantees.intervals import Interval, mean_interval
from pyomo_csg.guarantees.theorems import approximate_bound, mmd_bound, task_bound
from pyomo_csg.guarantees.value import Values, conditional_values, values
from pyomo_csg.learn.shift import JointMMD, joint_mmd, kappa_distance, wasserstein

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

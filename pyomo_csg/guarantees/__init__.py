"""How good a policy is, and how sure that is: certificates, bounds and diagnostics."""

from pyomo_csg.guarantees.certificate import Certificate, certify
from pyomo_csg.guarantees.gap import Gap, optimality_gap
from pyomo_csg.guarantees.intervals import Interval, mean_interval

__all__ = [
    "Certificate",
    "Gap",
    "Interval",
    "certify",
    "mean_interval",
    "optimality_gap",
]

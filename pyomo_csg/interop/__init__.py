"""Exchange models with other packages and files: mpi-sppy, SMPS."""

from pyomo_csg.interop.mpisppy import from_mpisppy
from pyomo_csg.interop.smps import SmpsProblem, read_smps
from pyomo_csg.interop.smps_writer import write_smps

__all__ = ["SmpsProblem", "from_mpisppy", "read_smps", "write_smps"]

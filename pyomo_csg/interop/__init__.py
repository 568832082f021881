"""Exchange models with other packages: mpi-sppy."""

from pyomo_csg.interop.mpisppy_reader import from_mpisppy

__all__ = ["from_mpisppy"]

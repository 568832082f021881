"""The command line: pyomo-csg, or python -m pyomo_csg."""

from pyomo_csg.cli.running import main

__all__ = ["main"]

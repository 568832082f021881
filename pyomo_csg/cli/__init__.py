"""The command line: pyomo-csg, or python -m pyomo_csg."""

from pyomo_csg.cli.entry_point import main

__all__ = ["main"]

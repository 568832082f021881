"""The field problems: one module each, with a function ``load`` that returns a Problem.

Methods are developed on one half; the other half is run once, for the report.
"""

import importlib

from problem import Problem

DEVELOPMENT = ("bikes", "electricity", "industries")
REPORT = ("flights", "transit")
# The resource-allocation experiment of Kannan, Bayraksan and Luedtke belongs to REPORT:
# add it as problems/resource_allocation.py with a Problem that overrides ``stages``.


def load(name: str) -> Problem:
    """Return a problem by name."""
    return importlib.import_module(f"problems.{name}").load()

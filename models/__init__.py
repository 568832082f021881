"""Two-stage models as a Pyomo user would write them: the paper's four and classics.

Installed as ``pyomo_csg.zoo``. Each model is imported when it is first used.

>>> import pyomo_csg as csg
>>> csg.zoo.newsvendor.build().name
'newsvendor'
"""

from importlib import import_module
from types import ModuleType

__all__ = [
    "apl1p",
    "cep1",
    "cvar_portfolio",
    "facility_location",
    "farmer",
    "mnv",
    "newsvendor",
    "production",
    "resource_allocation",
    "sslp",
    "unit_commitment",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    """Return the names of the models, and what every module has."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])

"""The versions of the packages that a policy's numbers depend on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = (
    "pyomo-csg",
    "pyomo",
    "highspy",
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
)


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed."""
    return {"python": platform.python_version(), **dependency_versions()}


def dependency_versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # deciding needs neither torch nor scikit-learn
            continue
    return found

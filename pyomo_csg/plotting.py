"""Figures and axes; matplotlib is optional and imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyomo.common.dependencies import attempt_import

from pyomo_csg.errors import DataError
from pyomo_csg.storage import writable_path

_NEEDED = "Plots need matplotlib; install it by pip install pyomo-csg[plots]"

_figure, _ = attempt_import("matplotlib.figure", error_message=_NEEDED)
_pyplot, _ = attempt_import("matplotlib.pyplot", error_message=_NEEDED)


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure, in inches, that pyplot does not track."""
    return _figure.Figure(figsize=(width, height), layout="constrained")


def new_axes() -> Any:
    """Return the axes of a new pyplot figure, which notebooks show."""
    return _pyplot.subplots(layout="constrained")[1]


def axes_or_new(ax: Any, new: Callable[[], Any] = new_axes) -> Any:
    """Return the user's axes, or new ones; raise a DataError if they are not axes."""
    if ax is None:
        return new()
    if not hasattr(ax, "set_xlabel"):
        found = f"ax is a {type(ax).__name__}; give matplotlib Axes"
        raise DataError("Cannot draw", [found])
    return ax


def save_figure(figure: Any, path: Any, dpi: int) -> None:
    """Write a figure to a file; its suffix sets the format."""
    place = writable_path(path)
    try:
        figure.savefig(place, dpi=dpi)
    except ValueError as error:
        found = f"{error}; give a name that ends in .png, .svg or .pdf"
        raise DataError(f"'{place}' cannot be written", [found]) from None

"""matplotlib, an extra, when something is first drawn: it is slow to import, too."""

from __future__ import annotations

from typing import Any

from pyomo.common.dependencies import attempt_import

_NEEDED = "Pictures need matplotlib: pip install pyomo-csg[plots]"

_figure, _ = attempt_import("matplotlib.figure", error_message=_NEEDED)
_pyplot, _ = attempt_import("matplotlib.pyplot", error_message=_NEEDED)


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of that many inches, of which pyplot knows nothing."""
    return _figure.Figure(figsize=(width, height), layout="constrained")


def new_axes() -> Any:
    """Return the axes of a new figure of pyplot's, which notebooks show."""
    return _pyplot.subplots(layout="constrained")[1]

"""Restore scenario generators from their descriptions and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.learn.generators.distribution_generators import (
    AtomGenerator,
    ConstantGenerator,
    ForecastNetworkGenerator,
    FullGenerator,
    ReducedGenerator,
)
from pyomo_csg.learn.generators.network_generator import NetworkGenerator
from pyomo_csg.learn.generators.scenario_generator import ScenarioGenerator

Restorer = Callable[[Mapping[str, Any], Mapping[str, np.ndarray]], ScenarioGenerator]

# By the kind in a description. Each raises a DataError, or one of storage.CONTENT_ERRORS,
# for damaged content before it allocates memory.
RESTORERS: dict[str, Restorer] = {
    "network": NetworkGenerator.restore,
    **{
        kind.kind: kind.restore
        for kind in (
            ConstantGenerator,
            AtomGenerator,
            ForecastNetworkGenerator,
            ReducedGenerator,
            FullGenerator,
        )
    },
}


def restore_generator(
    description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> ScenarioGenerator:
    """Return the generator that ``to_arrays`` described; the content may be hostile."""
    kind = description["kind"]
    if not isinstance(kind, str) or kind not in RESTORERS:
        problem = f"there is no generator of kind {kind!r:.40}"
        raise DataError("The scenario generator cannot be restored", [problem])
    return RESTORERS[kind](description, arrays)

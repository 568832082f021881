"""Arrays from a file, checked before they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from pyomo_csg.errors import DataError

Arrays = dict[str, np.ndarray]
_MOST_SIZES = 64
_SUBJECT = "The stored distribution is damaged"


def damage(problem: str) -> DataError:
    """Return the error of a description or an array that cannot be used."""
    return DataError(_SUBJECT, [f"{problem}; fit and save it again"])


def with_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return arrays under longer names."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


class Storable(Protocol):
    """What can be stored as a JSON description and arrays."""

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return both."""


def store_parts(parts: Sequence[Storable]) -> tuple[list[dict[str, Any]], Arrays]:
    """Return the descriptions of some parts, and their arrays under longer names."""
    descriptions: list[dict[str, Any]] = []
    arrays: Arrays = {}
    for i, part in enumerate(parts):
        description, inside = part.to_arrays()
        descriptions.append(description)
        arrays |= with_prefix(f"parts/{i}", inside)
    return descriptions, arrays


class StoredArrays:
    """Reads a description and its arrays, and raises a DataError where they are wrong."""

    def __init__(self, description: Any, arrays: Mapping[str, np.ndarray]):
        if not isinstance(description, Mapping):
            raise damage(
                f"a description is {type(description).__name__}, not a mapping"
            )
        self._description, self._arrays = description, arrays

    def text(self, name: str) -> str:
        """Return a string of the description."""
        found = self._description.get(name)
        if not isinstance(found, str):
            raise damage(f"'{name}' is {found!r:.40}, not text")
        return found

    def sizes(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers from 1 up in the description."""
        found = self._description.get(name)
        if not isinstance(found, list) or not (
            len(found) <= _MOST_SIZES
            and all(isinstance(size, int) and 1 <= size < 2**31 for size in found)
        ):
            raise damage(f"'{name}' is {found!r:.40}, not a list of sizes")
        return tuple(map(int, found))

    def parts(self, name: str) -> list[StoredArrays]:
        """Return the parts of a list in the description, each with its arrays."""
        found = self._description.get(name)
        if not isinstance(found, list) or not found:
            raise damage(f"'{name}' is {found!r:.40}, not a list of parts")
        return [self._part(part, f"{name}/{i}") for i, part in enumerate(found)]

    def part(self, name: str) -> StoredArrays:
        """Return one part of the description, with its arrays."""
        return self._part(self._description.get(name), name)

    def __contains__(self, name: str) -> bool:
        return self._description.get(name) is not None

    def numbers(self, name: str, *shape: int | None, finite: bool = True) -> np.ndarray:
        """Return an array of floats; None in ``shape`` stands for any length."""
        array = self._array_of_shape(name, shape)
        if array.dtype != np.float64:
            raise damage(f"array '{name}' has type {array.dtype}, not float64")
        if np.isnan(array).any() or finite and not np.isfinite(array).all():
            raise damage(f"array '{name}' contains values that are not finite")
        return array

    def positive(self, name: str, *shape: int | None) -> np.ndarray:
        """Return an array of floats above 0."""
        array = self.numbers(name, *shape)
        if not (array > 0).all():
            raise damage(f"array '{name}' contains values that are not positive")
        return array

    def shares(self, name: str, *shape: int | None) -> np.ndarray:
        """Return weights of at least 0 that sum to 1 along the first axis."""
        array = self.numbers(name, *shape)
        total = array.sum(axis=0)
        if (array < 0).any() or (np.abs(total - 1) > 1e-6).any():
            raise damage(f"array '{name}' does not contain shares that sum to 1")
        return array

    def bounds(self, p: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the arrays 'lower' and 'upper' (p,)."""
        lower = self.numbers("lower", p, finite=False)
        upper = self.numbers("upper", p, finite=False)
        if (lower > upper).any():
            raise damage("array 'lower' is above 'upper'")
        return lower, upper

    def integers(
        self, name: str, *shape: int | None, low: int = 0, high: int = 2**31 - 1
    ) -> np.ndarray:
        """Return an array of 32-bit integers from ``low`` to below ``high``."""
        array = self._array_of_shape(name, shape)
        if array.dtype != np.int32:
            raise damage(f"array '{name}' has type {array.dtype}, not int32")
        if array.size and not (low <= array.min() and array.max() < high):
            raise damage(
                f"array '{name}' contains integers outside {low} to {high - 1}"
            )
        return array

    def _array_of_shape(self, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
        array = self._arrays.get(name)
        if not isinstance(array, np.ndarray):
            raise damage(f"array '{name}' is missing")
        fits = array.ndim == len(shape) and all(
            wanted is None or found == wanted
            for found, wanted in zip(array.shape, shape, strict=True)
        )
        if not fits:
            raise damage(f"array '{name}' has shape {array.shape}, not {shape}")
        return array

    def _part(self, description: Any, prefix: str) -> StoredArrays:
        start = f"{prefix}/"
        arrays = {
            name[len(start) :]: array
            for name, array in self._arrays.items()
            if name.startswith(start)
        }
        return StoredArrays(description, arrays)

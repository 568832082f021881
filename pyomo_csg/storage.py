"""Files: checked paths, atomic writes, and one checksummed format for stored arrays."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from pyomo_csg.errors import DataError

PARTIAL = ".partial"  # suffix of a temporary file; a killed process leaves it behind
_START = 256  # bytes that hold the format's name: safetensors puts metadata first
_KINDS = "biuf"  # dtype kinds that safetensors stores

CONTENT_ERRORS = (  # raised by code on data that does not fit it
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)

Arrays = dict[str, np.ndarray]


class StoredFileError(DataError):
    """A stored file is damaged, of another kind, of a newer version, or too large."""


@dataclass(frozen=True)
class FileFormat:
    """A kind of file: named arrays and a JSON header, with one checksum over both.

    Such a file is a safetensors file with one metadata entry, named after the format. It
    holds numbers and text only, so that a file from a stranger is safe to read.

    Attributes
    ----------
    name : str
        Such as ``'pyomo_csg policy'``.
    version : int
    max_bytes, max_header_bytes : int
        Larger files and headers are neither written nor read.
    remedy : str
        What a user can do about a file that cannot be read.
    follow_links : bool
        Whether to read through a symbolic link, as for a path that a user names. A link
        in a folder from a stranger could point anywhere.
    """

    name: str
    version: int
    max_bytes: int
    max_header_bytes: int
    remedy: str = ""
    follow_links: bool = False

    def write(
        self, path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Write a file atomically; raise a StoredFileError if it would be too large."""
        data = self.pack(header, arrays)
        for what, size, most in (
            ("its header", _header_size(data), self.max_header_bytes),
            ("it", len(data), self.max_bytes),
        ):
            if size > most:
                problem = f"{what} would take {size} bytes; at most {most} are allowed"
                raise StoredFileError(f"'{path}' cannot be written", [problem])
        write_atomically(path, data)

    def pack(
        self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> bytes:
        """Return the content of a file."""
        arrays = as_arrays(arrays)  # safetensors writes others in the wrong order
        body = {"version": self.version, "header": json.loads(to_json(header))}
        text = to_json({**body, "checksum": _checksum(body, arrays)})
        return safetensors.numpy.save(arrays, {self.name: text})

    def read(self, path: Path) -> tuple[dict[str, Any], Arrays]:
        """Return a file's header and arrays; any fault raises a StoredFileError."""
        try:
            _check_regular_file(path, self.max_bytes, self.follow_links)
            with open(path, "rb") as file:
                start = file.read(_START)
        except OSError as error:
            raise self.damage_error(path, str(error)) from error
        if self.name.encode() not in start:
            raise self._error(path, "cannot be read", f"it is not a {self.name} file")
        if (size := _header_size(start)) > self.max_header_bytes:
            raise self.damage_error(path, f"its header claims to take {size} bytes")
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                stored = json.loads(file.metadata()[self.name])
                names = file.keys()
                arrays = as_arrays({name: file.get_tensor(name) for name in names})
            header, version = stored["header"], stored["version"]
            body = {"version": version, "header": header}
            is_intact = stored["checksum"] == _checksum(body, arrays)
            is_newer = version > self.version
        except Exception as error:  # damage can raise anything
            raise self.damage_error(path, "it cannot be parsed") from error
        if is_newer:
            problem = (
                f"its format is version {version!r:.40}; this pyomo_csg reads up to"
            )
            remedy = f"{self.version}; install a newer pyomo_csg"
            raise StoredFileError(f"'{path}' cannot be read", [f"{problem} {remedy}"])
        if not is_intact or not isinstance(header, dict):
            raise self.damage_error(path, "its checksum does not match its content")
        return header, arrays

    def damage_error(self, path: Path, problem: str) -> StoredFileError:
        """Return the error for a file whose content cannot be trusted."""
        return self._error(path, "is damaged", problem)

    def _error(self, path: Path, what: str, problem: str) -> StoredFileError:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return StoredFileError(f"'{path}' {what}", [f"{problem}{remedy}"])


def as_arrays(values: Mapping[str, Any]) -> Arrays:
    """Return C-ordered copies of arrays or tensors, sorted by name."""
    arrays = {}
    for name in sorted(values):
        value = values[name]
        value = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        arrays[name] = np.array(value, order="C")
        if arrays[name].dtype.kind not in _KINDS:
            raise TypeError(f"array '{name}' has dtype {arrays[name].dtype}")
    return arrays


def to_json(value: Any, **options: Any) -> str:
    """Return JSON text; NumPy values become numbers and lists, other objects text."""
    return json.dumps(value, default=_json_value, **options)


def _json_value(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _checksum(body: Any, arrays: Mapping[str, np.ndarray]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _header_size(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def write_atomically(file: Path, content: bytes) -> None:
    """Write a file so that it appears complete or not at all, even after a power cut."""
    partial = file.with_name(f".{uuid.uuid4().hex}{PARTIAL}")
    try:
        with open(partial, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)
    if sys.platform != "win32":  # Windows cannot open a folder
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_user_file(path: Any, content: bytes) -> None:
    """Write a file at the user's path, replacing an older one atomically."""
    file = writable_path(path)
    with explain_write_errors(file):
        write_atomically(file, content)


@contextmanager
def explain_write_errors(file: Path) -> Iterator[None]:
    """Turn an OSError from writing a file that the user named into a DataError."""
    remedy = "free some space, or choose another path"
    with explain_os_errors(f"'{file}' cannot be written", remedy):
        yield


@contextmanager
def explain_os_errors(subject: str, remedy: str) -> Iterator[None]:
    """Turn an OSError into a DataError that says what to do."""
    try:
        yield
    except OSError as error:
        raise DataError(subject, [f"{error.strerror or error}; {remedy}"]) from error


def writable_path(path: Any) -> Path:
    """Return a path to which a file can be written, or raise a DataError."""
    place = _as_path(path, "written")
    subject = f"'{place}' cannot be written"
    if not place.parent.is_dir():
        found = f"there is no folder '{place.parent}'; create it"
        raise DataError(subject, [found])
    if place.is_dir():
        raise DataError(subject, ["it is a folder; give the name of a file"])
    return place


def readable_path(path: Any) -> Path:
    """Return the path of a regular file, or raise a DataError."""
    place = _as_path(path, "read")
    if not place.is_file():
        raise DataError(f"'{place}' cannot be read", ["there is no such file"])
    return place


def read_regular_file(file: Path, max_bytes: int) -> bytes:
    """Return a file's content; raise an OSError for links, pipes and large files."""
    _check_regular_file(file, max_bytes, follow_links=False)
    return file.read_bytes()


def _check_regular_file(file: Path, max_bytes: int, follow_links: bool) -> None:
    found = file.stat(follow_symlinks=follow_links)
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is a link, a folder or a pipe, not a regular file")
    if found.st_size > max_bytes:
        raise OSError(f"it takes more than {max_bytes} bytes")


def _as_path(path: Any, action: str) -> Path:
    if not isinstance(path, str | os.PathLike) or "\0" in os.fspath(path):
        found = "it is not a path; give the name of a file"
        raise DataError(f"'{path!r}' cannot be {action}", [found])
    return Path(path)

"""Checkpoints: the finished stages of a fit in a folder, for the same fit to resume."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.locks import FolderLock
from pyomo_csg.storage import (
    CONTENT_ERRORS,
    PARTIAL,
    Arrays,
    FileFormat,
    StoredFileError,
    as_arrays,
    explain_os_errors,
    read_regular_file,
    to_json,
    write_atomically,
)

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pyomo_csg.learn.progress import TrainingLog
    from pyomo_csg.learn.task import Task

logger = logging.getLogger(__name__)

_STAGE = FileFormat("pyomo_csg stage", 1, max_bytes=2**30, max_header_bytes=2**26)
_SUFFIX = ".safetensors"
_IDENTITY, _MAX_IDENTITY = "identity.json", 2**24  # bytes
_FOLDER_VERSION = 1
_LONGEST_NAME = 150  # characters; most file systems allow 255 bytes
_START_OVER = "give another folder, or delete this one to start over"
_MAKE_ROOM = (
    "give a folder that can be written and has room; finished stages are kept, and the "
    "same call resumes from them"
)

Net = TypeVar("Net", bound=nn.Module)


class Checkpoint:
    """Computes stages, or reads those that an earlier run of the same fit finished.

    The folder is locked within the with statement: only one fit at a time can use it.
    Without a folder every stage is computed and nothing is stored. ``identity`` is what is
    fitted, as JSON types; a folder that was created for another identity is refused.

    >>> import tempfile
    >>> def slow():
    ...     print("computing")
    ...     return {"losses": np.array([1.5, 2.5])}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         with Checkpoint(folder, {"seed": 0}) as checkpoint:
    ...             print(checkpoint.stage("labels", slow))
    computing
    {'losses': array([1.5, 2.5])}
    {'losses': array([1.5, 2.5])}
    """

    def __init__(self, folder: str | Path | None, identity: Mapping[str, Any]):
        if not isinstance(folder, str | os.PathLike | None):
            found = f"checkpoint is {folder!r:.80}; give the path of a folder"
            raise DataError("Cannot use the checkpoint folder", [found])
        self._folder = None if folder is None else _Folder(Path(folder), identity)
        self._parts: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        if self._folder is not None:
            self._folder.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._folder is not None:
            self._folder.close()
            self._folder.explain_failure(error)

    def within(self, part: str) -> Checkpoint:
        """Return a view of this checkpoint for a part, with its own stage names."""
        view = copy.copy(self)
        view._parts = (*self._parts, part)
        return view

    def stage(
        self,
        name: str,
        compute: Callable[[], Mapping[str, np.ndarray | Tensor]],
        *,
        note: str | None = None,
        log: TrainingLog | None = None,
    ) -> Arrays:
        """Return a stage's arrays, sorted by name: read from disk, or computed and stored.

        ``note`` says what the stage depends on, such as a digest; a stage that was stored
        with another note is computed again. Entries that ``compute`` adds to the log are
        stored, and added again when the stage is read.
        """
        arrays = self.load(name, note=note, log=log)
        if arrays is None:
            first = 0 if log is None else len(log.entries)
            arrays = self.save(name, compute(), note=note, log=log, first_entry=first)
        return arrays

    def load(
        self, name: str, *, note: str | None = None, log: TrainingLog | None = None
    ) -> Arrays | None:
        """Return a stage's arrays and repeat its log entries; None if it is not stored."""
        if self._folder is None:
            return None
        stored = self._folder.read((*self._parts, name), note or "")
        if stored is None:
            return None
        arrays, entries = stored
        if log is not None:
            for entry in entries:
                log.record(**entry)
        return arrays

    def save(
        self,
        name: str,
        arrays: Mapping[str, np.ndarray | Tensor],
        *,
        note: str | None = None,
        log: TrainingLog | None = None,
        first_entry: int = 0,
    ) -> Arrays:
        """Store a stage's arrays with the log's entries from one on; return the arrays."""
        plain = as_arrays(arrays)
        # A stage that the time limit cut short would go further with more time.
        if self._folder is not None and (log is None or log.stopped_in is None):
            entries = [] if log is None else log.entries[first_entry:]
            self._folder.write((*self._parts, name), plain, note or "", entries)
        return plain


def train_or_restore(
    task: Task,
    stage: str,
    networks: Sequence[nn.Module],
    train: Callable[[], Sequence[nn.Module]],
) -> list[nn.Module]:
    """Return trained networks, or read them if the checkpoint has this stage.

    ``networks`` have the architectures of what ``train`` returns.
    """

    def compute() -> dict[str, Tensor]:
        return {
            f"{s}.{name}": value
            for s, network in enumerate(train())
            for name, value in network.state_dict().items()
        }

    arrays = task.checkpoint.stage(stage, compute, log=task.log)
    return [restore_parameters(net, arrays, f"{s}.") for s, net in enumerate(networks)]


def restore_parameters(
    network: Net, arrays: Mapping[str, np.ndarray], prefix: str
) -> Net:
    """Return a copy of a network with the parameters stored under a prefix."""
    restored = copy.deepcopy(network)
    restored.load_state_dict(
        {name: torch.as_tensor(arrays[prefix + name]) for name in restored.state_dict()}
    )
    return restored


class _Folder:
    """The folder of one fit: its lock, its identity and its stages."""

    def __init__(self, path: Path, identity: Mapping[str, Any]):
        self.path = path
        versioned = {"checkpoint_format": _FOLDER_VERSION, **identity}
        self._identity = json.loads(to_json(versioned))
        self._lock = FolderLock(path)
        self._files_read: list[str] = []

    def open(self) -> None:
        """Lock the folder, and check that it belongs to this fit."""
        with self._explain_write_errors():
            self.path.mkdir(parents=True, exist_ok=True)
            if holder := self._lock.acquire():
                found = f"{holder} is using it; wait for it, or give another folder"
                raise self._error([found])
        try:
            with self._explain_write_errors():
                self._check_identity()
                for partial in self.path.glob(f".*{PARTIAL}"):
                    partial.unlink()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unlock the folder."""
        self._lock.release()

    def explain_failure(self, error: BaseException | None) -> None:
        """Point to this folder if a fit failed after reading stages from it."""
        if self._files_read and isinstance(error, CONTENT_ERRORS):
            found = f"{type(error).__name__}: {error}".splitlines()[0]
            files = shortlist(self._files_read)
            problem = f"the fit failed on the content of {files} ({found:.200})"
            raise self._error([f"{problem}; {_START_OVER}"]) from error

    def read(self, parts: tuple[str, ...], note: str) -> tuple[Arrays, list] | None:
        """Return a stage's arrays and log entries; None if it must be computed."""
        if not self._lock.is_held:
            raise RuntimeError("use a checkpoint within its with statement")
        file = self._stage_file(parts)
        if not os.path.lexists(file):
            return None
        try:
            header, arrays = _STAGE.read(file)
        except StoredFileError as error:
            logger.warning("%s; computing the stage again", _in_one_line(error))
            return None
        if header.get("name") != list(parts) or header.get("note") != note:
            logger.warning("'%s' belongs to other inputs; computing it again", file)
            return None
        if not _is_log(header.get("log")):
            logger.warning("'%s' is damaged; computing the stage again", file)
            return None
        logger.info("read '%s'", file)
        self._files_read.append(file.name)
        return arrays, header["log"]

    def write(
        self, parts: tuple[str, ...], arrays: Arrays, note: str, entries: list
    ) -> None:
        """Store a stage."""
        header = {"name": parts, "note": note, "log": entries}
        try:
            with self._explain_write_errors():
                _STAGE.write(self._stage_file(parts), header, arrays)
        except StoredFileError as error:  # too large: the fit continues without it
            logger.warning("%s; the stage is not stored", _in_one_line(error))

    def _check_identity(self) -> None:
        """Write the identity into a new folder; refuse the folder of another fit."""
        file = self.path / _IDENTITY
        if not os.path.lexists(file):
            if any(self.path.glob(f"*{_SUFFIX}")):
                found = f"it has {_SUFFIX} files but no {_IDENTITY}"
                raise self._error([f"{found}; give another folder"])
            write_atomically(file, to_json(self._identity, indent=2).encode())
            return
        try:
            stored = json.loads(read_regular_file(file, _MAX_IDENTITY))
            before = dict(_flatten(stored))
        except (OSError, *CONTENT_ERRORS) as error:
            found = f"{_IDENTITY} is damaged ({error}); {_START_OVER}"
            raise self._error([found]) from None
        now = dict(_flatten(self._identity))
        differences = [
            f"{key} is {_format_setting(now, key)} now and was {_format_setting(before, key)}"
            for key in sorted(before.keys() | now.keys())
            if _text(before, key) != _text(now, key)
        ]
        if differences:
            raise self._error(
                [f"it belongs to another fit; {_START_OVER}", *differences]
            )

    def _stage_file(self, parts: tuple[str, ...]) -> Path:
        name = "+".join(quote(part, safe="") for part in parts)
        if len(name) > _LONGEST_NAME:
            digest = hashlib.sha256(name.encode()).hexdigest()[:16]
            name = f"{name[:_LONGEST_NAME]}+{digest}"
        return self.path / (name + _SUFFIX)

    def _error(self, problems: list[str]) -> DataError:
        return DataError(self._subject, problems)

    @property
    def _subject(self) -> str:
        return f"Cannot use checkpoint folder '{self.path}'"

    @contextmanager
    def _explain_write_errors(self) -> Iterator[None]:
        with explain_os_errors(self._subject, _MAKE_ROOM):
            yield


def _in_one_line(error: StoredFileError) -> str:
    return f"{error.subject} ({error.problems[0]})"


def _is_log(entries: Any) -> bool:
    return isinstance(entries, list) and all(
        isinstance(entry, dict) and {"stage", "step"} <= entry.keys()
        for entry in entries
    )


def _flatten(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings by dotted keys."""
    for key, value in mapping.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _text(mapping: Mapping[str, Any], key: str) -> str:
    """Return a value as JSON text, by which even NaN is equal to itself."""
    return to_json(mapping[key], sort_keys=True) if key in mapping else "missing"


def _format_setting(mapping: Mapping[str, Any], key: str) -> str:
    return reprlib.repr(mapping[key]) if key in mapping else "missing"

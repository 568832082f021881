"""Bodies that followed a Loss-Net, with that Loss-Net and what it was trained on, kept."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import os
import reprlib
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor, nn

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.storage import PARTIAL, read_plain, refuse_disguise, write_atomically

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pyomo_csg.learn.progress import TrainingLog
    from pyomo_csg.learn.task import Task

logger = logging.getLogger(__name__)


_FORMAT = 1
_IDENTITY, _LOCK = "identity.json", "lock"
_STAGE = ".safetensors"
_LONGEST = 150  # characters of a file's name; most file systems take 255
_KINDS = "biuf"  # what a safetensors file holds
_MOST_STAGE, _MOST_IDENTITY = 2**30, 2**24  # bytes
_UNFIT = (  # what comes of content that a stranger made
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_ANEW = "give another folder, or delete this one to start anew"
_ROOM = (
    "give a folder that can be written and has room; finished stages are kept, and the "
    "same call goes on from them"
)

Arrays = dict[str, np.ndarray]
Net = TypeVar("Net", bound=nn.Module)


class Checkpoint:
    """Computes stages, or reads those that an earlier run of the same fit finished.

    One fit at a time has the folder: entering takes it, leaving gives it back, and so
    does the end of the process, however it comes.

    Parameters
    ----------
    folder : str or Path, optional
        Made if it is not there. With None every stage is computed and nothing is kept.
    identity : mapping
        What is fitted, in JSON's types: fingerprints of data and model, settings, seed.
        A folder that was made for something else is refused.

    Examples
    --------
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
            raise DataError("Cannot keep the fit", [found])
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
            self._folder.blame(error)

    def within(self, part: str) -> Checkpoint:
        """Return a view whose stages have names of their own: those of a part."""
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
        """Return a stage's arrays: read if they are whole on disk, else computed and kept.

        Parameters
        ----------
        name : str
            Unlike those of all other stages of this part.
        compute : callable
            Returns arrays or tensors of numbers or truth values by name.
        note : str, optional
            What the stage depends on, such as a digest. Arrays that were kept with
            another note are computed anew.
        log : TrainingLog, optional
            Entries that ``compute`` writes are kept, too, and written again when the
            stage is read.

        Returns
        -------
        dict of arrays
            The same, in the order of their names, whether computed or read.
        """
        if self._folder is None:
            return _plain(compute())
        parts = (*self._parts, name)
        kept = self._folder.read(parts, note or "")
        if kept is not None:
            arrays, entries = kept
            if log is not None:
                for entry in entries:
                    log.record(**entry)
            return arrays
        first = 0 if log is None else len(log.entries)
        arrays = _plain(compute())
        entries = [] if log is None else log.entries[first:]
        if log is None or log.stopped_in is None:  # else with more time there is more
            self._folder.write(parts, arrays, note or "", entries)
        return arrays


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
    return [restore_network(net, arrays, f"{s}.") for s, net in enumerate(networks)]


def restore_network(network: Net, arrays: Mapping[str, np.ndarray], prefix: str) -> Net:
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
        self._identity = json.loads(_json({"checkpoint_format": _FORMAT, **identity}))
        self._lock: int | None = None
        self._read: list[str] = []

    def open(self) -> None:
        """Take the folder for this process, and see that it is this fit's."""
        with self._complaining():
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.path)
        try:
            with self._complaining():
                self._identify()
                for left in self.path.glob(f".*{PARTIAL}"):
                    left.unlink()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the folder back."""
        if self._lock is not None:
            _unlock(self._lock)
        self._lock = None

    def blame(self, error: BaseException | None) -> None:
        """Name this folder where a fit failed on what it had read from it."""
        if self._read and isinstance(error, _UNFIT):
            found = f"{type(error).__name__}: {error}".splitlines()[0]
            what = (
                f"what is kept in {shortlist(self._read)} does not fit ({found:.200})"
            )
            raise self._error([f"{what}; {_ANEW}"]) from error

    def read(self, parts: tuple[str, ...], note: str) -> tuple[Arrays, list] | None:
        """Return a stage's arrays and log entries; None if it is to be computed."""
        if self._lock is None:
            raise RuntimeError("a checkpoint is used within its with statement")
        file = self._file(parts)
        try:
            arrays, about = _read(file)
        except FileNotFoundError:
            return None
        except (SafetensorError, OSError, *_UNFIT) as error:
            logger.warning("'%s' is damaged and computed anew: %s", file, error)
            return None
        if about["name"] != list(parts) or about["note"] != note:
            logger.warning("'%s' was kept for something else; computed anew", file)
            return None
        logger.info("read '%s'", file)
        self._read.append(file.name)
        return arrays, about["journal"]

    def write(
        self, parts: tuple[str, ...], arrays: Arrays, note: str, entries: list
    ) -> None:
        """Keep a stage."""
        about = {"name": parts, "note": note, "journal": entries}
        file, content = self._file(parts), _content(arrays, about)
        if len(content) > _MOST_STAGE:
            logger.warning("'%s' would be too large and is not kept", file)
            return
        with self._complaining():
            write_atomically(file, content)

    def _identify(self) -> None:
        """Say what this folder is for, or refuse it if it is for something else."""
        file = self.path / _IDENTITY
        if not os.path.lexists(file):
            if any(self.path.glob(f"*{_STAGE}")):
                raise self._error(
                    [f"it has {_STAGE} files but no {_IDENTITY}; give another folder"]
                )
            write_atomically(file, _json(self._identity, indent=2).encode())
            return
        try:
            before = dict(_flat(json.loads(read_plain(file, _MOST_IDENTITY))))
        except (OSError, *_UNFIT) as error:
            raise self._error([f"{_IDENTITY} is damaged ({error}); {_ANEW}"]) from None
        now = dict(_flat(self._identity))
        differences = [
            f"{key} is {_shown(now, key)} now and was {_shown(before, key)}"
            for key in sorted(before.keys() | now.keys())
            if _shown(before, key, whole=True) != _shown(now, key, whole=True)
        ]
        if differences:
            raise self._error([f"it holds another fit; {_ANEW}", *differences])

    def _file(self, parts: tuple[str, ...]) -> Path:
        name = "+".join(quote(part, safe="") for part in parts)
        if len(name) > _LONGEST:
            name = f"{name[:_LONGEST]}+{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        return self.path / (name + _STAGE)

    def _error(self, problems: list[str]) -> DataError:
        return DataError(f"Cannot keep the fit in '{self.path}'", problems)

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        """Turn what the system refuses into an error that says what to do."""
        try:
            yield
        except _HeldError as held:
            found = f"{held} is at work there; wait for it, or give another folder"
            raise self._error([found]) from None
        except OSError as error:
            raise self._error([f"{error.strerror or error}; {_ROOM}"]) from error


def _plain(arrays: Mapping[str, Any]) -> Arrays:
    """Return arrays of their own memory, in the order of their names."""
    plain = {}
    for name in sorted(arrays):
        value = arrays[name]
        value = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        plain[name] = np.array(value, order="C")
        if plain[name].dtype.kind not in _KINDS:
            raise TypeError(f"stage array '{name}' is of {plain[name].dtype}")
    return plain


def _content(arrays: Arrays, about: Mapping[str, Any]) -> bytes:
    text = _json(about)
    return save(arrays, {"about": text, "sha256": _checksum(arrays, text)})


def _read(file: Path) -> tuple[Arrays, dict[str, Any]]:
    """Return arrays and what is said about them, or raise if they are not whole."""
    refuse_disguise(file, _MOST_STAGE)
    with safe_open(file, framework="numpy") as stored:
        names, metadata = stored.keys(), stored.metadata()
        arrays = _plain({name: stored.get_tensor(name) for name in names})
    if metadata["sha256"] != _checksum(arrays, metadata["about"]):
        raise ValueError("its checksum is wrong")
    about = json.loads(metadata["about"])
    if not {"name", "note", "journal"} <= about.keys():
        raise ValueError("it does not say what it is")
    for entry in about["journal"]:
        if not {"stage", "step"} <= entry.keys():
            raise ValueError("its log entries are not valid")
    return arrays, about


def _checksum(arrays: Arrays, about: str) -> str:
    """Return the SHA-256 of all that a stage's file says."""
    shapes = [(name, str(array.dtype), array.shape) for name, array in arrays.items()]
    digest = hashlib.sha256(_json([about, shapes]).encode())
    for array in arrays.values():
        digest.update(array.tobytes())
    return digest.hexdigest()


def _json(value: Any, **options: Any) -> str:
    return json.dumps(value, default=lambda number: number.item(), **options)


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield values by their dotted keys."""
    for key, value in mapping.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _shown(mapping: Mapping[str, Any], key: str, whole: bool = False) -> str:
    if key not in mapping:
        return "not there"
    return _json(mapping[key], sort_keys=True) if whole else reprlib.repr(mapping[key])


class _HeldError(Exception):
    """Another process holds the lock."""


_held: set[int] = set()


def _locked(folder: Path) -> int:
    """Return the open file of the folder's lock, which the system drops with us."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    lock = os.open(folder / _LOCK, flags, 0o666)
    try:
        if not _try_lock(lock):
            holder = os.read(lock, 1000).decode(errors="replace").strip()
            raise _HeldError(f"process {holder}" if holder else "another process")
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()} on {socket.gethostname()}\n".encode())
    except BaseException:
        os.close(lock)
        raise
    _held.add(lock)
    return lock


def _unlock(lock: int) -> None:
    if lock in _held:
        _held.discard(lock)
        os.close(lock)


def _let_go_in_child() -> None:
    """Close a forked worker's share of the locks: it may outlive a process killed."""
    for lock in list(_held):
        _unlock(lock)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(lock: int) -> bool:
        os.lseek(lock, 1 << 30, os.SEEK_SET)  # beyond what others may want to read
        try:
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(lock, 0, os.SEEK_SET)
        return True
else:
    import fcntl

    os.register_at_fork(after_in_child=_let_go_in_child)

    def _try_lock(lock: int) -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

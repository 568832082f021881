"""Files: where one can be, and written whole or not at all, whatever happens."""

from __future__ import annotations

import os
import stat
import sys
import uuid
from pathlib import Path
from typing import Any

from pyomo_csg.errors import DataError

PARTIAL = ".partial"  # ends the name of a file that a kill left behind


def write_atomically(file: Path, content: bytes) -> None:
    """Write a file beside its place, and put it there when it is on the disk."""
    partial = file.with_name(f".{uuid.uuid4().hex}{PARTIAL}")
    try:
        with open(partial, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)
    if sys.platform != "win32":  # where a folder cannot be opened
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_user_file(path: Any, content: bytes) -> None:
    """Write a file that a user asked for; one that was there is kept until it is whole.

    Raises
    ------
    DataError
        If it is no place for a file, or the system refuses it: no room, no right to write.
    """
    file = writable_path(path)
    try:
        write_atomically(file, content)
    except OSError as error:
        found = f"{error.strerror or error}; make room for it, or give another place"
        raise _refusal(file, "written", found) from error


def writable_path(path: Any) -> Path:
    """Return where a file can be written, or raise a DataError that says why not."""
    place = _path(path, "written")
    if not place.parent.is_dir():
        raise _refusal(
            place, "written", f"there is no folder '{place.parent}'; make it"
        )
    if place.is_dir():
        raise _refusal(place, "written", "it is a folder; give the name of a file")
    return place


def readable_path(path: Any) -> Path:
    """Return where a file is, or raise a DataError: pipes and devices are none."""
    place = _path(path, "read")
    if not place.is_file():
        raise _refusal(place, "read", "there is no such file")
    return place


def read_plain(file: Path, most: int) -> bytes:
    """Return a file's content, if it is a file itself, no link, and not too large.

    For folders that come from elsewhere: a link would read what is not in them, and a
    pipe would wait for ever.

    Raises
    ------
    OSError
        As of FileNotFoundError if there is none.
    """
    refuse_disguise(file, most)
    return file.read_bytes()


def refuse_disguise(file: Path, most: int) -> None:
    """Raise an OSError unless there is a plain file of at most so many bytes."""
    found = file.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"'{file}' is no file but a link, a folder or a pipe")
    if found.st_size > most:
        raise OSError(f"'{file}' takes more than {most} bytes")


def _path(path: Any, what: str) -> Path:
    if not isinstance(path, str | os.PathLike) or "\0" in os.fspath(path):
        raise _refusal(repr(path), what, "it is no path; give the name of a file")
    return Path(path)


def _refusal(path: Any, what: str, problem: str) -> DataError:
    return DataError(f"'{path}' cannot be {what}", [problem])

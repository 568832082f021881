"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

from pyomo_csg.errors import DataError

PARTIAL = ".partial"  # ends the name of a file that a kill left behind


def write_whole(file: Path, content: bytes) -> None:
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


def write_result(file: Path, content: bytes) -> None:
    """Write a file that a user asked for; one that was there is kept until it is whole.

    Raises
    ------
    DataError
        If the system refuses it: no room, no right to write.
    """
    try:
        write_whole(file, content)
    except OSError as error:
        found = f"{error.strerror or error}; make room for it, or give another place"
        raise DataError(f"'{file}' cannot be written", [found]) from error

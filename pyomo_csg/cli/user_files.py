"""Files of a user: tables, CSV or Parquet, the paths of results, and a policy's model.

A policy remembers its model by a path that only this user's fit can write. Reading a model
executes Python code, and a policy may come from a stranger. So the path is sealed by a key
that is in the user's folder, and the file must be the same as at the fit.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pyomo_csg.errors import DataError
from pyomo_csg.storage import readable_path, writable_path, write_user_file

FIELD = "model_file"  # in the summary of a policy
_BYTES = 32  # of the key
_PARQUET = (".parquet", ".pq")
_OTHER_SEPARATORS = ";\t"  # of cells, where commas are decimal marks
_NO_PARQUET = "Parquet needs pyarrow: pip install 'pyomo-csg[parquet]'; or give a CSV"


def read_table(path: str | Path) -> pd.DataFrame:
    """Return a table from a file, or raise a DataError; a first column without a name is its index."""
    path = readable_path(path)
    try:
        if path.suffix.lower() in _PARQUET:
            return pd.read_parquet(path)
        table = pd.read_csv(path)
    except ImportError:
        raise _table_error(path, "read", _NO_PARQUET) from None
    except (
        ValueError,
        OSError,
    ) as error:  # includes files that are not tables or not text
        raise _table_error(path, "read", _describe_read_error(path, error)) from error
    columns = [str(name) for name in table.columns]
    if len(columns) == 1 and (other := set(columns[0]) & set(_OTHER_SEPARATORS)):
        found = f"its only column is '{columns[0]}'; separate cells by commas, not by"
        raise _table_error(path, "read", f"{found} {other.pop()!r}")
    if len(columns) > 1 and columns[0] == "Unnamed: 0":
        return table.set_index(table.columns[0]).rename_axis(None)
    return table


def _describe_read_error(path: Path, error: Exception) -> str:
    """Return what is wrong with a file that pandas cannot read."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8; save it as a CSV in UTF-8, with a header"
    message = " ".join(str(error).split())
    if path.suffix.lower() in _PARQUET:
        return (
            f"it is not a valid Parquet file ({message}); write it again, or give a CSV"
        )
    return f"{message}; give a CSV with a header"


def write_table(path: str | Path | None, table: pd.DataFrame) -> None:
    """Write a table to a file, atomically, or to standard output.

    The index is written unless it only counts the rows.
    """
    index = not isinstance(table.index, pd.RangeIndex)
    if path is None:
        table.to_csv(sys.stdout, index=index)
        return
    path = Path(path)
    if path.suffix.lower() not in _PARQUET:
        write_user_file(path, table.to_csv(index=index).encode())
        return
    try:
        write_user_file(path, table.to_parquet())
    except ImportError:
        raise _table_error(path, "written", _NO_PARQUET) from None


def check_output_path(path: str | Path | None, *inputs: str | Path | None) -> None:
    """Raise a DataError if results cannot be written to a path, before hours of work.

    An input file is not accepted: it would be overwritten.
    """
    if path is None:
        return
    place = writable_path(path)
    if any(_is_same_file(place, one) for one in inputs if one is not None):
        found = "this command reads it; give the name of another file"
        raise _table_error(place, "written", found)


def _is_same_file(place: Path, other: str | Path) -> bool:
    """Return True if two paths lead to one file, through any links and folders."""
    return place.exists() and Path(other).exists() and place.samefile(other)


def _table_error(path: Path, action: str, problem: str) -> DataError:
    return DataError(f"'{path}' cannot be {action}", [problem])


def remember(path: str | Path) -> dict[str, str] | None:
    """Return a sealed description of a model's file; None if no key can be stored."""
    place = Path(path).resolve()
    try:
        key = _user_key(create=True)
        checksum = _checksum(place)
    except OSError:  # such as a home folder that cannot be written
        return None
    found = {"path": str(place), "checksum": checksum}
    return {**found, "seal": _seal(key, found)}


def find_remembered(summary: Mapping[str, Any]) -> tuple[Path | None, str]:
    """Return the file of a policy's model, or None and why it is not used."""
    entry = summary.get(FIELD)
    names = ("path", "checksum", "seal")
    if not (
        isinstance(entry, dict) and all(isinstance(entry.get(n), str) for n in names)
    ):
        return None, "the policy does not say where its model is"
    try:
        key = _user_key(create=False)
    except OSError:
        key = b""
    if not key or not hmac.compare_digest(_seal(key, entry), entry["seal"]):
        return None, "another user, or another machine, fitted the policy"
    place = Path(entry["path"])
    try:
        same = _checksum(place) == entry["checksum"]
    except OSError:
        return None, f"its model '{place}' is no longer there"
    return (place, "") if same else (None, f"'{place}' has changed since the fit")


def _seal(key: bytes, entry: Mapping[str, str]) -> str:
    text = f"{entry['checksum']} {entry['path']}".encode("utf-8", "replace")
    return hmac.new(key, text, "sha256").hexdigest()


def _checksum(place: Path) -> str:
    return hashlib.sha256(place.read_bytes()).hexdigest()


def _user_key(create: bool) -> bytes:
    """Return the user's key, which only the user can read; an OSError if there is none."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    file = folder / "pyomo-csg" / "key"
    if create and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(_BYTES))
    key = file.read_bytes()
    if len(key) != _BYTES:
        raise OSError(f"'{file}' is not a key")
    return key

"""Tables in files: CSV, or Parquet by its ending."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from pyomo_csg.errors import DataError
from pyomo_csg.storage import readable_path, writable_path, write_user_file

_PARQUET = (".parquet", ".pq")
_OTHER_SIGNS = ";\t"  # between cells, where commas are for decimals
_NO_PARQUET = "Parquet needs pyarrow: pip install 'pyomo-csg[parquet]'; or give a CSV"


def read_table(path: str | Path) -> pd.DataFrame:
    """Return a table from a file; a first column without a name is its index.

    Raises
    ------
    DataError
        If it is not there or cannot be read.
    """
    path = readable_path(path)
    try:
        if path.suffix.lower() in _PARQUET:
            return pd.read_parquet(path)
        table = pd.read_csv(path)
    except ImportError:
        raise _refusal(path, "read", _NO_PARQUET) from None
    except (ValueError, OSError) as error:  # among them: not a table, not text
        raise _refusal(path, "read", _why(path, error)) from error
    columns = [str(name) for name in table.columns]
    if len(columns) == 1 and (signs := set(columns[0]) & set(_OTHER_SIGNS)):
        found = f"its only column is '{columns[0]}'; separate cells by commas, not by"
        raise _refusal(path, "read", f"{found} {signs.pop()!r}")
    if len(columns) > 1 and columns[0] == "Unnamed: 0":
        return table.set_index(table.columns[0]).rename_axis(None)
    return table


def _why(path: Path, error: Exception) -> str:
    """Say what is wrong with a file that pandas does not read."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8; save it as a CSV in UTF-8, with a header"
    words = " ".join(str(error).split())
    if path.suffix.lower() in _PARQUET:
        return f"it is no whole Parquet file ({words}); write it again, or give a CSV"
    return f"{words}; give a CSV with a header"


def write_table(path: str | Path | None, table: pd.DataFrame) -> None:
    """Write a table to a file, whole or not at all, or to standard output.

    The index is written where it is more than a count of rows.
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
        raise _refusal(path, "written", _NO_PARQUET) from None


def check_output_path(path: str | Path | None, *inputs: str | Path | None) -> None:
    """Refuse a place for results before there are any, not after hours of work.

    A file that is read is no such place: it would be lost.
    """
    if path is None:
        return
    place = writable_path(path)
    if any(_is_file(place, one) for one in inputs if one is not None):
        found = "this command reads it; give the name of another file"
        raise _refusal(place, "written", found)


def _is_file(place: Path, other: str | Path) -> bool:
    """Say if two names are of one file, whatever links and folders are in them."""
    return place.exists() and Path(other).exists() and place.samefile(other)


def _refusal(path: Path, what: str, problem: str) -> DataError:
    return DataError(f"'{path}' cannot be {what}", [problem])

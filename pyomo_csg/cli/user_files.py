"""Tables in files, CSV or Parquet, and the paths of results."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from pyomo_csg.errors import DataError
from pyomo_csg.interop.model_files import load_model
from pyomo_csg.storage import readable_path, writable_path, write_user_file

_PARQUET = (".parquet", ".pq")
__all__ = ["check_output_path", "load_model", "read_table", "write_table"]
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

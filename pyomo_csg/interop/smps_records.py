"""Lines of MPS, TIME and STOCH files as records, and errors that name the line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyomo_csg.errors import DataError
from pyomo_csg.stages.inputs import INFINITY
from pyomo_csg.storage import explain_os_errors, readable_path

_FIELDS = ((1, 3), (4, 12), (14, 22), (24, 36), (39, 47), (49, 61))
_GAPS = (0, 3, 12, 13, 22, 23, 36, 37, 38, 47, 48)


@dataclass(frozen=True)
class Record:
    """One line: a section's header, or data of a section.

    ``words`` are its fields without the empty ones.
    """

    path: Path
    line: int
    section: str
    words: list[str]
    is_header: bool

    def error(self, found: str) -> DataError:
        """Return an error that names file, line and section."""
        return line_error(self.path, self.line, self.section, found)

    def number(self, text: str) -> float:
        """Return a finite number, or raise an error."""
        number = parse_number(text)
        if number is None or not math.isfinite(number):
            raise self.error(f"'{text}' is not a finite number; correct it")
        return number

    def bound(self, text: str) -> float:
        """Return a number that may be infinite, as bounds may."""
        number = parse_number(text)
        if number is None or math.isnan(number):
            raise self.error(f"'{text}' is not a number; correct it")
        return math.copysign(math.inf, number) if abs(number) >= INFINITY else number


def line_error(path: Path, line: int, section: str, found: str) -> DataError:
    """Return the error of one line of a file."""
    inside = f", section {section}" if section else ""
    return DataError(f"'{path}' cannot be read", [f"line {line}{inside}: {found}"])


def parse_number(text: str) -> float | None:
    """Return a number, or None for text; Fortran's exponent is read, as in 1.5D+02."""
    try:
        # Python's own literals allow 1_000, which no solver reads.
        return None if "_" in text else float(text.upper().replace("D", "E"))
    except ValueError:
        return None


def read_lines(path: str | Path) -> tuple[Path, list[str]]:
    """Return a file's path and lines; text that is not UTF-8 is read as Latin-1."""
    place = readable_path(path)
    remedy = "check the permissions of the file"
    with explain_os_errors(f"'{place}' cannot be read", remedy):
        content = place.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    if "\0" in text:
        found = "it is not a text file; give an MPS, TIME or STOCH file"
        raise DataError(f"'{place}' cannot be read", [found])
    return place, text.splitlines()


def records(
    path: Path, lines: Sequence[str], fixed: bool, sections: Sequence[str]
) -> Iterator[Record]:
    """Yield headers and data up to ENDATA, without comments and empty lines.

    ``sections`` are the section names of this kind of file, for a message about data
    before the first header.
    """
    section = ""
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("*"):
            continue
        if line[0] not in " \t":
            words = line.split()
            section = words[0].upper()
            if section == "ENDATA":
                return
            yield Record(path, number, section, words, is_header=True)
            continue
        if not section:
            found = (
                f"'{line.strip()}' is before the first section; begin the file with "
                f"{sections[0]}"
            )
            raise line_error(path, number, "", found)
        words = _fixed_words(line) if fixed else _free_words(line)
        if words:
            yield Record(path, number, section, words, is_header=False)
    found = "the file ends without ENDATA; if it is complete, add that line"
    raise line_error(path, len(lines), section, found)


def needs_fixed_format(lines: Sequence[str]) -> bool:
    """Return True if names in COLUMNS contain spaces, so that fields must be read by column.

    All data of that section must then stand in the columns of fixed format.
    """
    inside = spaces = False
    for line in lines:
        if not line.strip() or line.startswith("*"):
            continue
        if line[0] not in " \t":
            inside = line.split()[0].upper() == "COLUMNS"
        elif inside:
            words = _fixed_words(line)
            if not _is_fixed_entry(line, words):
                return False
            spaces = spaces or any(" " in word for word in words)
    return spaces


def _is_fixed_entry(line: str, words: list[str]) -> bool:
    if "\t" in line or any(line[gap : gap + 1].strip() for gap in _GAPS):
        return False
    if "'MARKER'" in line:
        return True
    numbers = words[2::2]
    return len(words) in (3, 5) and all(parse_number(n) is not None for n in numbers)


def _fixed_words(line: str) -> list[str]:
    fields = [line[start:end].strip() for start, end in _FIELDS]
    if any(fields[place].startswith("$") for place in (2, 4)):
        fields = fields[: 2 if fields[2].startswith("$") else 4]
    return [field for field in fields if field]


def _free_words(line: str) -> list[str]:
    words = line.split()
    if "$" in line:  # begins a comment after the first field
        for place, word in enumerate(words[1:], start=1):
            if word.startswith("$"):
                return words[:place]
    return words

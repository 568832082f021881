"""Where a policy's model is: a path in the policy that only this user's fit can write.

Reading a model executes Python code, and a policy may come from a stranger. So the path is
sealed by a key that is in the user's folder, and the file must be the same as at the fit.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FIELD = "model_file"  # in the summary of a policy
_BYTES = 32  # of the key


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

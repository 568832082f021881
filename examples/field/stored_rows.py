"""Rows of results on disk: a JSON line for each problem, method, K and seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Key = tuple[str, str, int]  # method, scenarios, seed


class Store:
    """The rows of one problem in a folder, and the facts about the problem.

    ``NAME.json`` has the facts, ``NAME.jsonl`` the rows, each written when it is complete.
    """

    def __init__(self, folder: Path, problem: str):
        self.facts_path = folder / f"{problem}.json"
        self.rows_path = folder / f"{problem}.jsonl"

    def open(self, facts: dict[str, Any]) -> None:
        """Write the facts, or check that the stored rows belong to the same problem."""
        if self.facts_path.exists():
            stored = self.facts()["fingerprint"]
            if stored != facts["fingerprint"]:
                raise ValueError(
                    f"{self.rows_path} has rows of another version of the problem "
                    f"(fingerprint {stored}, now {facts['fingerprint']}); give another "
                    f"folder, or delete both {self.rows_path.stem}.json and .jsonl"
                )
            return
        self.facts_path.parent.mkdir(parents=True, exist_ok=True)
        self.facts_path.write_text(json.dumps(facts, indent=1) + "\n")

    def facts(self) -> dict[str, Any]:
        """Return the facts about the problem."""
        return json.loads(self.facts_path.read_text())

    def add(self, row: dict[str, Any]) -> None:
        """Append a row."""
        with self.rows_path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def rows(self) -> dict[Key, dict[str, Any]]:
        """Return the last row of each key; a line that was cut short is ignored."""
        found = {}
        if self.rows_path.exists():
            for line in self.rows_path.read_text().splitlines():
                try:
                    row = json.loads(line)
                except json.JSONDecodeError:
                    continue
                found[row["method"], str(row["scenarios"]), row["seed"]] = row
        return found

"""Fits that are killed again and again."""

import tempfile
from pathlib import Path

from tests.benchmarks.oracle import heading, row
from tests.reliability.killing import CHUNK, killed_fits

KILLS = 30


def kills():
    """Kill fits at random moments; each ends with the policy of one left alone."""
    with tempfile.TemporaryDirectory() as place:
        found = killed_fits(Path(place), KILLS, seed=1)
    heading(
        f"{KILLS} kills of fits at random moments, labels in chunks of {CHUNK}",
        *("fits", "kills", "same policy", "labels a fit", "solved again", "at most"),
    )
    killed, again = (sum(f[key] for f in found) for key in ("kills", "solved again"))
    same = sum(f["same policy"] and f["same files"] for f in found)
    row(len(found), killed, same, found[0]["labels"], again, CHUNK * killed)
    for one in found:
        assert one["same policy"] and one["same files"] and one["left out"] == 0
        assert one["solved again"] <= CHUNK * one["kills"]
    assert killed == KILLS

"""The first examples run, quickly, and say what they found."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyomo_csg as csg
from models import cep1

ROOT = Path(__file__).parents[2]


def run(name, folder, *arguments):
    """Run an example in a folder and return what it printed."""
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_newsvendor_tells_its_story_and_draws_a_picture(tmp_path):
    printed = run("newsvendor", tmp_path, "--quick")

    profits = dict(
        re.findall(r"^  (best possible|this policy) +([\d.]+)$", printed, re.MULTILINE)
    )
    assert float(profits["best possible"]) > float(profits["this policy"])
    assert (tmp_path / "newsvendor.csg").is_file()
    assert (tmp_path / "newsvendor.png").stat().st_size > 10_000


def test_a_network_in_a_custom_loop_beats_context_free_saa(tmp_path):
    printed = run("custom_loop", tmp_path)

    learned, saa = map(float, re.findall(r"(\d+\.\d+)", printed))
    assert learned > saa + 1


def test_the_oracle_labels_a_thousand_pairs(tmp_path):
    printed = run("oracle", tmp_path)

    contexts, outcomes = cep1.sample(1000, seed=0)
    means = [cep1.conditional(x)[0].mean(axis=0, keepdims=True) for x in contexts]
    expected = csg.Oracle(cep1.build()).loss(means, outcomes, progress=False).mean()
    assert f"Deciding on the mean demand costs {expected:,.0f}\n" in printed

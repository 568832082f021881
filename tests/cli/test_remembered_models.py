"""A policy remembers its model's file: for the user who fitted it, while the file is the same."""

import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from pyomo_csg.cli import main
from pyomo_csg.cli.user_files import FIELD, find_remembered, remember
from pyomo_csg.policy.policy_file import read_summary

FIT = ["--method", "mmd", "--set", "mmd_epochs=2"]


@pytest.fixture
def moved(folder, monkeypatch):
    """Fit with a model that is called and placed otherwise than by default."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "me"))
    for name in ("models", "policies"):
        Path(name).mkdir()
    shutil.move("model.py", "models/shop.py")
    out = ["--out", "policies/shop.csg"]
    assert main(["fit", "models/shop.py", "history.csv", *FIT, *out]) == 0
    return folder


def decide(*more):
    return main(["decide", "policies/shop.csg", "contexts.csv", *more])


def test_no_model_need_be_named(moved, capsys, monkeypatch):
    capsys.readouterr()
    assert decide("--out", "mine.csv") == 0
    assert decide("--out", "named.csv", "--model", "models/shop.py") == 0
    pd.testing.assert_frame_equal(pd.read_csv("mine.csv"), pd.read_csv("named.csv"))
    # From any folder: the path is absolute.
    monkeypatch.chdir(moved / "policies")
    assert main(["report", "shop.csg", "../heldout.csv"]) == 0
    assert main(["evaluate", "shop.csg", "../heldout.csv"]) == 0


def test_the_key_is_readable_for_the_user_alone(moved):
    assert os.stat("me/pyomo-csg/key").st_mode & 0o777 == 0o600


def test_a_changed_file_is_not_executed(moved, capsys):
    with open("models/shop.py", "a") as file:
        file.write("\nopen('executed', 'w')\n")
    assert decide() == 1
    assert "shop.py' has changed since the fit; give" in _one_line(capsys)
    assert not Path("executed").exists()
    assert decide("--model", "models/shop.py") == 0


def test_a_file_that_is_gone_is_named(moved, capsys):
    os.remove("models/shop.py")
    assert decide() == 1
    assert "shop.py' is no longer there; give the policy's model" in _one_line(capsys)


@pytest.mark.parametrize("has_key", [True, False])
def test_a_policy_of_another_user_names_no_code(moved, capsys, monkeypatch, has_key):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(moved / "other"))
    if has_key:
        assert remember("models/shop.py") is not None
    assert decide() == 1
    assert "another user, or another machine, fitted the policy" in _one_line(capsys)


@pytest.mark.parametrize("change", [{"path": "/evil.py"}, {"checksum": "0" * 64}])
def test_a_forged_entry_is_not_used(moved, change):
    summary = read_summary("policies/shop.csg")
    assert find_remembered(summary)[0] == moved / "models" / "shop.py"
    forged = {FIELD: {**summary[FIELD], **change}}
    assert find_remembered(forged) == (
        None,
        "another user, or another machine, fitted the policy",
    )


@pytest.mark.parametrize("entry", [None, 3, [], {"path": 1}, {"path": "x"}])
def test_an_entry_of_another_kind_is_ignored(entry):
    found, why = find_remembered({FIELD: entry})
    assert found is None and "does not say" in why


def test_without_a_place_for_the_key_nothing_is_remembered(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    (tmp_path / "model.py").write_text("model = 1")
    assert remember(tmp_path / "model.py") is None


def _one_line(capsys):
    return " ".join(capsys.readouterr().err.split())

"""A folder with a model and tables, and a policy fitted to them once."""

import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from pyomo_csg.cli import main
from pyomo_csg.cli.commands import _days
from pyomo_csg.cli.user_files import write_table
from tests.quick import QUICK, shorten

QUICKLY = [f"--set={name}={value}" for name, value in vars(QUICK).items() if value]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


@pytest.fixture(scope="session", autouse=True)
def own_settings(tmp_path_factory):
    """Keep the user's folder as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))
        yield


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("newsvendor")
    shutil.copy(Path(str(files("pyomo_csg.cli") / "assets" / "model.py")), folder)
    write_table(folder / "history.csv", _days(40, seed=1))
    write_table(folder / "heldout.csv", _days(25, seed=2))
    contexts = _days(6, seed=3).drop(columns="demand")
    write_table(folder / "contexts.csv", contexts)
    inputs = [str(folder / name) for name in ("model.py", "history.csv")]
    out = str(folder / "policy.csg")
    assert main(["fit", *inputs, "--method", "mmd", *QUICKLY, "--out", out]) == 0
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    """Go to a copy of the folder, as another user than the one who fitted the policy."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path

"""A policy's file with its model, and clients of the application in this process."""

import shutil
from importlib.resources import files

import pandas as pd
import pytest

from pyomo_csg.cli.commands import _days
from pyomo_csg.interop.model_files import load_model
from tests.quick import fit

pytest.importorskip("fastapi")


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """Return a folder with a model and a policy."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copy(str(files("pyomo_csg.cli") / "assets" / "model.py"), folder)
    model = load_model(folder / "model.py")
    fit(_days(40, seed=1), model, method="mmd").save(folder / "policy.csg")
    return folder


@pytest.fixture
def folder(fitted, tmp_path):
    shutil.copytree(fitted, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def rows():
    return _days(6, seed=3).drop(columns="demand")


@pytest.fixture
def client(folder):
    """Return a function that makes a client, with settings of its own."""
    from fastapi.testclient import TestClient

    from pyomo_csg.serve.application import create_app
    from pyomo_csg.serve.settings import ServeSettings

    def make(**changes):
        paths = {
            "policy": str(folder / "policy.csg"),
            "model": str(folder / "model.py"),
        }
        return TestClient(create_app(ServeSettings(**{**paths, **changes})))

    return make


def as_json(rows: pd.DataFrame):
    return rows.to_dict("records")

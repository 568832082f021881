"""The story of a policy at work comes out as its text says."""

import importlib.util
from pathlib import Path

import pytest

import pyomo_csg as csg
from tests.quick import shorten

FILE = Path(__file__).parents[2] / "examples" / "operation.py"


@pytest.fixture
def operation(monkeypatch):
    shorten(monkeypatch.setattr)
    spec = importlib.util.spec_from_file_location("operation", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_change_is_found_and_the_update_follows_it(operation, tmp_path, capsys):
    operation.main(tmp_path)
    printed = capsys.readouterr().out
    assert "On 90 held-out rows this policy earns" in printed
    assert "The second quarter: No drift on 90 rows." in printed
    assert "The third quarter: Drift: " in printed
    assert "more than the best alternative (the policy before the update)" in printed
    assert {path.name for path in tmp_path.iterdir()} >= {"report.html", "shop.csg"}
    assert len(csg.load(tmp_path / "shop.csg", operation.build()).lineage) == 2

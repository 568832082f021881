"""A decision every morning: real days as they come, and examples with a state."""

import importlib.util
import shutil

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from pyomo_csg.cli import main
from tests.examples.test_rolling import EXAMPLES, run

needs_data = pytest.mark.skipif(
    importlib.util.find_spec("ISLP") is None,
    reason="the days come with ISLP: pip install --no-deps ISLP",
)
WAYS = ["EV", "SAA", "forest", "pyomo_csg"]


@pytest.fixture
def inventory(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("inventory")


@pytest.mark.parametrize(
    "name", [pytest.param("inventory", marks=needs_data), "battery"]
)
def test_an_example_rolls_through_days_by_four_policies(name, tmp_path):
    printed = run(name, tmp_path)
    assert all(f"\n{way} " in printed for way in WAYS)
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@needs_data
class TestBikeshare:
    """Weekday text, a date, weather with holes, several demands, and no preprocessing."""

    def test_the_table_is_as_people_have_it(self, inventory):
        table = inventory.days()
        assert len(table) == 364
        assert table["weekday"][0] == "Sunday" and table["date"][0].year == 2011
        holes = table[["temp", "hum", "weathersit"]].isna().sum()
        assert (holes == 28).all()

    @pytest.mark.parametrize("method", ["mmd", "auto"])
    def test_python_fits_and_decides(self, inventory, method, tmp_path):
        table, model = inventory.days(), inventory.build()
        known = {f"stock0[{r}]": (0, 80) for r in inventory.BUYERS}
        policy = csg.fit(
            model,
            table[:300],
            known=known,
            scenarios=3,
            method=method,
            seconds=10,
            progress=False,
        )
        policy.save(tmp_path / "kiosk.csg")
        again = csg.load(tmp_path / "kiosk.csg", inventory.build())
        stocks = dict.fromkeys(known, 10.0)
        rows = table[300:].assign(**stocks).drop(columns=["demand[casual]"])
        orders = again.decide(rows)
        pd.testing.assert_frame_equal(orders, policy.decide(rows))
        assert np.isfinite(orders.to_numpy()).all()
        # Decisions of the policy are better than one decision for all contexts.
        outcomes = table[300:][["demand[casual]", "demand[registered]"]]
        numbers = rows[list(known)]
        saa = csg.baselines.SampleAverage(model, table[:300], known=known)
        ours, theirs = (
            policy.oracle.cost(made, outcomes, known=numbers).mean()
            for made in (orders, saa.decide(rows))
        )
        assert ours < theirs

    def test_the_command_line_fits_and_decides(self, inventory, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
        monkeypatch.chdir(tmp_path)
        shutil.copy(EXAMPLES / "inventory.py", "kiosk.py")
        table = inventory.days()
        table[:300].to_csv("history.csv", index=False)
        stocks = {f"stock0[{r}]": 10.0 for r in inventory.BUYERS}
        today = table[300:310].assign(**stocks).filter(regex="^(?!demand)")
        today.to_csv("today.csv", index=False)
        ranges = [f"--known=stock0[{r}]=0:80" for r in inventory.BUYERS]
        how = ["--method", "mmd", "--scenarios", "3", "--out", "kiosk.csg"]
        assert main(["fit", "kiosk.py", "history.csv", *ranges, *how]) == 0
        assert main(["decide", "kiosk.csg", "today.csv", "--out", "orders.csv"]) == 0
        orders = pd.read_csv("orders.csv").filter(like="order[")
        known = {f"stock0[{r}]": (0, 80) for r in inventory.BUYERS}
        policy = csg.fit(
            inventory.build(),
            table[:300],
            known=known,
            scenarios=3,
            method="mmd",
            progress=False,
        )
        assert orders.to_numpy() == pytest.approx(policy.decide(today).to_numpy())

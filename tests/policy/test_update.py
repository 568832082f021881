"""Updates: what is learned from new rows, what is forgotten, and what is compared."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg.learn.generators.distribution_generators import (
    AtomGenerator,
    ConstantGenerator,
    ForecastNetworkGenerator,
    FullGenerator,
    ReducedGenerator,
)
from pyomo_csg.policy import refresh
from pyomo_csg.policy.refresh import rows_to_keep
from pyomo_csg.policy.warm_start import WarmStart, restored_settings
from tests.quick import fit, panels, portfolio, shorten


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


@pytest.fixture(scope="module")
def policy():
    return fit(newsvendor.sample(60, seed=1), method="mmd")


def shifted(n, seed, by):
    """Return rows of a market whose demands have moved."""
    contexts, demands = newsvendor.sample(n, seed)
    return contexts, demands + by


def test_all_rows_are_kept_and_the_lineage_grows(policy, tmp_path):
    new = newsvendor.sample(20, seed=2)
    newer = policy.update(new)
    kept = newer.learned.pairs
    past = newsvendor.sample(60, seed=1)
    np.testing.assert_array_equal(kept.outcomes, np.concatenate([past[1], new[1]]))
    first, second = newer.lineage
    assert (first["made"], second["made"]) == ("fit", "update")
    assert (second["new_rows"], second["rows"]) == (20, 80)
    assert second["history"] == kept.fingerprint() != first["history"]
    newer.save(tmp_path / "newer.csg")
    again = csg.load(tmp_path / "newer.csg", newsvendor.build())
    assert again.lineage == newer.lineage and again.report() == newer.report()
    assert again.compare(policy) == newer.compare(policy)
    assert len(again.update(newsvendor.sample(4, seed=3)).lineage) == 3


def test_a_window_and_a_half_life_forget_the_oldest_rows(policy):
    new = newsvendor.sample(20, seed=2)
    kept = policy.update(new, window=30).learned.pairs
    expected = np.concatenate([newsvendor.sample(60, seed=1)[1][50:], new[1]])
    np.testing.assert_array_equal(kept.outcomes, expected)
    rows = rows_to_keep(4000, half_life=300)
    age = 3999 - rows
    for low in (0, 300, 600, 900):
        share = np.mean((age >= low) & (age < low + 100)) * len(rows) / 100
        assert share == pytest.approx(
            np.mean(0.5 ** (np.arange(low, low + 100) / 300)), abs=0.02
        )
    assert rows[-1] == 3999 and len(rows) == pytest.approx(300 / np.log(2), rel=0.01)


def test_the_trial_has_not_seen_the_newest_rows(policy, monkeypatch):
    seen = []

    class Spied(WarmStart):
        def __init__(self, policy, history, stage):
            seen.append(len(history))
            super().__init__(policy, history, stage)

    monkeypatch.setattr(refresh, "WarmStart", Spied)
    newer = policy.update(newsvendor.sample(21, seed=2))
    assert seen == [60 + 10, 60 + 21]
    assert newer.compare(policy).rows == 11


def test_a_market_that_moved_is_followed(policy):
    newer = policy.update(shifted(60, 2, 30.0), window=60)
    rows = shifted(200, 3, 30.0)
    verdict = newer.compare(policy, rows)
    (apart,) = (o for o in verdict.advantages if o.name == "the old policy")
    assert apart.is_clear and newer.learned.summary["update"]["adopted"]


def test_an_update_that_is_clearly_worse_is_not_adopted(policy, monkeypatch, caplog):
    worse = replace(
        fit(shifted(60, 1, 40.0), method="mmd").learned, pairs=policy.learned.pairs
    )
    monkeypatch.setattr(WarmStart, "fit", lambda *_: worse.generator)
    newer = policy.update(newsvendor.sample(40, seed=2))
    assert newer.learned.generator is policy.learned.generator
    assert len(newer.learned.pairs) == 100
    assert "not adopted" in newer.report() and "not adopted" in caplog.text
    assert newer.compare(policy).advantages[0].is_clear_loss


KINDS = {
    "sample average": ConstantGenerator,
    "ridge residuals": AtomGenerator,
    "trained atoms": AtomGenerator,
    "networks on atoms": ForecastNetworkGenerator,
    "forest weights": ReducedGenerator,
    "mixture": ReducedGenerator,
}


@pytest.mark.parametrize("chosen", KINDS)
def test_every_candidate_of_auto_can_be_updated(chosen, monkeypatch):
    from pyomo_csg.learn.candidates import auto

    def choose(names, losses, *rules):
        selection = real(names, losses, *rules)
        if chosen in names:
            selection.chosen = chosen
        return selection

    real = auto.compare_candidates
    monkeypatch.setattr("pyomo_csg.learn.selection.scoring.compare_candidates", choose)
    data = cep1.sample(60, 1)
    policy = fit(data, cep1.build(), scenarios=3)
    assert policy.learned.summary["chosen"] == chosen
    assert isinstance(policy.learned.generator, KINDS[chosen])
    newer = policy.update(cep1.sample(20, 2))
    assert type(newer.learned.generator) is type(policy.learned.generator)
    x = data[0][:5]
    assert newer.scenarios(x).shape == policy.scenarios(x).shape
    assert not np.array_equal(newer.scenarios(x), policy.scenarios(x))
    assert newer.weights(x).sum(axis=1) == pytest.approx(np.ones(5))


def test_settings_keep_the_kernel_beside_an_object_of_the_users():
    stored = {"kernel": "gaussian", "loss_net": "Pooled", "hidden": [8]}
    settings = restored_settings(stored)
    assert (settings.kernel, settings.hidden) == ("gaussian", (8,))
    assert restored_settings({"kernel": "mine", "batch": 7}).kernel == "energy"


def test_an_update_says_which_parts_of_the_user_it_does_without(caplog):
    def loss(decisions, outcomes, costs):
        return costs + 0.0

    history, new = newsvendor.sample(40, seed=1), newsvendor.sample(3, seed=2)
    policy = fit(history, method=csg.methods.Direct(loss_kind=loss, regret=True))
    policy.update(new)
    assert "the update does without 'loss_kind', 'regret' of the fit" in caplog.text
    caplog.clear()
    fit(history, method="direct").update(new)
    assert "does without" not in caplog.text

    class Own:
        def sample(self, x, n):
            return np.full((n, 1), 2.0)

    fit(history, scenarios="all", distribution=Own()).update(new)  # trains nothing
    assert "does without" not in caplog.text


@pytest.mark.parametrize("method", ["mmd", "static", "direct"])
def test_networks_go_on_from_their_old_weights(method):
    history = newsvendor.sample(60, seed=1)
    policy = fit(history, method=method)
    newer = policy.update(newsvendor.sample(20, seed=2))
    x = history[0][:20]
    moved = np.abs(newer.scenarios(x) - policy.scenarios(x)).mean()
    other = fit(history, method=method, seed=9)
    assert 0 < moved < np.abs(other.scenarios(x) - policy.scenarios(x)).mean()


def test_panels_and_all_outcomes_can_be_updated():
    of_panels = fit(panels(), portfolio(), method="mmd").update(panels(10, seed=2))
    assert len(of_panels.learned.pairs) == 40
    full = fit(newsvendor.sample(40, 1), scenarios="all")
    newer = full.update(newsvendor.sample(10, 2))
    assert isinstance(newer.learned.generator, FullGenerator)


def test_rows_are_read_as_those_of_the_fit():
    contexts, demands = newsvendor.sample(60, seed=1)
    days = pd.DataFrame(
        {"rain": contexts[:, 0], "day": ["Mon", "Tue", "Wed"] * 20}
    ).assign(demand=demands)
    policy = fit(days, method="mmd")
    newer = policy.update(days.iloc[:1, ::-1])  # one row, in another order of columns
    assert len(newer.learned.pairs) == 61
    assert newer.compare(policy).rows == 1
    with pytest.raises(csg.DataError, match="rain"):
        policy.update(days.drop(columns="rain"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"window": 0}, "window is 0; give a whole number of rows from 2 up"),
        ({"half_life": -1.0}, "half_life is -1.0; give a number of rows above 0"),
        ({"half_life": 0.01}, "1 rows are left, fewer than 2"),
    ],
)
def test_bad_options_are_refused(policy, options, says):
    with pytest.raises(csg.DataError, match=says):
        policy.update(newsvendor.sample(20, seed=2), **options)


def test_a_missing_column_is_reported_alone():
    contexts, demands = newsvendor.sample(30, seed=1)
    table = pd.DataFrame(contexts, columns=["a", "b"])
    table["day"] = np.where(np.arange(30) % 7 < 5, "work", "rest")
    policy = fit((table, demands), method="mmd")
    with pytest.raises(csg.DataError, match="no column for 'a'") as caught:
        policy.update((table.drop(columns="a"), demands))
    assert "day' contains text" not in str(caught.value)


def test_a_policy_without_a_history_cannot_be_updated(policy):
    learned = replace(policy.learned, pairs=None)
    forgetful = csg.Policy(newsvendor.build(), learned)
    with pytest.raises(csg.DataError, match="does not keep its history"):
        forgetful.update(newsvendor.sample(5, 2))
    with pytest.raises(csg.DataError, match="is not an update of that one"):
        policy.compare(forgetful)

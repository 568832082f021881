"""Pictures one by one: what is on the axes."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import newsvendor, unit_commitment
from pyomo_csg.policy.policy import Policy
from pyomo_csg.report.policy_plots import training_curves
from tests.quick import fit
from tests.test_policy import papers

matplotlib.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_scenarios_are_drawn_over_the_outcomes_near_them(mmd, held_out):
    x = {"rain": 0.2, "price": 1.0}

    ax = mmd.plot_scenarios(x, held_out)

    near, scenarios = (np.asarray(p.get_offsets()) for p in ax.collections)
    assert scenarios[:, 0] == pytest.approx(mmd.scenarios(x)[:, 0])
    assert set(near[:, 0]) <= set(held_out["demand"]) and len(near) == 10
    assert [label.get_text() for label in ax.get_yticklabels()] == ["demand"]


def test_scenarios_of_many_numbers_are_linked_and_sized_by_weight(static):
    x = static.network.center.numpy()
    given = plt.subplots()[1]

    ax = static.plot_scenarios(x, ax=given)

    assert ax is given
    lines = np.stack([line.get_xdata() for line in ax.lines])
    assert lines == pytest.approx(static.scenarios(x))
    sizes = ax.collections[0].get_sizes().reshape(4, 3)
    assert sizes[:, 0] / sizes[:, 0].sum() == pytest.approx(static.weights(x))


def test_an_ordered_index_is_drawn_as_a_profile():
    contexts, loads = unit_commitment.sample(30, 1)
    model = unit_commitment.build(("gas",), 6)
    policy = fit((contexts, loads[:, :6]), model, scenarios=2, method="mmd")
    ax = policy.plot_scenarios(contexts[0], (contexts, loads[:, :6]))
    drawn = np.stack([line.get_ydata() for line in ax.lines])
    assert drawn == pytest.approx(policy.scenarios(contexts[0]))
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5, 6]
    assert len(ax.collections) == 2 and ax.get_ylabel() == "demand"


def test_one_context_is_drawn_at_a_time(mmd, held_out):
    with pytest.raises(csg.DataError, match="x holds 30 contexts; give one"):
        mmd.plot_scenarios(held_out)


def test_training_is_drawn_stage_by_stage(mmd, auto):
    ax = mmd.plot_training()
    losses = mmd.history.dropna(subset="loss")
    seen = np.concatenate([losses["loss"], losses["held_out"]])

    training, held = (line.get_ydata() for line in ax.lines)
    for drawn, name in ((training, "loss"), (held, "held_out")):
        assert drawn * np.ptp(seen) + seen.min() == pytest.approx(losses[name].tolist())

    labels = [text.get_text() for text in auto.plot_training().get_legend().get_texts()]
    stages = auto.history["stage"].unique()
    assert [label.split(", to ")[0] for label in labels] == stages.tolist()


def test_a_policy_without_training_losses_is_refused():
    learned = papers()
    bare = Policy(newsvendor.build(), type(learned)(learned.generator, "mmd", {}))

    with pytest.raises(csg.DataError, match="no record of its training losses"):
        bare.plot_training()


def test_curves_omit_labels_and_split_repeated_stages():
    rows = [("mmd", 1, 5.0), ("mmd", 2, 4.0), ("mmd labels", 512, 3.0), ("mmd", 1, 6.0)]
    seen = pd.DataFrame(rows, columns=["stage", "step", "loss"])

    (stage,) = training_curves(seen)

    assert [run["loss"] for run in stage["runs"]] == [[5.0, 4.0], [6.0]]
    assert all("held_out" not in run for run in stage["runs"])


def test_long_curves_are_thinned_and_keep_their_end():
    seen = pd.DataFrame({"stage": "mmd", "step": range(1, 1001), "loss": 1.0})

    (run,) = training_curves(seen)[0]["runs"]

    assert len(run["step"]) == 200 and run["step"][-1] == 1000

"""Tables and pictures say what is in the evaluation, and how far it is proven."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import pyomo_csg as csg
from tests.evaluation.sample_cases import make_evaluation


def unclosed():
    costs = {"EV": [1.2, 2.2, 3.3, 4.0], "50 % & more_|": [1.1, 2.0, np.nan, 4.0]}
    return make_evaluation(costs, [1.0, 2.0, 3.0, 4.0], [1.0, 1.96, 2.97, np.nan])


def test_a_table_states_how_far_the_reference_is_proven():
    text = str(unclosed())
    assert text.startswith("Evaluation of 2 policies on 4 cases in 1 trial\n")
    assert "proven optimal in 1 of 4 cases" in text
    assert "in 2 to within 1.50% in the median and 2.00% at worst" in text
    assert "not at all in 1" in text
    row = next(line for line in text.splitlines() if line.startswith("EV"))
    assert row.split()[1] == "10" and "37.5%" in row


def test_the_table_of_costs_says_that_there_is_no_reference():
    text = str(make_evaluation({"a": [355159.95, 355160.25]}))
    assert "355160" in text and "lower is better; there is no reference" in text
    assert "speed-up" in text


def test_markdown_is_one_row_for_each_policy(tmp_path):
    path = tmp_path / "table.md"
    text = unclosed().to_markdown(path)
    assert path.read_text(encoding="utf-8") == text
    header, rule, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2
    assert header.count("|") == rule.count("|") == rows[0].count("|")
    assert r"50 % & more_\|" in rows[1]
    assert "- gaps to the full program" in text


def test_latex_escapes_what_it_must(tmp_path):
    path = tmp_path / "table.tex"
    text = unclosed().to_latex(path)
    assert path.read_text(encoding="utf-8") == text
    assert r"50 \% \& more\_| & " in text
    ends = [line.count("&") - line.count(r"\&") for line in text.splitlines()]
    assert set(ends) == {0, 7}
    assert "proven optimal in 1 of 4 cases" in text


def test_costs_below_what_is_proven_or_given_are_told():
    low = make_evaluation({"a": [0.9, 2.0]}, [1.0, 2.0], bounds=[0.95, 2.0])
    assert "1 costs are lower than the reference" in str(low)
    assert "lower than the proven bound; the largest difference, 0.0526" in str(low)
    sound = make_evaluation({"a": [1.0 - 1e-9, 2.0]}, [1.0, 2.0], bounds=[1.0, 2.0])
    assert "lower than" not in str(sound)


def test_a_best_value_that_is_a_policys_is_told():
    made = make_evaluation({"a": [0.9, 2.0]}, [0.9, 2.0], bounds=[0.8, 2.0])
    ended = {
        "source": ["policy a", "full program"],
        "status": ["time limit", "optimal"],
    }
    found = csg.Evaluation(made.records, made.reference.assign(**ended))
    assert "in 1 cases the best known decision is a policy's" in str(found)
    assert "the full program ended with status 'time limit' in 1" in str(found)


def test_the_curve_is_the_fraction_of_cases_with_at_most_a_gap(tmp_path):
    costs = {"a": [1.1, 1.01, 1.0, np.nan], "b": [2.0, 2.0, 1.001, 1.5]}
    ax = make_evaluation(costs, np.ones(4)).plot_cdf(tmp_path / "cdf.png")
    assert (tmp_path / "cdf.png").stat().st_size > 1000
    curves = {line.get_label(): line.get_xydata() for line in ax.lines}
    assert curves["a"][:, 0] == pytest.approx([-6, -6, -2, -1])
    assert curves["a"][:, 1] == pytest.approx([0, 0.25, 0.5, 0.75])
    assert curves["b"][-1] == pytest.approx([0, 1])
    assert "1 gaps of at most 1e-06 shown at 1e-06" in ax.get_xlabel()


def test_without_a_reference_the_curve_is_of_costs():
    costs = {"a": [-30.0, 10.0, np.nan, 20.0]}
    made = make_evaluation(costs, np.ones(4))
    nothing = made.reference.assign(value=np.nan, bound=np.nan, source="")
    ax = csg.Evaluation(made.records, nothing).plot_cdf()
    (line,) = ax.lines
    assert line.get_xdata() == pytest.approx([-30, -30, 10, 20])
    assert line.get_ydata() == pytest.approx([0, 0.25, 0.5, 0.75])
    assert ax.get_xlabel() == "cost"


def test_a_curve_goes_where_it_is_told_to():
    mine = Figure().add_subplot()
    evaluation = make_evaluation({"a": [1.1, np.nan], "none": [np.nan] * 2}, np.ones(2))
    assert evaluation.plot_cdf(ax=mine, floor=1e-3) is mine
    assert len(mine.lines) == 2
    assert "shown at" not in mine.get_xlabel()

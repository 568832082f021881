"""The content of the report page, and errors when it cannot be written."""

import json
import re

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg.evaluation.comparison import compare
from pyomo_csg.policy.policy import Policy
from pyomo_csg.report.page import page_content
from tests.quick import fit, panels, portfolio
from tests.report.conftest import days
from tests.test_policy import infeasible_beyond, papers


def content(path):
    """Return what a page's script draws from."""
    page = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_is_one_file_without_links(tmp_path, auto):
    assert auto.report(tmp_path / "report.html") == auto.report()

    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    addresses = set(re.findall(r"\w+://[^\"'\s]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, never fetched
    assert not re.search(r"\b(src|href)=", page)


def test_decisions_and_scenarios_are_the_policys(tmp_path, auto, held_out):
    auto.report(tmp_path / "report.html", held_out)

    known = held_out[["rain", "price"]].to_numpy()
    for shown in content(tmp_path / "report.html")["contexts"]:
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", shown["name"])]
        x = known[np.abs(known - numbers).sum(axis=1).argmin()]
        assert shown["scenarios"] == auto.scenarios(x).tolist()
        assert shown["decision"] == pytest.approx(auto.decide(x).vector.tolist())


def test_costs_are_those_of_the_comparison(tmp_path, auto, held_out):
    auto.report(tmp_path / "report.html", held_out)

    found = content(tmp_path / "report.html")["costs"]
    expected = compare({"this policy": auto}, held_out)
    assert [row["name"] for row in found["table"]] == list(expected.costs)
    assert [row["mean"] for row in found["table"]] == pytest.approx(
        expected.table()["mean"].tolist()
    )
    for name, curve in found["curves"].items():
        assert curve == pytest.approx(sorted(expected.costs[name]))


def test_a_loaded_policy_has_the_same_page_but_for_times(tmp_path, static):
    data = cep1.sample(20, 2)
    static.save(tmp_path / "static.csg")
    again = csg.load(tmp_path / "static.csg", cep1.build())

    first, second = (page_content(policy, data) for policy in (static, again))

    assert first.keys() == second.keys()
    for key in first.keys() - {"milliseconds", "solver", "contexts"}:
        assert first[key] == second[key], key
    for one, other in zip(first["contexts"], second["contexts"], strict=True):
        assert one["decision"] == pytest.approx(other["decision"])


def test_panels_and_policies_without_a_summary_have_a_page(tmp_path):
    of_panels = fit(panels(), portfolio(), method="mmd")
    bare = Policy(newsvendor.build(), papers())
    bare.learned.summary.pop("candidates")

    of_panels.report(tmp_path / "panels.html", panels(12, seed=2))
    bare.report(tmp_path / "bare.html")

    assert content(tmp_path / "panels.html")["contexts"][0]["name"].startswith("last")
    assert len(content(tmp_path / "panels.html")["costs"]["curves"]) == 3
    assert content(tmp_path / "bare.html")["call"] == ""


def test_a_context_without_a_decision_has_null_values():
    pairs = np.array([[5.0], [99.0], [6.0]]), np.array([[5.0], [8.0], [12.0]])

    found = page_content(infeasible_beyond(), pairs)

    assert [one["value"] for one in found["contexts"]] == [5.0, 6.0, None]
    assert [one["decision"] for one in found["contexts"]] == [[5.0], [6.0], [None]]
    # For 8 there is no decision, and 12 is more than the decision of 6 can make up for.
    assert found["costs"]["table"][0]["unsolved"] == 2


def test_the_fit_call_reproduces_the_policy(auto, static):
    called = page_content(static)["call"].removeprefix("policy = ")
    again = eval(
        called, {"csg": csg, "model": cep1.build(), "data": cep1.sample(40, 1)}
    )

    contexts, _ = cep1.sample(5, 3)
    assert np.array_equal(again.scenarios(contexts), static.scenarios(contexts))


def test_the_fit_call_names_the_chosen_context():
    data = days(40, 1).assign(weekday="Monday")  # which is no number
    policy = fit(data, method="mmd", context=["rain"])

    called = page_content(policy)["call"].removeprefix("policy = ")
    again = eval(called, {"csg": csg, "model": newsvendor.build(), "data": data})

    assert again.context_names == policy.context_names == ("rain",)
    assert np.array_equal(again.scenarios([1.0]), policy.scenarios([1.0]))


def test_a_page_is_refused_where_it_cannot_be_written(tmp_path, auto):
    with pytest.raises(csg.DataError, match="there is no folder"):
        auto.report(tmp_path / "nowhere" / "report.html")


def test_pairs_of_another_shape_are_refused(tmp_path, static):
    with pytest.raises(csg.DataError, match="expected"):
        static.report(tmp_path / "report.html", (np.zeros((5, 3)), np.ones((5, 3))))
    assert not list(tmp_path.iterdir())

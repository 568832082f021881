"""``method=`` as an object: the same fits as by name, and settings of its own."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.methods import specifications
from tests.quick import fit

methods = csg.methods


def same(one, other, pairs):
    return np.array_equal(one.scenarios(pairs[0]), other.scenarios(pairs[0]))


@pytest.mark.parametrize(
    "found", [methods.MMD(), methods.Static(), methods.Dynamic(), methods.Direct()]
)
def test_an_object_is_the_method_of_its_name(pairs, fitted, found):
    policy = fit(pairs, method=found)

    assert policy.method == found.name
    assert same(policy, fitted(found.name), pairs)
    identities = [p.learned.summary["identity"] for p in (policy, fitted(found.name))]
    assert identities[0] == identities[1]


@pytest.mark.parametrize("kind", [methods.Static, methods.Direct])
def test_regularization_is_that_of_the_object(pairs, kind):
    by_name = fit(pairs, method=kind.name, regularization=0.5)
    by_object = fit(pairs, method=kind(regularization=0.5))
    other = fit(pairs, method=kind(regularization=50.0))

    assert same(by_object, by_name, pairs)
    assert not same(other, by_name, pairs)


def test_the_kernel_is_that_of_the_object(pairs):
    by_config = fit(pairs, method="mmd", config={"kernel": "gaussian", "mmd_epochs": 4})
    by_object = fit(
        pairs, method=methods.MMD(kernel="gaussian"), config={"mmd_epochs": 4}
    )

    assert same(by_object, by_config, pairs)
    assert by_object.learned.summary["settings"]["kernel"] == "gaussian"


@pytest.mark.parametrize("kind", [methods.Static, methods.Dynamic])
def test_labels_are_of_the_loss_kind(pairs, kind, monkeypatch):
    asked = []
    loss = csg.Oracle.loss

    def record(oracle, scenarios, outcomes, kind="optimistic", **options):
        asked.append(kind)
        return loss(oracle, scenarios, outcomes, kind, **options)

    monkeypatch.setattr(csg.Oracle, "loss", record)
    policy = fit(pairs, method=kind(loss_kind="pessimistic"))

    assert set(asked) == {"pessimistic"}
    assert policy.learned.summary["identity"]["loss_kind"] == "pessimistic"


def test_auto_tries_the_candidates_that_are_named(pairs):
    named = ["sample average", "mmd", "constant"]
    policy = fit(pairs, method=methods.Auto(candidates=named))

    tried = [row["name"] for row in policy.learned.summary["candidates"]]
    assert sorted(tried) == sorted(named)


def test_every_candidate_of_auto_can_be_named(pairs, fitted):
    tried = [row["name"] for row in fitted("auto").learned.summary["candidates"]]

    assert methods.Auto(tried).candidates == tuple(tried)


def test_candidates_that_the_model_rules_out_are_an_error(pairs):
    with pytest.raises(csg.DataError, match="rule out all of the candidates"):
        fit(pairs, method=methods.Auto(candidates=["location-scale"]))


BAD = {
    "an unknown kernel": (lambda: methods.MMD("cosine"), "kernel is 'cosine'"),
    "a negative lambda": (lambda: methods.Static(-1), "regularization is -1"),
    "a relative lambda for direct": (
        lambda: methods.Direct("0.1x"),
        "takes a number from 0 up",
    ),
    "an unknown loss": (lambda: methods.Dynamic(loss_kind="mean"), "loss_kind is"),
    "an unknown candidate": (lambda: methods.Auto(["magic"]), "candidates has 'magic'"),
    "a text of candidates": (lambda: methods.Auto("mmd"), "give a list of"),
    "no candidates": (lambda: methods.Auto([]), "give a list of"),
    "one sample": (lambda: methods.Perturbed(samples=1), "samples is 1"),
    "no noise": (lambda: methods.Perturbed(noise=0), "noise is 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused_when_the_object_is_made(name):
    make, words = BAD[name]

    with pytest.raises(
        csg.DataError, match="Invalid settings of csg.methods"
    ) as caught:
        make()

    assert words in str(caught.value)


REFUSED = {
    "two lambdas": (
        {"method": methods.Static(0.1), "regularization": 0.2},
        "give it to the object",
    ),
    "two kernels": (
        {"method": methods.MMD("gaussian"), "config": {"kernel": "laplacian"}},
        "give one of the two",
    ),
    "a class": ({"method": methods.Static}, "give an object of it, such as Static()"),
    "a number": ({"method": 3}, "an object with a name and a method train(task)"),
    "candidates for all outcomes": (
        {"method": methods.Auto(["mmd"]), "scenarios": "all"},
        "'all', which trains nothing",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_contradict_the_object_are_refused(pairs, name):
    options, words = REFUSED[name]

    with pytest.raises(csg.DataError) as caught:
        fit(pairs, **{"config": None, **options})

    assert words in str(caught.value)


def test_a_plan_and_all_outcomes_go_with_the_object_of_auto(pairs):
    assert fit(pairs, method=methods.Auto(), scenarios="all").method == "auto"


def test_what_a_name_can_say_identifies_a_fit_as_before():
    found = specifications.describe_method(methods.Static("0.5"))

    assert found == {"method": "static", "regularization": 0.5}


def test_the_estimator_takes_an_object(pairs):
    generator = csg.ScenarioGenerator(
        newsvendor.build(), 2, methods.MMD(), config={"mmd_epochs": 2}
    )

    assert generator.fit(*pairs).transform(pairs[0]).shape == (40, 2, 1)

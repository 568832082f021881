"""csg.MeanCVaR: its measure, how it is annotated, and that the model stays as it is."""

import io
import pickle

import numpy as np
import pyomo.environ as pyo
import pytest
from scipy.optimize import linprog

import pyomo_csg as csg
from models import newsvendor


def text_of(model):
    text = io.StringIO()
    model.pprint(text)
    return text.getvalue()


def annotated(risk):
    model = newsvendor.build()
    csg.annotate(
        model,
        first_stage_variables=model.order,
        uncertain_params=model.demand,
        risk=risk,
    )
    return model


@pytest.mark.parametrize("seed", range(6))
def test_cvar_is_the_largest_mean_of_a_distribution_of_bounded_density(seed):
    rng = np.random.default_rng(seed)
    costs, weights = rng.normal(size=9), rng.dirichlet(np.ones(9))
    level = rng.uniform(0.1, 0.95)
    dual = linprog(
        -costs,
        A_eq=np.ones((1, 9)),
        b_eq=[1],
        bounds=[(0, weight / (1 - level)) for weight in weights],
    )
    risk = csg.MeanCVaR(0.25, level)
    assert risk.cvar(costs, weights) == pytest.approx(-dual.fun)
    mean = weights @ costs
    assert risk.measure(costs, weights) == pytest.approx(0.75 * mean - 0.25 * dual.fun)


@pytest.mark.parametrize(
    "given, found",
    [
        ((-0.1, 0.9), "weight is -0.1"),
        (("much", 0.9), "weight is 'much'"),
        ((0.5, 1.0), "level is 1.0"),
        ((0.5, 95), "level is 95"),
        ((float("nan"), 0.9), "weight is nan"),
    ],
)
def test_numbers_outside_their_range_are_refused(given, found):
    with pytest.raises(csg.DataError, match=found):
        csg.MeanCVaR(*given)


def test_costs_must_be_a_vector():
    with pytest.raises(csg.DataError, match="shape"):
        csg.MeanCVaR().cvar([])
    assert np.isnan(csg.MeanCVaR().cvar([1.0, np.nan]))


def test_another_object_than_a_risk_measure_is_refused():
    with pytest.raises(csg.AnnotationError, match="risk is a float; give csg.MeanCVaR"):
        annotated(0.5)


def test_the_model_stays_as_it_was_written():
    model = annotated(csg.MeanCVaR(0.5, 0.9))
    before = text_of(model)
    two_stage = csg.TwoStageModel(model)
    csg.Oracle(model).solve([[10], [14]])
    assert text_of(model) == before
    names = [v.name for v in two_stage.first_stage_variables]
    assert names == ["order", "risk.value_at_risk"]
    assert [v.name for v in two_stage.plain.first_stage_variables] == ["order"]


def test_a_transformation_that_fails_leaves_the_model_as_it_was():
    model = annotated(csg.MeanCVaR(0.5, 0.9))
    before = text_of(model)
    form = pyo.TransformationFactory("csg.extensive_form")
    with pytest.raises(csg.DataError):
        form.apply_to(model, scenarios=[[-1.0]])
    assert text_of(model) == before
    form.apply_to(model, scenarios=[[10.0], [14.0]])
    assert pyo.SolverFactory("highs").solve(model).solver.status == "ok"


@pytest.mark.parametrize(
    "copy", [lambda m: m.clone(), lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_keep_the_measure(copy):
    risk = csg.MeanCVaR(0.5, 0.9)
    two_stage = csg.TwoStageModel(copy(annotated(risk)))
    assert two_stage.risk == risk
    again = csg.TwoStageModel(copy(two_stage.model))
    assert again.risk == risk
    assert len(again.first_stage_variables) == 2


@pytest.mark.parametrize("risk", [None, csg.MeanCVaR(0, 0.9)])
def test_without_a_weight_it_is_the_expectation(risk):
    model = annotated(csg.MeanCVaR(0.5, 0.9))
    csg.annotate(
        model,
        first_stage_variables=model.order,
        uncertain_params=model.demand,
        risk=risk,
    )
    assert csg.TwoStageModel(model).risk is None


def test_a_model_with_a_component_called_risk_keeps_it():
    model = annotated(None)
    model.risk = pyo.Param(initialize=3.0, mutable=True)
    csg.annotate(
        model,
        first_stage_variables=model.order,
        uncertain_params=model.demand,
        risk=csg.MeanCVaR(0.5, 0.9),
    )
    names = [v.name for v in csg.TwoStageModel(model).first_stage_variables]
    assert names[0] == "order" and names[1] != "risk.value_at_risk"


def test_the_summary_names_the_measure():
    shown = str(csg.TwoStageModel(annotated(csg.MeanCVaR(0.5, 0.9))))
    assert "0.5 mean + 0.5 CVaR at 0.9" in shown

"""Expected values and residual SAA: least squares by hand, closed forms, known laws."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.neighbors import KNeighborsRegressor

import pyomo_csg as csg
from pyomo_csg.baselines import ExpectedValue, ForestWeighted, Residuals
from pyomo_csg.learn.distributions.reduction import kmeans
from pyomo_csg.learn.distributions.samplers import context_features
from pyomo_csg.learn.networks.location_scale import fit_location_scale
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from tests.baselines import papers
from tests.quick import panels, portfolio

X = np.random.default_rng(3).normal(size=(5, 2))


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr("pyomo_csg.learn.distributions.samplers._TREES", 20)


def line(contexts, targets):
    """Return the least-squares function of contexts."""
    design = np.hstack([np.ones((len(contexts), 1)), contexts])
    coefficients, *_ = np.linalg.lstsq(design, targets, rcond=None)
    return lambda x: np.hstack([np.ones((len(x), 1)), x]) @ coefficients


class TestExpectedValue:
    def test_a_linear_forecast_is_least_squares(self):
        model, (contexts, demands) = papers.of_two()
        policy = ExpectedValue(model, (contexts, demands))
        expected = line(contexts, demands)(X)
        assert policy.scenarios(X)[:, 0] == pytest.approx(expected)
        assert policy.decide(X).to_numpy() == pytest.approx(expected)
        assert policy.weights(X).tolist() == [[1.0]] * 5

    def test_a_forests_forecast_is_the_mean_of_what_it_weights(self):
        model, pairs = papers.of_two()
        forest = ForestWeighted(model, pairs, seed=2)
        policy = ExpectedValue(model, pairs, forecast="forest", seed=2)
        expected = [forest.weights(x) @ forest.scenarios(x) for x in X]
        assert policy.scenarios(X)[:, 0] == pytest.approx(np.array(expected))

    def test_a_mean_that_is_known_is_taken_as_it_is(self):
        policy = ExpectedValue(
            papers.build(0.5), papers.pairs(), forecast=lambda x: 10 + x[:, 1:]
        )
        assert policy.scenarios(X)[:, 0] == pytest.approx(10 + X[:, 1:])

    def test_the_expectation_by_a_location_and_scale_has_the_mean_of_the_noise(self):
        rng = np.random.default_rng(0)
        contexts = rng.normal(size=(50, 2))
        noise = rng.exponential(size=(50, 4))
        law = csg.LocationScale(
            lambda x: 0.1 * x[:, [0, 1, 0, 1]],
            lambda x: np.exp(0.2 * x[:, [1, 0, 1, 0]]),
        )
        outcomes = 0.1 * contexts[:, [0, 1, 0, 1]]
        outcomes += np.exp(0.2 * contexts[:, [1, 0, 1, 0]]) * noise

        policy = ExpectedValue(portfolio(), (contexts, outcomes), forecast=law)

        expected = 0.1 * X[:, [0, 1, 0, 1]]
        expected += np.exp(0.2 * X[:, [1, 0, 1, 0]]) * noise.mean(axis=0)
        assert policy.scenarios(X)[:, 0] == pytest.approx(expected)

    def test_a_network_tells_what_a_line_cannot_and_is_right_on_average(self):
        rng = np.random.default_rng(0)
        contexts = rng.uniform(-2, 2, (400, 1))
        demands = 20 + 4 * np.abs(contexts) + rng.exponential(1.0, (400, 1))
        model = papers.build(0.5)

        network = ExpectedValue(model, (contexts, demands), forecast="network")
        again = ExpectedValue(model, (contexts, demands), forecast="network")
        linear = ExpectedValue(model, (contexts, demands))

        x = np.linspace(-1.8, 1.8, 30)[:, None]
        truth = 21 + 4 * np.abs(x)
        off = [np.abs(p.scenarios(x)[:, 0] - truth).mean() for p in (network, linear)]
        assert off[0] < 0.3 * off[1]
        seen = network.scenarios(contexts)[:, 0]
        assert seen.mean() == pytest.approx(demands.mean())
        assert network.scenarios(x).tolist() == again.scenarios(x).tolist()

    def test_a_regressor_is_cloned_fitted_and_seen_as_it_is(self):
        model, (contexts, demands) = papers.of_two()
        given = KNeighborsRegressor(3)
        policy = ExpectedValue(model, (contexts, demands), forecast=given)

        theirs = KNeighborsRegressor(3).fit(contexts, demands)
        moved = (demands - theirs.predict(contexts)).mean(axis=0)
        assert policy.scenarios(X)[:, 0] == pytest.approx(theirs.predict(X) + moved)
        assert not hasattr(given, "classes_") and not hasattr(given, "n_features_in_")
        assert policy.name == "expected value, KNeighborsRegressor"

    def test_panels_are_seen_by_their_mean_spread_and_last_step(self):
        contexts, returns = panels(60)
        policy = ExpectedValue(portfolio(), (contexts, returns))
        expected = line(context_features(contexts), returns)(
            context_features(contexts[:4])
        )
        assert policy.scenarios(contexts[:4])[:, 0] == pytest.approx(expected)

    def test_a_forecast_that_leaves_the_domain_is_moved_to_it(self):
        x = np.arange(10.0)[:, None]
        policy = ExpectedValue(papers.build(0.5), (x, 18 - 2 * x))
        assert policy.scenarios([[4.0], [20.0]]).ravel() == pytest.approx([10, 0])

    @pytest.mark.parametrize(
        ("forecast", "problem"),
        [
            (lambda x: x, "it gave an array (60, 2) for contexts (60, 2); expected"),
            (lambda x: x[:, :1] * np.nan, "numbers that are not finite"),
            (lambda x: x.cuda(), "it gave an error (AttributeError"),
            (
                csg.LocationScale(lambda x: x[:, :1], lambda x: -(x[:, :1] ** 2)),
                "expected finite numbers above 0",
            ),
        ],
    )
    def test_what_does_not_answer_as_asked_is_refused(self, forecast, problem):
        with pytest.raises(csg.DataError) as refused:
            ExpectedValue(papers.build(0.5), papers.pairs(), forecast=forecast)
        assert problem in str(refused.value)

    def test_a_regressor_of_one_column_is_told_how_to_have_more(self):
        with pytest.raises(csg.DataError, match="MultiOutputRegressor"):
            ExpectedValue(*papers.of_two(), forecast=GradientBoostingRegressor())


class TestResiduals:
    def test_it_solves_on_the_prediction_and_its_errors(self):
        model, (contexts, demands) = papers.of_two()
        predict = line(contexts, demands)
        errors = demands - predict(contexts)

        policy = Residuals(model, (contexts, demands), folds=None)

        for x, mine in zip(X, policy.scenarios(X), strict=True):
            expected = np.maximum(predict(x[None]) + errors, 0)
            assert mine == pytest.approx(expected)
            for i in (1, 2):
                best = papers.order(expected[:, i - 1], np.full(60, 1 / 60), 2 / 3)
                assert policy.decide(x)[f"order[{i}]"] == pytest.approx(best)

    def test_as_many_folds_as_pairs_make_the_jackknife(self):
        model, (contexts, demands) = papers.of_two(30)
        design = np.hstack([np.ones((30, 1)), contexts])
        hat = design @ np.linalg.pinv(design)
        errors = demands - hat @ demands

        policy = Residuals(model, (contexts, demands), folds=99)

        jackknife = errors / (1 - hat.diagonal()[:, None])
        assert policy.residuals == pytest.approx(jackknife)

    def test_errors_are_those_on_pairs_that_were_not_seen(self):
        contexts, _ = papers.pairs(80)
        noise = np.random.default_rng(0).normal(20, 1, (80, 1))
        seen, unseen = (
            Residuals(
                papers.build(0.5),
                (contexts, noise),
                forecast=KNeighborsRegressor(1),
                folds=folds,
            )
            for folds in (None, 5)
        )
        assert np.abs(seen.residuals).max() == 0
        # The difference of two of the noise.
        assert unseen.residuals.std() == pytest.approx(np.sqrt(2), rel=0.2)

    def test_panels_are_held_out_in_runs(self):
        contexts, returns = panels(60)
        features = context_features(contexts)
        policy = Residuals(portfolio(), (contexts, returns), folds=3)

        held = np.arange(20, 40)
        rest = np.setdiff1d(np.arange(60), held)
        predicted = line(features[rest], returns[rest])(features[held])
        assert policy.residuals[held] == pytest.approx(returns[held] - predicted)

    def test_errors_may_be_in_units_of_a_scale(self):
        contexts, demands = papers.pairs()
        mean = line(contexts, demands)
        errors = demands - mean(contexts)
        sizes = np.maximum(np.abs(errors), 0.01 * errors.std())
        size = line(contexts, np.log(sizes))
        near = 0.5 * X  # within the history, where a scale is not bounded

        policy = Residuals(
            papers.build(0.5), (contexts, demands), scale=True, folds=None
        )

        residuals = errors / np.exp(size(contexts))
        for x, mine in zip(near, policy.scenarios(near), strict=True):
            expected = mean(x[None]) + np.exp(size(x[None])) * residuals
            assert mine == pytest.approx(np.maximum(expected, 0))

    def test_a_scale_far_from_the_history_is_not_extrapolated(self):
        contexts, demands = papers.pairs()
        policy = Residuals(papers.build(0.5), (contexts, demands), scale=True)
        far = policy.scenarios([100.0, 0.0])
        most = max(np.ptp(policy.scenarios(x)) for x in contexts)
        assert np.ptp(far) == pytest.approx(most)

    @pytest.mark.parametrize("forecast", ["linear", "forest", "network"])
    def test_a_scale_finds_where_errors_are_large(self, forecast):
        rng = np.random.default_rng(1)
        contexts = rng.uniform(-1, 1, (400, 1))
        demands = 50 + np.exp(1.5 * contexts) * rng.normal(size=(400, 1))
        policy = Residuals(
            papers.build(0.5),
            (contexts, demands),
            forecast=forecast,
            scale=True,
            folds=2,
        )
        calm, wild = (np.std(policy.scenarios([x])) for x in (-0.8, 0.8))
        assert 3 < wild / calm < 25  # by the law exp(2.4) = 11

    def test_a_location_and_scale_that_are_given_are_taken(self):
        contexts, returns = panels(40)
        law = csg.LocationScale(
            lambda x: 0.01 * x[:, -1, [0, 1, 0, 1]],
            lambda x: np.exp(x[:, :, :1].mean(axis=1)) * np.ones(4),
        )
        location = 0.01 * contexts[:, -1, [0, 1, 0, 1]]
        scale = np.exp(contexts[:, :, :1].mean(axis=1))

        policy = Residuals(portfolio(), (contexts, returns), forecast=law)

        assert policy.residuals == pytest.approx((returns - location) / scale)
        expected = location[7] + scale[7] * policy.residuals
        assert policy.scenarios(contexts[7]) == pytest.approx(expected)

    def test_a_mean_that_is_known_may_have_a_scale_that_is_learned(self):
        contexts, demands = papers.pairs(200)
        policy = Residuals(
            papers.build(0.5),
            (contexts, demands),
            forecast=lambda x: 20 + 5 * x[:, :1],
            scale=True,
        )
        calm, wild = (np.std(policy.scenarios([x, 0.0])) for x in (-1.5, 1.5))
        assert wild > 2 * calm  # by the law exp(1.5) = 4.5

    def test_the_errors_may_be_reduced(self):
        model, pairs = papers.of_two()
        whole = Residuals(model, pairs, forecast="forest", seed=1)
        policy = Residuals(model, pairs, forecast="forest", seed=1, scenarios=4)
        for x in X:
            scenarios, weights = kmeans(whole.scenarios(x), None, 4, seed=1)
            assert policy.scenarios(x).tolist() == scenarios.tolist()
            assert policy.weights(x).tolist() == weights.tolist()

    def test_panels_are_forecast_by_the_lstm_of_csg_fit(self, monkeypatch):
        monkeypatch.setattr("pyomo_csg.learn.networks.location_scale._STEPS", 3)
        contexts, returns = panels(40)
        oracle, history = csg.Oracle(portfolio()), History(contexts, returns)
        task = Task(oracle, history, 1, csg.FitConfig(), 2, TrainingLog())
        rows = [np.arange(20, 40), np.arange(20), np.arange(40)]
        heads = fit_location_scale(task, rows, "forecast")
        frames = [
            head.context_terms(torch.as_tensor(contexts)).numpy() for head in heads
        ]

        threads = torch.get_num_threads()
        try:
            torch.set_num_threads(2)  # the same numbers on any number of threads
            policy = Residuals(
                portfolio(),
                (contexts, returns),
                forecast="network",
                scale=True,
                folds=2,
                seed=2,
            )
        finally:
            torch.set_num_threads(threads)

        first, second, whole = frames
        frame = np.concatenate([first[:20], second[20:]])
        residuals = (returns - frame[:, 0]) / frame[:, 1]
        assert policy.residuals == pytest.approx(residuals, rel=1e-12)
        expected = whole[5, 0] + whole[5, 1] * residuals
        assert policy.scenarios(contexts[5]) == pytest.approx(expected)

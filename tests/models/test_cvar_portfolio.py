"""The portfolio: a plausible market, its distribution, the model, and a user's own prices."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linprog
from scipy.stats import kurtosis

import pyomo_csg as csg
from models import cvar_portfolio, market, returns_model
from models.prices import from_prices, windows
from tests.solving import solve, transform


def correlation(a, b):
    """Return the correlation of each column of a with the same of b."""
    return np.array([np.corrcoef(*pair)[0, 1] for pair in zip(a.T, b.T, strict=True)])


@pytest.fixture(scope="module", params=[0, 1])
def returns(request):
    return market.simulate(request.param)


class TestTheMarket:
    def test_has_twenty_one_sessions_of_five_minute_returns(self, returns):
        assert returns.shape == (21 * 78, 10)
        assert 5e-4 < returns.std(axis=0).min() < returns.std(axis=0).max() < 2e-3

    def test_has_fatter_tails_than_the_normal(self, returns):
        assert kurtosis(returns).min() > 1

    def test_moves_most_when_a_session_opens_and_closes(self, returns):
        by_period = np.abs(returns).reshape(21, 78, 10).mean(axis=(0, 2))
        noon = by_period[30:48].mean()
        assert by_period[:9].mean() > 1.5 * noon
        assert by_period[-9:].mean() > 1.5 * noon

    def test_has_volatility_in_clusters_beyond_the_time_of_day(self, returns):
        sizes = np.abs(returns) / np.tile(market.intraday(), 21)[:, None]
        assert correlation(sizes[1:], sizes[:-1]).mean() > 0.05
        assert correlation(sizes[5:], sizes[:-5]).mean() > 0.02

    def test_has_a_factor_that_explains_how_assets_move_together(self, returns):
        scaled = returns / returns.std(axis=0)
        sizes, directions = np.linalg.eigh(np.corrcoef(scaled.T))
        assert sizes[-1] > 2 * sizes[-2]

        factor = scaled @ directions[:, -1]
        rest = scaled - np.outer(factor, factor @ scaled / (factor @ factor))
        apart = ~np.eye(10, dtype=bool)
        assert np.corrcoef(scaled.T)[apart].mean() > 0.15
        assert np.corrcoef(rest.T)[apart].mean() < 0.05

    def test_is_the_same_for_the_same_seed_only(self):
        assert np.array_equal(market.simulate(3), market.simulate(3))
        assert not np.array_equal(market.simulate(3), market.simulate(4))


class TestTheHistory:
    def test_pairs_a_session_of_returns_with_the_next_return(self):
        contexts, outcomes = cvar_portfolio.history()
        simulated = market.simulate()
        assert contexts.shape == (1559, 78, 18)
        assert outcomes.shape == (1559, 10)
        assert np.array_equal(contexts[5, :, :10], simulated[6:84])
        assert np.array_equal(outcomes[5], simulated[84])
        assert np.array_equal(outcomes[-1], simulated[-1])

    def test_encodes_the_period_within_the_session(self):
        contexts, _ = cvar_portfolio.history()
        encoded = contexts[0, :, 10:]
        assert np.allclose(encoded[0, :3], [np.sin(1), np.cos(1), np.sin(0.1)])
        assert np.allclose(encoded[-1], [0, 1] * 4)
        assert np.array_equal(encoded, contexts[78, :, 10:])
        assert len(np.unique(encoded.round(9), axis=0)) == 78


class TestTheLaw:
    def test_can_generate_the_history(self):
        contexts, outcomes = cvar_portfolio.history()
        fitted = cvar_portfolio.fit_returns_model(0)
        generated = fitted.mean(contexts) + fitted.scale(contexts) * fitted.residuals
        assert np.allclose(generated, outcomes, rtol=1e-6, atol=1e-12)

    def test_is_the_mean_plus_scaled_residuals_equally_likely(self):
        contexts, outcomes = cvar_portfolio.history()
        possible, weights = cvar_portfolio.conditional(contexts[700])
        assert possible.shape == (1559, 10)
        assert weights == pytest.approx(np.full(1559, 1 / 1559))
        assert np.allclose(possible[700], outcomes[700], rtol=1e-6, atol=1e-12)

    def test_is_the_same_for_a_context_alone_and_among_others(self):
        contexts, _ = cvar_portfolio.history()
        fitted = cvar_portfolio.fit_returns_model(0)
        several, _ = fitted.conditional(contexts[:3])
        alone, _ = fitted.conditional(contexts[2])
        assert several.shape == (3, 1559, 10)
        assert np.allclose(several[2], alone, rtol=1e-9, atol=1e-15)
        assert fitted.scale(contexts[2]).shape == (10,)

    def test_has_a_scale_above_zero_that_follows_the_time_of_day(self):
        contexts, _ = cvar_portfolio.history()
        scale = cvar_portfolio.fit_returns_model(0).scale(contexts)
        next_period = np.arange(79, 1638) % 78
        opening, noon = next_period < 9, np.abs(next_period - 39) < 9
        assert scale.min() > 0
        assert np.all(scale[opening].mean(axis=0) > 1.2 * scale[noon].mean(axis=0))

    def test_gives_the_same_residuals_for_the_same_seed(self, monkeypatch):
        monkeypatch.setattr(returns_model, "EPOCHS", 2)
        contexts, outcomes = cvar_portfolio.history()
        pairs = contexts[:200], outcomes[:200]
        first, again = (returns_model.fit(*pairs, seed=1) for _ in range(2))
        other = returns_model.fit(*pairs, seed=2)
        assert np.array_equal(first.residuals, again.residuals)
        assert not np.array_equal(first.residuals, other.residuals)

    def test_leaves_the_random_numbers_and_threads_of_torch_alone(self, monkeypatch):
        monkeypatch.setattr(returns_model, "EPOCHS", 1)
        contexts, outcomes = cvar_portfolio.history()
        torch.set_num_threads(2)
        state = torch.get_rng_state()
        returns_model.fit(contexts[:50], outcomes[:50])
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        assert torch.equal(torch.get_rng_state(), state)
        assert threads == 2


class TestASample:
    def test_is_the_same_for_the_same_seed_only(self):
        contexts, outcomes = cvar_portfolio.sample(20, seed=1)
        again = cvar_portfolio.sample(20, seed=1)
        other = cvar_portfolio.sample(20, seed=2)
        assert contexts.shape == (20, 78, 18)
        assert outcomes.shape == (20, 10)
        assert np.array_equal(contexts, again[0])
        assert np.array_equal(outcomes, again[1])
        assert not np.array_equal(contexts, other[0])

    @pytest.mark.parametrize("seed", [1, 2])
    def test_comes_from_the_conditional_that_all_seeds_share(self, seed):
        for x, outcome in zip(*cvar_portfolio.sample(5, seed), strict=True):
            possible, _ = cvar_portfolio.conditional(x)
            assert np.abs(possible - outcome).max(axis=1).min() < 1e-12

    def test_draws_its_contexts_from_the_history(self):
        history, _ = cvar_portfolio.history()
        known = {x.tobytes() for x in history}
        contexts, _ = cvar_portfolio.sample(2000, seed=1)
        assert {x.tobytes() for x in contexts} <= known


def least_cost(scenarios, support, risk_aversion=10, level=0.9):
    """Return the optimum over portfolios of the given assets, from its matrices.

    Columns: a holding for each asset, the value at risk, an excess for each scenario.
    """
    scenarios = scenarios[:, support]
    k, assets = scenarios.shape
    tail_price = np.full(k, risk_aversion / (1 - level) / k)
    result = linprog(
        np.r_[-scenarios.mean(axis=0), risk_aversion, tail_price],
        A_ub=-np.hstack([scenarios, np.ones((k, 1)), np.eye(k)]),
        b_ub=np.zeros(k),
        A_eq=[np.r_[np.ones(assets), np.zeros(1 + k)]],
        b_eq=[1],
        bounds=[(0, None)] * assets + [(None, None)] + [(0, None)] * k,
    )
    assert result.status == 0
    return result.fun


class TestTheModel:
    @pytest.mark.parametrize(("k", "seed"), [(5, 0), (5, 1), (40, 2)])
    def test_agrees_with_the_best_of_all_supports(self, k, seed):
        scenarios = np.random.default_rng(seed).standard_normal((k, 10))
        supports = combinations(range(10), 5)
        best = min(least_cost(scenarios, list(support)) for support in supports)
        model = transform("extensive_form", cvar_portfolio.build(), scenarios=scenarios)
        assert solve(model) == pytest.approx(best, rel=1e-6)

    def test_is_bound_by_how_many_assets_it_may_hold(self):
        scenarios = np.random.default_rng(2).standard_normal((40, 10))
        model = transform("extensive_form", cvar_portfolio.build(), scenarios=scenarios)
        assert solve(model) > least_cost(scenarios, list(range(10))) + 1e-3
        assert sum(v.value > 1e-9 for v in model.holding.values()) == 5

    def test_finds_the_value_at_risk_of_its_portfolio(self):
        scenarios = np.random.default_rng(3).standard_normal((45, 10))
        model = transform("extensive_form", cvar_portfolio.build(), scenarios=scenarios)
        solve(model)
        losses = np.sort(-scenarios @ [v.value for v in model.holding.values()])
        assert model.value_at_risk.value == pytest.approx(losses[40], abs=1e-6)

    def test_decides_everything_but_the_excess_now(self):
        two_stage = csg.TwoStageModel(cvar_portfolio.build())
        assert [v.name for v in two_stage.recourse_variables] == ["excess"]
        assert len(two_stage.first_stage_variables) == 21
        assert len(two_stage.uncertain_params) == 10


@pytest.fixture
def prices():
    """Return three assets' prices, and times, as a user's file would hold them."""
    index = pd.date_range("2023-12-01 09:30", periods=100, freq="5min")
    growth = np.cumprod(1 + market.simulate(assets=3)[:100], axis=0)
    table = pd.DataFrame(100 * growth, columns=["AAA", "BBB", "CCC"])
    table.insert(0, "timestamp", index)
    return table


@pytest.fixture
def load(tmp_path):
    """Return a function that writes a table as CSV and loads that."""

    def write_and_load(table, **options):
        path = tmp_path / "prices.csv"
        table.to_csv(path, index=False)
        return from_prices(path, **options)

    return write_and_load


@pytest.fixture
def problems(load):
    """Return a function that gives what is found wrong with a table."""

    def problems_of(table, **options):
        with pytest.raises(csg.DataError) as caught:
            load(table, **options)
        return list(caught.value.problems)

    return problems_of


class TestPricesOfAUser:
    def test_become_the_same_windows_as_the_simulated_market(self, load, prices):
        contexts, outcomes = load(prices)
        expected = windows(market.simulate(assets=3)[1:100])
        assert contexts.shape == (20, 78, 3 + 8)
        assert np.allclose(contexts, expected[0])
        assert np.allclose(outcomes, expected[1])

    def test_need_no_times(self, load, prices):
        with_times, _ = load(prices)
        without, _ = load(prices.drop(columns="timestamp"))
        assert np.array_equal(with_times, without)

    def test_may_name_their_times_as_they_like(self, load, prices):
        contexts, _ = load(prices.rename(columns={"timestamp": "t"}), timestamp="t")
        assert contexts.shape == (20, 78, 3 + 8)

    def test_may_have_windows_of_another_length(self, load, prices):
        contexts, outcomes = load(prices, window=20, session=40)
        assert contexts.shape == (78, 20, 3 + 8)
        assert outcomes.shape == (78, 3)

    def test_are_refused_with_every_problem_by_row_and_column(self, problems, prices):
        prices = prices.astype({"AAA": object})
        prices.loc[4, "AAA"] = "closed"
        prices.loc[9, "AAA"] = float("inf")
        prices.loc[0, "BBB"] = None
        prices.loc[98, "CCC"] = 0
        prices.loc[99, "CCC"] = -2.5
        assert problems(prices) == [
            "row 5, column 'AAA': 'closed' is not a number",
            "row 10, column 'AAA': 'inf' is not a number",
            "row 1, column 'BBB': the price is missing",
            "row 99, column 'CCC': 0.0 is not above zero",
            "row 100, column 'CCC': -2.5 is not above zero",
        ]

    def test_are_refused_when_there_are_too_few(self, problems, load, prices):
        (problem,) = problems(prices[:80])
        assert "80 rows" in problem
        assert "takes 81" in problem
        assert len(load(prices[:81])[0]) == 1

    def test_are_refused_when_they_run_back_in_time(self, problems, prices):
        prices.loc[7, "timestamp"] = prices.loc[6, "timestamp"]
        (problem,) = problems(prices)
        assert problem.startswith("row 8, column 'timestamp': 2023-12-01 10:00:00")

    def test_are_refused_when_a_column_of_times_is_not_named(self, problems, prices):
        (problem,) = problems(prices.rename(columns={"timestamp": "Date"}))
        assert problem.startswith("column 'Date' holds no number")
        assert "timestamp='Date'" in problem

    def test_are_refused_when_there_are_none(self, problems, prices):
        assert problems(prices[["timestamp"]]) == [
            "no prices were found: give a column for each ticker, under a header"
        ]

    def test_may_end_but_not_continue_after_a_blank_line(self, tmp_path, prices):
        path = tmp_path / "prices.csv"
        text = prices[["AAA"]].to_csv(index=False)
        path.write_text(text + "\n\n")
        assert len(from_prices(path)[0]) == 20
        path.write_text(text + "\n100.5\n")
        with pytest.raises(csg.DataError, match="row 101, .* the price is missing"):
            from_prices(path)

    @pytest.mark.parametrize("text", ["", "A\n1\n1,2\n", "A\n1,2\n3,4\n"])
    def test_are_refused_when_the_file_is_not_a_table(self, tmp_path, text):
        path = tmp_path / "prices.csv"
        path.write_text(text)
        with pytest.raises(csg.DataError, match="as a table of prices"):
            from_prices(path)

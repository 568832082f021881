"""The paper's untrained networks: moments, and what the context explains."""

import numpy as np
import pytest

from models import cep1, newsvendor
from models.random_network import RandomNetwork


def demands(generator, signal, count=3000):
    """Return the possible demands (count, 200) in as many contexts."""
    contexts = np.random.default_rng(5).standard_normal((count, 2))
    found = [newsvendor.conditional(x, generator, signal)[0] for x in contexts]
    return np.array(found)[..., 0]


@pytest.mark.parametrize("generator", [0, 100])
@pytest.mark.parametrize("signal", [0.0, 0.3, 0.8])
def test_the_context_explains_the_stated_share_of_the_variance(generator, signal):
    found = demands(generator, signal)
    explained = found.mean(axis=1).var() / found.var()
    assert explained == pytest.approx(signal, abs=0.04)
    assert found.mean() == pytest.approx(15.1, abs=0.02)
    assert found.std() == pytest.approx(0.25, rel=0.05)


def test_the_papers_demand_hardly_depends_on_the_context():
    for generator in range(4):
        found = demands(generator, None, 1000)
        assert found.mean(axis=1).var() / found.var() < 0.01


def test_pairs_of_the_variant_are_drawn_from_its_conditional_distribution():
    contexts, outcomes = newsvendor.sample(30, seed=4, generator=2, signal=0.3)
    for x, omega in zip(contexts, outcomes, strict=True):
        assert omega in newsvendor.conditional(x, 2, 0.3)[0]


def test_outputs_are_scaled_together_or_group_by_group():
    contexts = np.random.default_rng(5).standard_normal((20_000, 4))
    pooled = RandomNetwork(4, 18, 9000.0, 1000.0, 0)(contexts)  # far above zero
    grouped = RandomNetwork(4, 18, 9000.0, 1000.0, 0, groups=3)(contexts)
    parts = [grouped[:, part::3] for part in range(3)]
    for found in (pooled, *parts):
        assert found.mean() == pytest.approx(9000, abs=15)
        assert found.std() == pytest.approx(1000, rel=0.02)
    means = [pooled[:, part::3].mean() for part in range(3)]
    assert max(means) - min(means) > 300


def test_cep1_reads_the_papers_scaling_in_two_ways():
    contexts = np.random.default_rng(5).standard_normal((500, 4))
    apart = {
        scaling: np.ptp(
            np.mean(
                [cep1.conditional(x, 0, scaling)[0].mean(axis=0) for x in contexts], 0
            )
        )
        for scaling in ("pooled", "part")
    }
    assert apart["pooled"] > 500
    assert apart["part"] < 100


def test_an_unknown_scaling_is_refused():
    with pytest.raises(KeyError, match="parts"):
        cep1.conditional(np.zeros(4), 0, "parts")

"""Five-minute returns of a simulated market, with the stylized facts of real ones.

Returns have fat tails. Volatility clusters, and is high when a session opens and closes.
Assets move with the market. Prices partly reverse their last move, as those of thinly
traded assets do.
"""

import numpy as np

SESSIONS, PERIODS = 21, 78
VOLATILITY = 1e-3
DEGREES_OF_FREEDOM = 5
REACTION, PERSISTENCE = 0.10, 0.85
REVERSAL = 0.10
_WARM_UP = 500


def simulate(seed=0, assets=10, sessions=SESSIONS, periods=PERIODS):
    """Return the returns of every period (sessions * periods, assets), in time order.

    Volatilities are around 0.001. The market explains a third of an asset's variance on
    average.
    """
    rng = np.random.default_rng(seed)
    volatility = VOLATILITY * rng.permutation(np.geomspace(0.8, 1.25, assets))
    beta = rng.uniform(0.4, 0.7, assets)

    moves = _clustered(rng, sessions * periods, 1 + assets)
    market, own = moves[:, :1], moves[:, 1:]
    returns = volatility * (beta * market + np.sqrt(1 - beta**2) * own)
    returns *= np.tile(intraday(periods), sessions)[:, None]
    returns[1:] -= REVERSAL * returns[:-1]
    return returns


def intraday(periods=PERIODS):
    """Return the volatility of each period of a session: a U, of mean square one."""
    shape = 1 + 1.5 * np.linspace(-1, 1, periods) ** 2
    return shape / np.sqrt(np.mean(shape**2))


def _clustered(rng, n, series):
    """Return (n, series) of GARCH(1, 1) with Student-t shocks, of variance one."""
    unit = np.sqrt(1 - 2 / DEGREES_OF_FREEDOM)
    shocks = unit * rng.standard_t(DEGREES_OF_FREEDOM, (_WARM_UP + n, series))
    moves, variance = np.empty_like(shocks), np.ones(series)
    for t, shock in enumerate(shocks):
        moves[t] = np.sqrt(variance) * shock
        news = REACTION * moves[t] ** 2 + PERSISTENCE * variance
        variance = 1 - REACTION - PERSISTENCE + news
    return moves[_WARM_UP:]

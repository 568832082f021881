"""A portfolio for the next five minutes, by an LSTM on the last hour's returns.

A context is a panel: twelve periods, one after another, of each asset's return and the time
of day. csg.fit takes an LSTM for panels by itself. The market is simulated, with volatility
that comes in clusters; the model holds at most two of four assets. Run:

    pip install pyomo-csg[plots]
    python examples/portfolio.py
"""

import pandas as pd
from pyomo_csg.zoo.prices import windows
from rolling import parser, picture, roll, table

import pyomo_csg as csg
from pyomo_csg.zoo import cvar_portfolio, market

ASSETS, HELD, WINDOW, SESSIONS = 4, 2, 12, 8
POINTS = 1e4  # basis points of the money invested
AHEAD = 60


def main():
    given = parser(__doc__.splitlines()[0]).parse_args()
    returns = market.simulate(seed=1, assets=ASSETS, sessions=SESSIONS)
    contexts, outcomes = windows(returns, WINDOW)
    first, every = len(contexts) - AHEAD, AHEAD // 2
    options = {"scenarios": 10, "config": csg.FitConfig(folds=2, starts=1)}
    if given.quick:
        contexts, outcomes, first = contexts[:84], outcomes[:84], 80
        options = {"scenarios": 3, "method": "mmd", "config": {"mmd_epochs": 2}}
    model = cvar_portfolio.build(assets=ASSETS, most_held=HELD)
    costs, _ = roll(model, contexts, outcomes, first, every, **options)

    print("\n" + table(POINTS * costs, "Loss and risk, basis points", 1))
    picture(
        POINTS * costs,
        pd.RangeIndex(len(costs), name="decision"),
        given.folder / "portfolio.png",
        "Four assets, two held: saved over the context-free decision",
        "basis points",
    )


if __name__ == "__main__":
    main()

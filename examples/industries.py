"""A portfolio of twelve American industries, month by month, that fears its worst months.

Monthly returns from 1949 to 2017, of Kenneth French's data library, come with linearmodels.
The portfolio trades its mean return against its CVaR. Run:

    pip install pyomo-csg[examples]
    python examples/industries.py
"""

import numpy as np
import pandas as pd
import pyomo.environ as pyo
from linearmodels.datasets import french
from rolling import parser, picture, roll, table

import pyomo_csg as csg

INDUSTRIES = [
    "NoDur",
    "Durbl",
    "Manuf",
    "Enrgy",
    "Chems",
    "BusEq",
    "Telcm",
    "Utils",
    "Shops",
    "Hlth",
    "Money",
    "Other",
]
FACTORS = ["MktRF", "SMB", "HML", "Mom", "RF"]
YEAR = 12
AVERSION, LEVEL = 0.5, 0.9


def build():
    """Return the model of one month: what part of the money is in which industry."""
    m = pyo.ConcreteModel("industries")
    m.industries = pyo.Set(initialize=INDUSTRIES)
    m.returns = pyo.Param(m.industries, within=pyo.Reals, initialize=0, mutable=True)
    m.share = pyo.Var(m.industries, bounds=(0, 1))
    m.value_at_risk = pyo.Var(bounds=(-1, 1))
    m.excess = pyo.Var(within=pyo.NonNegativeReals)
    gain = sum(m.returns[i] * m.share[i] for i in m.industries)
    m.invested = pyo.Constraint(expr=sum(m.share.values()) == 1)
    m.tail = pyo.Constraint(expr=m.excess >= -gain - m.value_at_risk)
    cvar = m.value_at_risk + m.excess / (1 - LEVEL)
    m.cost = pyo.Objective(expr=-gain + AVERSION * cvar)
    csg.annotate(
        m,
        first_stage_variables=[m.share, m.value_at_risk],
        uncertain_params=m.returns,
    )
    return m


def pairs():
    """Return what is known when a month begins, and the returns that it brings."""
    data = french.load().set_index("dates")
    past = data[INDUSTRIES + FACTORS]
    known = past.assign(
        volatility=data["MktRF"].rolling(YEAR).std(),
        trend=data["MktRF"].rolling(YEAR).mean(),
    )
    outcomes = data[INDUSTRIES].rename(columns="returns[{}]".format)
    return known.shift()[YEAR:], outcomes[YEAR:]


def invested(decisions, outcomes):
    """Say what became of the money of each way."""
    rows, came = {}, outcomes.to_numpy()
    for name, made in decisions.items():
        shares = made[[f"share[{i}]" for i in INDUSTRIES]].to_numpy()
        gains = (shares * came).sum(axis=1)
        worst = np.sort(gains)[: max(1, round((1 - LEVEL) * len(gains)))]
        rows[name] = {
            "return a year, %": 100 * (np.prod(1 + gains) ** (YEAR / len(gains)) - 1),
            "mean of the worst 10 % of months, %": 100 * worst.mean(),
            "a dollar became": np.prod(1 + gains),
        }
    return pd.DataFrame(rows).T.round(2)


def main():
    given = parser(__doc__.splitlines()[0]).parse_args()
    contexts, outcomes = pairs()
    first, every = 40 * YEAR, 10 * YEAR
    settings = csg.FitConfig(folds=3, starts=2, rows="series")
    options = {"scenarios": 20, "config": settings}
    if given.quick:
        contexts, outcomes, first = contexts[:66], outcomes[:66], 5 * YEAR
        options = {"scenarios": 5, "method": "mmd", "config": {"mmd_epochs": 2}}
    costs, decisions = roll(build(), contexts, outcomes, first, every, **options)

    print("\n" + table(100 * costs, "Loss and risk, cents a dollar", 2))
    print("\n" + invested(decisions, outcomes[first:]).to_string())
    picture(
        100 * costs,
        outcomes.index[first:].rename("month"),
        given.folder / "industries.png",
        "Twelve industries: saved over the context-free decision",
        "cents a dollar invested, loss and priced risk",
    )


if __name__ == "__main__":
    main()

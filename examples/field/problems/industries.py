"""A portfolio of twelve American industries that fears its worst months, 1949 to 2017.

A million dollars is placed for a month. The cost is the loss plus a price on its tail
(the conditional value at risk), and the excess over the value at risk is the recourse.

Monthly returns, of Kenneth French's data library, come with the package linearmodels.
"""

import pandas as pd
import pyomo.environ as pyo
from problem import Problem, data_file

import pyomo_csg as csg

INDUSTRIES = (
    "NoDur", "Durbl", "Manuf", "Enrgy", "Chems", "BusEq",
    "Telcm", "Utils", "Shops", "Hlth", "Money", "Other",
)  # fmt: skip
FACTORS = ("MktRF", "SMB", "HML", "Mom", "RF")
YEAR = 12
AVERSION, LEVEL, MILLION = 0.5, 0.9, 1000.0  # the last in thousands of dollars


def build() -> pyo.ConcreteModel:
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
    tail_mean = m.value_at_risk + m.excess / (1 - LEVEL)
    m.cost = pyo.Objective(expr=MILLION * (-gain + AVERSION * tail_mean))
    csg.annotate(
        m,
        first_stage_variables=[m.share, m.value_at_risk],
        uncertain_params=m.returns,
    )
    return m


def load() -> Problem:
    """Return the months from the second year on; the last 20 years are decided."""
    path = data_file("linearmodels", "datasets", "french", "french.csv.bz2")
    data = pd.read_csv(path, parse_dates=["dates"]).set_index("dates")
    market = data["MktRF"].rolling(YEAR)
    past = data[[*INDUSTRIES, *FACTORS]].assign(
        volatility=market.std(), trend=market.mean()
    )
    outcomes = data[list(INDUSTRIES)].rename(columns="returns[{}]".format)
    rows = len(data) - YEAR
    return Problem(
        name="industries",
        title="A portfolio of twelve American industries, 1949 to 2017",
        build=build,
        contexts=past.shift().iloc[YEAR:],
        outcomes=outcomes.iloc[YEAR:],
        first=rows - 20 * YEAR,
        every=10 * YEAR,
        block=YEAR,
        unit="thousands of dollars a month and million",
    )

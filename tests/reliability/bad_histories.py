"""Bad pairs of contexts and outcomes, for whatever learns or judges."""

from decimal import Decimal

import numpy as np
import pandas as pd

import pyomo_csg as csg
from tests.reliability.bad import Bad, grid
from tests.reliability.bad_contexts import INF, NAN, RAGGED
from tests.reliability.scene import PAIRS, frame

# What is wrong with the contexts, with the outcomes, or with both.
HISTORIES = {
    "None": (None, "data", "expected a pair"),
    "text": ("history.csv", "data", "expected a pair"),
    "contexts alone": (np.zeros((PAIRS, 2)), "data", "expected a pair"),
    "three parts": ((1, 2, 3), "tuple of 3", "expected a pair"),
    "one row": ((np.zeros((1, 2)), np.ones((1, 1))), "only 1 row", "at least 2"),
    "empty": ((np.zeros((0, 2)), np.ones((0, 1))), "it is empty", "at least 2"),
    "an empty table": (frame().iloc[:0], "it is empty", "at least 2"),
    "lengths differ": (
        (np.zeros((5, 2)), np.ones((4, 1))),
        "contexts have 5 rows",
        "give an outcome for each context",
    ),
    "outcomes too wide": ((np.zeros((5, 2)), np.ones((5, 2))), "(5, 2)", "'demand'"),
    "no context columns": (frame()[["demand"]], "contexts", "give at least one"),
    "contexts of no numbers": (
        (np.zeros((5, 0)), np.ones((5, 1))),
        "contexts",
        "give at least one",
    ),
    "four axes": ((np.zeros((5, 2, 2, 2)), np.ones(5)), "(5, 2, 2, 2)", "(n, W, d)"),
    "no column for the outcome": (
        frame().rename(columns={"demand": "sales"}),
        "'demand'",
        "add it or rename one",
    ),
    "two columns of a name": (
        pd.concat([frame(), frame()[["demand"]]], axis=1),
        "'demand'",
        "rename or drop one",
    ),
    "stray text in a column": (
        frame(day=[*range(PAIRS - 1), "?"]),
        "'day'",
        "correct it, or drop the row",
    ),
    "two columns of a meaning": (
        frame().rename(columns={"demand": " demand"}).assign(**{"demand ": 1.0}),
        "all mean 'demand'",
        "drop all but one",
    ),
    "objects in a column": (frame(day=[[1]] * PAIRS), "'day'", "give numbers"),
    "complex contexts": (frame(wave=1j), "'wave'", "give numbers"),
    "object outcomes": (frame(demand=[object()] * PAIRS), "'demand'", "a number"),
    "an empty column": (frame(rain=None), "'rain' is empty", "leave it out"),
    "NaN outcomes": (frame(demand=NAN), "'demand' is nan", "give a finite number"),
    "infinite outcomes": (frame(demand=INF), "'demand' is inf", "finite number"),
    "infinite contexts": (frame(rain=-INF), "'rain' is -inf", "finite number"),
    "negative outcomes": (frame(demand=-1.0), "'demand' is -1", "NonNegativeReals"),
    "huge outcomes": (frame(demand=1e30), "'demand' is 1e+30", "larger unit"),
    "huge contexts": (frame(rain=1e200), "'rain' is 1e+200", "below 1e+100"),
    "huge Decimals": (
        frame(demand=[Decimal("1e400")] * PAIRS),
        "'demand' is inf",
        "give a finite number",
    ),
    "an unsorted index": (
        (frame()[["rain"]], frame()[["demand"]].iloc[::-1]),
        "another order",
        "outcomes.loc[contexts.index]",
    ),
    "an unknown outcome": (
        (frame()[["rain"]], frame()[["demand", "price"]]),
        "'price'",
        "drop it",
    ),
    "ragged contexts": ((RAGGED, [[1.0], [2.0]]), "contexts", "expected (n, d)"),
}
OF_HISTORIES = {
    "csg.fit": lambda s, data: s.fit(data if data is not None else ()),
    "csg.baselines.SampleAverage": lambda s, data: csg.baselines.SampleAverage(
        s.model, data
    ),
}
FEW = {key: HISTORIES[key] for key in ("text", "NaN outcomes", "negative outcomes")}
OF_FEW_HISTORIES = {
    "Policy.certify": lambda s, data: s.named.certify(data),
    "Policy.report": lambda s, data: s.named.report(s.folder / "page.html", data),
    "csg.guarantees.values": lambda s, data: csg.guarantees.values(s.named, data),
    "csg.guarantees.ambiguity": lambda s, data: csg.guarantees.ambiguity(s.named, data),
    "csg.guarantees.optimality_gap": lambda s, data: csg.guarantees.optimality_gap(
        s.named, data
    ),
    "csg.baselines.ForestWeighted": lambda s, data: csg.baselines.ForestWeighted(
        s.model, data
    ),
}
CASES = [
    *grid(OF_HISTORIES, HISTORIES),
    *grid(OF_FEW_HISTORIES, FEW),
    Bad(
        "Policy.certify",
        "other contexts",
        lambda s: s.policy.certify((np.zeros((PAIRS, 3)), s.pairs[1])),
        "contexts: an array of shape (",
        "expected (2,) for one context",
    ),
    Bad(
        "Policy.plot_scenarios",
        "bad data",
        lambda s: s.policy.plot_scenarios([0.0, 0.0], data=s.pairs[0]),
        "data",
        "expected a pair",
    ),
    Bad(
        "ScenarioGenerator.fit",
        "lengths differ",
        lambda s: s.generator.fit(s.pairs[0], s.pairs[1][:-1]),
        "outcomes have 19",
        "give an outcome for each context",
    ),
    Bad(
        "ScenarioGenerator.score",
        "lengths differ",
        lambda s: s.generator.score(s.pairs[0], s.pairs[1][:-1]),
        "decisions",
        "expected (1,) or (19, 1)",
    ),
    Bad(
        "ScenarioGenerator.score",
        "text",
        lambda s: s.generator.score(s.pairs[0], "much"),
        "outcomes",
        "not all are numbers",
    ),
]

"""Bad contexts, for whatever decides."""

import numpy as np
import pandas as pd
import torch

from tests.reliability.bad import Bad, grid
from tests.reliability.scene import frame

NAN, INF = float("nan"), float("inf")
DATES = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[ns]")
RAGGED = [[1.0], [1.0, 2.0]]
ATTACHED = torch.ones(2, 2, requires_grad=True)

# One context is (2,), many are (n, 2).
CONTEXTS = {
    "None": (None, "contexts", "expected (2,)"),
    "a number": (3.0, "contexts", "expected (2,)"),
    "text": ("warm", "contexts", "expected (2,)"),
    "words": (["warm", "wet"], "text", "encode it as numbers"),
    "too few": ([1.0], "shape", "expected (2,)"),
    "too many": ([1.0, 2.0, 3.0], "shape", "expected (2,)"),
    "panels": (np.zeros((2, 3, 2)), "shape", "expected (2,)"),
    "NaN": ([NAN, 0.0], "column 0 is nan", "give a finite number"),
    "infinity": ([0.0, -INF], "column 1 is -inf", "give a finite number"),
    "huge": ([1e200, 0.0], "column 0 is 1e+200", "below 1e+100"),
    "NaN in a row": ([[0.0, 0.0], [NAN, 0.0]], "row 1", "give a finite number"),
    "none": (np.zeros((0, 2)), "contexts", "give at least one"),
    "complex": (np.array([1j, 0]), "complex numbers", "give numbers"),
    "dates": (DATES, "dates or times", "encode it as numbers"),
    "objects": (np.array([object(), 1.0], dtype=object), "column 0", "give numbers"),
    "ragged": (RAGGED, "contexts", "expected (2,)"),
    "beyond floats": ([10**400, 0], "column 0", "give numbers"),
    "masked": (np.ma.array([1.0, 2.0], mask=[True, False]), "nan", "finite number"),
    "to be differentiated": (ATTACHED, "contexts", "expected (2,)"),
}
OF_CONTEXTS = {
    "Policy.scenarios": lambda s, x: s.policy.scenarios(x),
    "Policy.weights": lambda s, x: s.policy.weights(x),
    "Policy.decide": lambda s, x: s.policy.decide(x),
    "Policy.plot_scenarios": lambda s, x: s.policy.plot_scenarios(x),
    "Baseline.decide": lambda s, x: s.baseline.decide(x),
    "ScenarioGenerator.predict": lambda s, x: s.generator.predict(x),
    "ScenarioGenerator.transform": lambda s, x: s.generator.transform(x),
}
NAMED_CONTEXTS = {
    "a name is missing": ({"rain": 1.0}, "'price'", "add it or rename one"),
    "a misspelled name": ({"rian": 1, "price": 2}, "'rain'", "add it or rename one"),
    "text by name": ({"rain": "much", "price": 2}, "'rain'", "encode it as numbers"),
    "a missing number": ({"rain": None, "price": 2}, "'rain'", "finite number"),
    "a Series": (pd.Series({"rain": 1.0}), "'price'", "add it or rename one"),
    "no rows": (frame().iloc[:0], "contexts", "give at least one"),
    "two columns of a name": (
        pd.concat([frame(), frame()[["rain"]]], axis=1),
        "'rain'",
        "rename or drop one",
    ),
}
CASES = [
    *grid(OF_CONTEXTS, CONTEXTS),
    *grid({"Policy.decide": lambda s, x: s.named.decide(x)}, NAMED_CONTEXTS),
    Bad(
        "Policy.plot_scenarios",
        "many contexts",
        lambda s: s.policy.plot_scenarios(s.pairs[0]),
        "x holds 20 contexts",
        "give one",
    ),
]

"""Bad arguments of csg.evaluate, csg.Case and csg.Evaluation."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

import pyomo_csg as csg
from tests.reliability.bad import Bad
from tests.reliability.bad_contexts import NAN
from tests.reliability.bad_options import ABOVE, WHOLE


def always(order):
    """Return a policy of one decision for all contexts."""
    return SimpleNamespace(decide=lambda context: {"order": order})


EVALUATE = [
    ("policies", lambda s: csg.evaluate([], s.cases), "policies", "a dict from name"),
    ("policies", lambda s: csg.evaluate({}, s.cases), "policies", "a dict from name"),
    (
        "a policy",
        lambda s: csg.evaluate({"a": 3}, s.cases, model=s.model),
        "policies['a']",
        "decide(context)",
    ),
    (
        "no model",
        lambda s: csg.evaluate({"a": always(1.0)}, s.cases),
        "model",
        "give it as model=",
    ),
    ("no cases", lambda s: csg.evaluate({"a": s.policy}, []), "cases", "csg.Case"),
    ("cases", lambda s: csg.evaluate({"a": s.policy}, 3), "cases", "csg.Case"),
    ("a case", lambda s: csg.evaluate({"a": s.policy}, [3]), "cases[0]", "csg.Case"),
    *(
        (
            given,
            lambda s, case=case: csg.evaluate({"a": s.policy}, [csg.Case(*case)]),
            thing,
            remedy,
        )
        for given, case, thing, remedy in [
            ("no outcomes", ([0, 0], None), "cases[0].outcomes", "numbers"),
            ("empty outcomes", ([0, 0], []), "cases[0].outcomes", "expected (K, 1)"),
            ("NaN outcomes", ([0, 0], [[NAN]]), "cases[0].outcomes", "finite number"),
            ("text outcomes", ([0, 0], "high"), "cases[0].outcomes", "numbers"),
            ("outcomes below 0", ([0, 0], [[-1.0]]), "cases[0]", "domain"),
            ("ragged", ([0, 0], [[1.0], [1, 2]]), "cases[0].outcomes", "numbers"),
            ("weights", ([0, 0], [[1.0]], [0.5]), "cases[0].weights", "divide them"),
            ("text weights", ([0, 0], [[1.0]], "a"), "cases[0].weights", "numbers"),
            ("many contexts", (np.zeros((2, 2)), [[1.0]]), "cases[0]", "give one"),
            ("a bad context", ([NAN, 0], [[1.0]]), "column 0 is nan", "finite"),
        ]
    ),
    *(
        (
            f"reference={reference!r}",
            lambda s, reference=reference: csg.evaluate(
                {"a": s.policy}, s.cases, reference=reference
            ),
            "reference",
            "give '2sp'",
        )
        for reference in ("3sp", 3.0, [1.0], [NAN, 1.0], [[1.0], [1.0, 2.0]], "x" * 200)
    ),
    *(
        (
            f"tolerance={tolerance!r}",
            lambda s, tolerance=tolerance: csg.evaluate(
                {"a": s.policy}, s.cases, tolerance=tolerance
            ),
            "tolerance is",
            "give a number from 0 up",
        )
        for tolerance in ("small", -1.0, NAN, None)
    ),
    (
        "options",
        lambda s: csg.evaluate({"a": s.policy}, s.cases, options={"mip_gap": 1.0}),
        "mip_gap",
        "HiGHS has no option",
    ),
    (
        "solver",
        lambda s: csg.evaluate({"a": s.policy}, s.cases, solver="higs"),
        "higs",
        "appsi",
    ),
    (
        "a trial",
        lambda s: csg.evaluate({"a": s.policy}, s.cases, trial=[1]),
        "trial is [1]",
        "a number or a text",
    ),
]
EVALUATION = [
    ("quantile", lambda e: e.quantile(2.0), "2.0", "a quantile from 0 to 1"),
    ("quantile", lambda e: e.quantile("max"), "'max'", "a quantile from 0 to 1"),
    ("quantile", lambda e: e.quantile([0.1]), "[0.1]", "a quantile from 0 to 1"),
    ("interval", lambda e: e.interval("mode"), "'mode'", "give 'median'"),
    ("interval", lambda e: e.interval(level=95), "level is 95", "between 0 and 1"),
    ("interval", lambda e: e.interval(level="x"), "level is 'x'", "between 0 and 1"),
    ("interval", lambda e: e.interval(draws=0), "draws is 0", WHOLE),
    ("interval", lambda e: e.interval(draws=1.5), "draws is 1.5", WHOLE),
    ("interval", lambda e: e.interval(seed=-1), "seed is -1", "from 0 to"),
    ("interval", lambda e: e.interval(to="b"), "'b'", "the policies are 'a'"),
    ("ratios", lambda e: e.ratios("b"), "'b'", "the policies are 'a'"),
    ("ratios", lambda e: e.ratios("a", ["mod"]), "'mod'", "give 'median'"),
    ("only", lambda e: e.only(["b"]), "'b'", "the policies are 'a'"),
    ("only", lambda e: e.only([]), "none", "the policies are 'a'"),
    ("only", lambda e: e.only(3), "'3'", "the policies are 'a'"),
    ("timing", lambda e: e.timing("mod"), "'mod'", "give 'median'"),
    ("wins", lambda e: e.wins("x"), "tolerance is 'x'", "from 0 up"),
    ("join", lambda e: csg.Evaluation.join([]), "none were given", "csg.Evaluation"),
    ("join", lambda e: csg.Evaluation.join([3]), "int", "csg.Evaluation"),
    ("join", lambda e: csg.Evaluation.join(e), "none", "a list of csg.Evaluation"),
    ("join", lambda e: csg.Evaluation.join([e, e]), "'a'", "another trial="),
    ("plot_cdf", lambda e: e.plot_cdf(floor=0.0), "floor is 0.0", ABOVE),
    ("plot_cdf", lambda e: e.plot_cdf(floor="x"), "floor is 'x'", ABOVE),
]
SIMULATE = [
    (
        "carry=None",
        lambda s: csg.simulate({"a": s.policy}, s.model, pd.DataFrame(), None),
        "carry is None",
        "give a dict such as",
    ),
    (
        "an uncertain Param",
        lambda s: csg.simulate(
            {"a": s.policy}, s.model, pd.DataFrame(), {"demand": "order"}
        ),
        "'demand' is no known number",
        "add it to known_params",
    ),
]
CASES = [
    *(Bad("csg.evaluate", *rest) for rest in EVALUATE),
    *(Bad("csg.simulate", *rest) for rest in SIMULATE),
    *(
        Bad(
            f"Evaluation.{call}",
            thing,
            lambda s, run=run: run(s.evaluation),
            thing,
            remedy,
        )
        for call, run, thing, remedy in EVALUATION
    ),
]

"""Bad arguments of csg.guarantees."""

from dataclasses import replace

import numpy as np

import pyomo_csg as csg
from tests.reliability.bad import Bad
from tests.reliability.bad_contexts import INF, NAN
from tests.reliability.bad_options import WHOLE
from tests.reliability.scene import PAIRS

of = csg.guarantees
UNIT = np.linspace(0, 1, 30)
SETS = np.ones((4, 2, 1))


def forgetful(policy):
    """Return the policy without its history."""
    learned = replace(policy.learned, pairs=None)
    return csg.Policy(policy.two_stage.model, learned)


GUARANTEES = [
    ("certify", lambda s: s.policy.certify(s.pairs, delta=0), "delta is 0", "0 and 1"),
    (
        "certify",
        lambda s: s.policy.certify(s.pairs, delta="x"),
        "delta is 'x'",
        "0 and",
    ),
    (
        "certify",
        lambda s: s.policy.certify(s.pairs, delta=NAN),
        "delta is nan",
        "0 and",
    ),
    (
        "certify",
        lambda s: s.policy.certify((s.pairs[0][:5], s.pairs[1][:5])),
        "5 pairs",
        "at least 20",
    ),
    *(
        (
            "certify",
            lambda s, given=given: s.policy.certify(s.pairs, cost_range=given),
            "cost_range is",
            "two finite numbers in order",
        )
        for given in ((1.0, 0.0), (0.0, INF), 5.0, "ab", (1.0,), ("a", "b"), (1, 2, 3))
    ),
    (
        "certify",
        lambda s: s.policy.certify(s.pairs, cost_range=(0.0, 1e-9), against={}),
        "cost_range is",
        "no cost can exceed",
    ),
    (
        "certify",
        lambda s: forgetful(s.policy).certify((s.pairs[0][:20], s.pairs[1][:20])),
        "20 pairs, and baselines would learn from half",
        "give history=, or at least 40",
    ),
    (
        "optimality_gap",
        lambda s: of.optimality_gap(s.policy, (s.pairs[0][:3], s.pairs[1][:3])),
        "3 pairs",
        "at least 4",
    ),
    (
        "kappa_distance",
        lambda s: of.kappa_distance(
            (SETS, np.ones((4, 1))), (np.ones((4, 2, 3)), np.ones((4, 3)))
        ),
        "outcomes have 1 and 3 columns",
        "same number of columns",
    ),
    ("certify", lambda s: s.policy.certify(s.pairs, against=[1]), "against", "mapping"),
    (
        "certify",
        lambda s: s.policy.certify(s.pairs, against={"a": 3}),
        "against['a']",
        "csg.Policy",
    ),
    (
        "certify",
        lambda s: s.policy.certify(s.pairs, seed=-1),
        "seed is -1",
        "from 0 to",
    ),
    ("certify", lambda s: s.policy.certify(s.pairs, history="x"), "data", "a pair"),
    (
        "certify",
        lambda s: of.certify("policy", s.pairs),
        "policy is a str",
        "csg.Policy",
    ),
    (
        "optimality_gap",
        lambda s: of.optimality_gap(s.policy, s.pairs, reference="best"),
        "'best'",
        "give one of",
    ),
    *(
        (
            "optimality_gap",
            lambda s, size=size: of.optimality_gap(s.policy, s.pairs, size=size),
            f"size is {size!r}",
            "give a whole number from 1 to 10",
        )
        for size in (0, -1, 1.5, "two", PAIRS + 1)
    ),
    (
        "optimality_gap",
        lambda s: of.optimality_gap(s.policy, s.pairs, delta=2.0),
        "delta is 2.0",
        "between 0 and 1",
    ),
    (
        "optimality_gap",
        lambda s: of.optimality_gap(s.policy, s.pairs, width="wide"),
        "width is 'wide'",
        "from 0 up",
    ),
    (
        "optimality_gap",
        lambda s: of.optimality_gap(3, s.pairs),
        "policy is a",
        "csg.Pol",
    ),
    (
        "values",
        lambda s: of.values(s.policy, s.pairs, seed="x"),
        "seed is 'x'",
        "from 0 to",
    ),
    ("values", lambda s: of.values(None, s.pairs), "policy is a None", "csg.Policy"),
    (
        "ambiguity",
        lambda s: of.ambiguity("a", s.pairs),
        "policy is a str",
        "csg.Policy",
    ),
    (
        "conditional_values",
        lambda s: of.conditional_values(s.policy, 3),
        "cases",
        "(context, outcomes)",
    ),
    (
        "conditional_values",
        lambda s: of.conditional_values(s.policy, []),
        "cases",
        "(context, outcomes)",
    ),
    (
        "conditional_values",
        lambda s: of.conditional_values(s.policy, [([0.0, 0.0],)]),
        "cases[0]",
        "(context, outcomes)",
    ),
    (
        "conditional_values",
        lambda s: of.conditional_values(s.policy, [([0.0, 0.0], [[NAN]])]),
        "'demand' is nan",
        "give a finite number",
    ),
    ("mean_interval", lambda s: of.mean_interval([1.0], 0.1), "shape (1,)", "at least"),
    ("mean_interval", lambda s: of.mean_interval("abc", 0.1), "values", "numbers"),
    (
        "mean_interval",
        lambda s: of.mean_interval([NAN, 1], 0.1),
        "some value",
        "drop it",
    ),
    ("mean_interval", lambda s: of.mean_interval(UNIT, 1.0), "delta is 1.0", "between"),
    ("mean_interval", lambda s: of.mean_interval(UNIT, None), "delta is None", "betw"),
    ("mean_interval", lambda s: of.mean_interval(UNIT, 0.1, -1), "width is -1", "0 up"),
    ("mean_interval", lambda s: of.mean_interval(UNIT, 0.1, "x"), "width is 'x'", "up"),
    ("mean_interval", lambda s: of.mean_interval(UNIT, 0.1, 0.5), "0.5", "the range"),
    *(
        (
            "task_constants",
            lambda s, count=count: of.task_constants(s.model, count, (10.0, 20.0)),
            f"scenarios is {count!r}",
            WHOLE,
        )
        for count in (0, -1, 1.5, "two", None)
    ),
    *(
        (
            "cost_range",
            lambda s, box=box: of.cost_range(s.model, box),
            thing,
            remedy,
        )
        for box, thing, remedy in [
            (3, "support is 3", "give (lower, upper)"),
            ("ab", "support is 'ab'", "give (lower, upper)"),
            ((1, 2, 3), "support is (1, 2, 3)", "give (lower, upper)"),
            ((20.0, 10.0), "'demand'", "lower"),
            ((NAN, 1.0), "'demand'", "lower"),
            (([1.0, 2.0], [3.0, 4.0]), "support", "give (lower, upper)"),
        ]
    ),
    ("wasserstein", lambda s: of.wasserstein([], []), "samples", "same shape"),
    (
        "wasserstein",
        lambda s: of.wasserstein([1.0], [1.0, 2.0]),
        "shapes",
        "same shape",
    ),
    ("wasserstein", lambda s: of.wasserstein("abc", [1.0]), "samples", "numbers"),
    ("wasserstein", lambda s: of.wasserstein(3.0, 4.0), "shapes", "same shape"),
    ("wasserstein", lambda s: of.wasserstein([NAN], [1.0]), "samples", "finite"),
    ("joint_mmd", lambda s: of.joint_mmd(SETS, np.ones((3, 1))), "outcomes", "(4, 1)"),
    ("joint_mmd", lambda s: of.joint_mmd(SETS[0], [[1.0]]), "scenarios", "(n, K, p)"),
    ("joint_mmd", lambda s: of.joint_mmd("a", [[1.0]]), "scenarios", "numbers"),
    ("joint_mmd", lambda s: of.joint_mmd(SETS[:1], [[1.0]]), "1", "at least two"),
    (
        "joint_mmd",
        lambda s: of.joint_mmd(SETS, np.ones((4, 1)), weights=[1.0]),
        "weights",
        "(4, 2)",
    ),
    (
        "joint_mmd",
        lambda s: of.joint_mmd(SETS, np.ones((4, 1)), kernel="enrgy"),
        "kernel is 'enrgy'",
        "give one of",
    ),
    (
        "joint_mmd",
        lambda s: of.joint_mmd(SETS, np.ones((4, 1)), kernel=lambda a, b: a),
        "kernel",
        "it must map tensors",
    ),
    ("kappa_distance", lambda s: of.kappa_distance(3, 4), "int", "scenarios, outcomes"),
    (
        "kappa_distance",
        lambda s: of.kappa_distance((SETS,), (SETS,)),
        "tuple of 1",
        "scenarios, outcomes",
    ),
    ("mmd_bound", lambda s: of.mmd_bound(s.policy, s.pairs), "network", "csg.Linear"),
    ("mmd_bound", lambda s: of.mmd_bound(3, s.pairs), "policy is a int", "csg.Policy"),
    (
        "mmd_bound",
        lambda s: of.mmd_bound(s.linear, s.pairs, delta=0.0),
        "delta is 0.0",
        "between 0 and 1",
    ),
    (
        "mmd_bound",
        lambda s: of.mmd_bound(s.linear, s.pairs, radius=1e-9),
        "radius is 1e-09",
        "a context in the data",
    ),
    (
        "mmd_bound",
        lambda s: of.mmd_bound(s.linear, s.pairs, radius="far"),
        "radius is 'far'",
        "give a number",
    ),
    (
        "mmd_bound",
        lambda s: of.mmd_bound(s.linear, s.pairs, radius=NAN),
        "radius is nan",
        "give a number",
    ),
    (
        "task_bound",
        lambda s: of.task_bound(s.linear, s.pairs, support=(0.0, 1.0)),
        "outcomes of number 0",
        "support",
    ),
    (
        "task_bound",
        lambda s: of.task_bound(s.linear, s.pairs, delta="x"),
        "delta is 'x'",
        "between 0 and 1",
    ),
    (
        "approximate_bound",
        lambda s: of.approximate_bound(s.linear, s.pairs),
        "method 'mmd'",
        "fit by 'static' or 'dynamic'",
    ),
]
CASES = [
    Bad(f"csg.guarantees.{call}", thing, run, thing, remedy)
    for call, run, thing, remedy in GUARANTEES
]

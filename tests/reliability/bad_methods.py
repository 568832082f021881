"""Bad arguments of csg.methods, csg.MeanCVaR and csg.set_verbosity."""

import pyomo_csg as csg
from tests.reliability.bad import Bad

NAN = float("nan")

METHODS = [
    ("MMD", {"kernel": "cosine"}, "kernel is 'cosine'", "'energy'"),
    ("Static", {"regularization": -1}, "regularization is -1", "from 0 up"),
    ("Static", {"loss_kind": "mean"}, "loss_kind is 'mean'", "'optimistic'"),
    ("Dynamic", {"regularization": "x"}, "regularization is 'x'", "'0.1x'"),
    ("Direct", {"regularization": NAN}, "regularization is nan", "from 0 up"),
    ("Auto", {"candidates": ["magic"]}, "candidates has 'magic'", "give some of"),
    ("Perturbed", {"samples": 1}, "samples is 1", "from 2 up"),
    ("Perturbed", {"noise": 0}, "noise is 0", "above 0"),
]
RISKS = [
    ({"weight": 2.0, "level": 0.9}, "weight is 2.0", "from 0 to 1"),
    ({"weight": 0.5, "level": 1.0}, "level is 1.0", "give a"),
]
LEVELS = ["loud", None, 1.5]

CASES = [
    *(
        Bad(
            f"csg.methods.{name}",
            f"{settings}",
            lambda s, name=name, settings=settings: getattr(csg.methods, name)(
                **settings
            ),
            thing,
            remedy,
        )
        for name, settings, thing, remedy in METHODS
    ),
    *(
        Bad(
            "csg.MeanCVaR",
            f"{settings}",
            lambda s, settings=settings: csg.MeanCVaR(**settings),
            thing,
            remedy,
        )
        for settings, thing, remedy in RISKS
    ),
    *(
        Bad(
            "csg.set_verbosity",
            f"level={level!r}",
            lambda s, level=level: csg.set_verbosity(level),
            f"level is {level!r}",
            "give one of",
        )
        for level in LEVELS
    ),
]

"""Bad options of csg.baselines."""

import pyomo_csg as csg
from tests.reliability.bad import Bad, said
from tests.reliability.bad_contexts import NAN
from tests.reliability.bad_options import WHOLE
from tests.reliability.scene import PAIRS

BASELINES = [
    ("SampleAverage", {"scenarios": 0}, "scenarios is 0", WHOLE),
    ("SampleAverage", {"reduction": "kmean"}, "'kmean'", "give one of"),
    ("SampleAverage", {"reduction": ["kmeans"]}, "reduction", "give one of"),
    ("SampleAverage", {"units": None}, "units is None", "give one of"),
    ("SampleAverage", {"seed": -1}, "seed is -1", WHOLE),
    ("SampleAverage", {"seed": 2**40}, "seed is", "4294967295"),
    ("SampleAverage", {"scenario": 3}, "'scenario'", "help(csg.baselines."),
    ("SampleAverage", {"workers": 0}, "workers is 0", WHOLE),
    ("SampleAverage", {"context": "rain"}, "context", "drop it"),
    ("NeighborWeighted", {"neighbors": 0}, "neighbors is 0", WHOLE),
    ("NeighborWeighted", {"neighbors": PAIRS + 1}, "neighbors is 21", "1 to 20"),
    ("NeighborWeighted", {"neighbors": 1.5}, "neighbors is 1.5", "or 'auto'"),
    ("NeighborWeighted", {"neigbours": 3}, "'neigbours'", "help(csg.baselines."),
    ("ForestWeighted", {"scenarios": "few"}, "scenarios is 'few'", WHOLE),
    ("ExpectedValue", {"forecast": "guess"}, "'guess'", "give one of"),
    ("ExpectedValue", {"forecast": 3}, "forecast is 3", "a function from contexts"),
    ("ExpectedValue", {"forecast": lambda x: x}, "(20, 2)", "expected (20, 1)"),
    ("ExpectedValue", {"forecast": lambda x: 1 / 0}, "ZeroDivisionError", "expected"),
    ("ExpectedValue", {"forecast": lambda x: x[:, :1] * NAN}, "not finite", "expected"),
    ("Residuals", {"folds": 1}, "folds is 1", "give"),
    ("Residuals", {"folds": "many"}, "folds is 'many'", "give"),
    ("Residuals", {"scale": "yes"}, "scale is 'yes'", "give"),
    ("QuantileRegression", {"level": 1.5}, "level is 1.5", "0"),
    ("QuantileRegression", {"level": "high"}, "level is 'high'", "0"),
    ("QuantileRegression", {"level": NAN}, "level is nan", "0"),
    ("QuantileRegression", {"level": [[0.1], [0.2, 3]]}, "level is", "0"),
    ("OneScenario", {"map": "linea"}, "map is 'linea'", "linear"),
    ("OneScenario", {"evaluations": 0}, "evaluations is 0", WHOLE),
    ("OneScenario", {"leaf": 0.5}, "leaf is 0.5", WHOLE),
    ("StochasticOptimizationForest", {"trees": 0}, "trees is 0", WHOLE),
    ("StochasticOptimizationForest", {"leaf": 1.5}, "leaf is 1.5", WHOLE),
    ("SupportProbabilities", {"support": 0}, "support is 0", "give"),
    ("SupportProbabilities", {"support": [[NAN]]}, "nan", "finite number"),
    (
        "SupportProbabilities",
        {"support": [[1.0], [1, 2]]},
        "support",
        "give a whole number",
    ),
    ("SupportProbabilities", {"smoothing": 0.0}, "smoothing is 0", "give"),
    ("SupportProbabilities", {"smoothing": "much"}, "smoothing is 'much'", "give"),
    ("SupportProbabilities", {"hidden": 8}, "hidden is 8", "give"),
    ("SupportProbabilities", {"epochs": 0}, "epochs is 0", WHOLE),
    ("Neur2SP", {"hidden": 0}, "hidden is 0", WHOLE),
    ("Neur2SP", {"labels": "many"}, "labels is 'many'", WHOLE),
    ("Neur2SP", {"lables": 10}, "'lables'", "help(csg.baselines."),
    ("LandscapeSurrogate", {"config": {"epochs": 1}}, "'epochs'", "epochs"),
    ("LandscapeSurrogate", {"network": "cnn"}, "network is 'cnn'", "give one of"),
]
CASES = [
    Bad(
        f"csg.baselines.{name}",
        said(given),
        lambda s, name=name, given=given: getattr(csg.baselines, name)(
            s.model, s.pairs, **given
        ),
        thing,
        remedy,
    )
    for name, given, thing, remedy in BASELINES
]

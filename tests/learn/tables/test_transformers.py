"""A user's transformer: the same numbers as scikit-learn's, in files without pickle."""

import json

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    StandardScaler,
)

import pyomo_csg as csg
from pyomo_csg.learn.tables.preprocessing import Preprocessing
from pyomo_csg.learn.tables.transformers import learn_transformer
from pyomo_csg.storage import to_json

NAN = float("nan")
NUMBERS = ["rain", "wind"]


def table(rows=40):
    rng = np.random.default_rng(0)
    found = pd.DataFrame(
        {
            "rain": rng.gamma(2, 3, rows),
            "weekday": rng.choice(["Mon", "Tue", "Sat"], rows),
            "wind": rng.normal(100, 20, rows),
            "zone": rng.integers(1, 4, rows),
        }
    )
    found.loc[[3, 7], "rain"] = NAN
    found.loc[5, "weekday"] = NAN
    return found


def imputer(**options):
    return SimpleImputer(**options)


TRANSFORMERS = {
    "scaler": ColumnTransformer([("n", StandardScaler(), ["wind"])]),
    "center only": ColumnTransformer([("n", StandardScaler(with_std=False), [2])]),
    "width only": ColumnTransformer([("n", StandardScaler(with_mean=False), [2, 3])]),
    "imputers": ColumnTransformer(
        [
            ("a", imputer(strategy="median"), ["rain"]),
            ("b", imputer(strategy="most_frequent"), slice(2, 4)),
        ]
    ),
    "indicator": ColumnTransformer([("a", imputer(add_indicator=True), NUMBERS)]),
    "constant": ColumnTransformer(
        [("a", imputer(strategy="constant", fill_value=-1.0), ["rain"])],
        remainder="drop",
    ),
    "levels": ColumnTransformer(
        [
            ("l", OneHotEncoder(drop="first"), ["zone"]),
            ("rest", "passthrough", ["wind"]),
        ]
    ),
    "missing level": ColumnTransformer([("l", OneHotEncoder(), ["weekday", "zone"])]),
    "pipelines": ColumnTransformer(
        [
            ("n", make_pipeline(imputer(), StandardScaler()), NUMBERS),
            (
                "l",
                make_pipeline(
                    imputer(strategy="most_frequent"),
                    OneHotEncoder(handle_unknown="ignore", drop="if_binary"),
                ),
                ["weekday"],
            ),
        ],
        remainder="passthrough",
    ),
    "scaled, then filled": make_pipeline(
        ColumnTransformer([("n", StandardScaler(), NUMBERS)]), imputer()
    ),
    "scaled twice": ColumnTransformer(
        [("n", make_pipeline(StandardScaler(), StandardScaler()), ["wind"])]
    ),
    "by type": ColumnTransformer(
        [
            (
                "n",
                make_pipeline(imputer(), StandardScaler()),
                make_column_selector(dtype_include="number"),
            )
        ]
    ),
}


def columns_of(numbers):
    """Return the columns in an order of their own: transformers order them otherwise."""
    return np.array(sorted(np.round(numbers.T, 9).tolist()))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_numbers_are_those_of_sklearn(name):
    transformer, past, new = TRANSFORMERS[name], table(), table(60)
    found = learn_transformer(transformer, past)
    theirs = transformer.fit(past).transform(new)
    theirs = theirs.toarray() if hasattr(theirs, "toarray") else np.asarray(theirs)
    mine = found.encode_table(new).to_numpy()
    assert columns_of(mine) == pytest.approx(columns_of(theirs.astype(float)))
    again = Preprocessing.restore(json.loads(to_json(found.summary())))
    assert again == found


@pytest.mark.parametrize(
    "transformer, words",
    [
        (FunctionTransformer(np.log1p), "FunctionTransformer"),
        (
            ColumnTransformer([("n", MinMaxScaler(), NUMBERS)]),
            "MinMaxScaler, but a policy file holds no Python objects",
        ),
        (StandardScaler(), "it cannot be fitted: could not convert string"),
        (
            ColumnTransformer([("l", OneHotEncoder(min_frequency=3), ["zone"])]),
            "max_categories or min_frequency; drop",
        ),
        (
            ColumnTransformer([("a", imputer(missing_values=-1), ["zone"])]),
            "missing_values=-1; use nan or None",
        ),
        (
            ColumnTransformer(
                [("a", "passthrough", ["wind"]), ("b", "passthrough", ["wind"])]
            ),
            "the same numbers of a column; give each column to one",
        ),
        (
            make_pipeline(
                ColumnTransformer([("a", imputer(add_indicator=True), NUMBERS)]),
                StandardScaler(),
            ),
            "StandardScaler comes after the indicators of column 'rain'",
        ),
        (
            ColumnTransformer(
                [("l", make_pipeline(StandardScaler(), OneHotEncoder()), ["zone"])]
            ),
            "OneHotEncoder comes after StandardScaler",
        ),
    ],
)
def test_what_a_file_cannot_hold_is_refused(transformer, words):
    with pytest.raises(csg.DataError) as error:
        learn_transformer(transformer, table())
    assert words in str(error.value).replace("\n    ", " ")


@pytest.mark.parametrize(
    "change",
    [
        {"width": 0.0},
        {"width": NAN},
        {"fill": [1]},
        {"levels": [1, 2]},
        {"dropped": 1.5},
        {"indicator": "yes"},
    ],
)
def test_a_damaged_summary_is_refused(change):
    (entry, *_) = learn_transformer(TRANSFORMERS["scaler"], table()).summary()
    with pytest.raises((ValueError, TypeError)):
        Preprocessing.restore([{**entry, **change}])


def shop():
    m = pyo.ConcreteModel("shop")
    m.demand = pyo.Param(mutable=True, initialize=5.0, within=pyo.NonNegativeReals)
    m.order = pyo.Var(bounds=(0, 60))
    m.sold = pyo.Var(within=pyo.NonNegativeReals)
    m.supply = pyo.Constraint(expr=m.sold <= m.order)
    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    m.cost = pyo.Objective(expr=m.order - 3 * m.sold)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    return m


class TestAFit:
    def test_uses_and_stores_the_transformer(self, tmp_path):
        transformer = clone(TRANSFORMERS["pipelines"])
        history = table().assign(demand=10.0 + table()["zone"])
        policy = csg.fit(
            shop(),
            history,
            scenarios=2,
            method="mmd",
            preprocess=transformer,
            progress=False,
        )
        assert not hasattr(transformer, "transformers_")  # a copy was fitted
        today = {"rain": None, "weekday": "Sun", "wind": 90.0, "zone": 2}
        policy.save(tmp_path / "shop.csg")
        again = csg.load(tmp_path / "shop.csg", shop())
        assert again.decide(today) == policy.decide(today)
        report = policy.report()
        assert "zone: a number" in report
        assert "where it is missing, an indicator for each of 3 values" in report

    def test_refuses_a_new_value_as_the_encoder_does(self):
        transformer = ColumnTransformer([("l", OneHotEncoder(), ["zone"])])
        policy = csg.fit(
            shop(),
            table().assign(demand=10.0),
            scenarios=2,
            method="mmd",
            preprocess=transformer,
            progress=False,
        )
        with pytest.raises(csg.DataError, match="which the history does not have"):
            policy.decide({"zone": 9})

    def test_needs_columns(self):
        with pytest.raises(csg.DataError, match="contexts are an array; give a"):
            csg.fit(shop(), (np.ones((9, 2)), np.ones(9)), preprocess=StandardScaler())

    def test_refuses_anything_else(self):
        with pytest.raises(csg.DataError, match="or a scikit-learn transformer"):
            csg.fit(shop(), table(), preprocess="scale")
        with pytest.raises(csg.DataError, match="or a scikit-learn transformer"):
            csg.fit(shop(), table(), preprocess=StandardScaler)

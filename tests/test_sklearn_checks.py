"""csg.ScenarioGenerator under scikit-learn's own checks of estimators.

A check in ``CANNOT_APPLY`` that passes fails the tests (xfail_strict in setup.cfg).
"""

import pyomo.environ as pyo
import pytest
from sklearn.utils import estimator_checks

import pyomo_csg as csg

if not hasattr(estimator_checks, "estimator_checks_generator"):
    pytest.skip("scikit-learn before 1.6 has other checks", allow_module_level=True)


OWN_ERROR = "wrong data is a csg.DataError, with every problem, and not a ValueError"
CANNOT_APPLY = {
    "check_estimators_overwrite_params": "a fit solves the model, and Pyomo caches in it",
    "check_n_features_in_after_fitting": OWN_ERROR,
    "check_complex_data": OWN_ERROR,
    "check_dtype_object": OWN_ERROR,
    "check_estimators_empty_data_messages": OWN_ERROR,
    "check_estimator_sparse_tag": OWN_ERROR,
    "check_estimator_sparse_array": OWN_ERROR,
    "check_estimator_sparse_matrix": OWN_ERROR,
    "check_estimators_nan_inf": OWN_ERROR,
    "check_transformer_general": OWN_ERROR,
    "check_fit2d_1sample": OWN_ERROR,
    "check_requires_y_none": OWN_ERROR,
    "check_fit1d": "contexts (n,) are read as one column",
    "check_fit2d_predict1d": "a context (d,) is a single one, with a single decision",
}


def level_model():
    """Return a model that has a solution for any number: a level near an unknown one."""
    m = pyo.ConcreteModel("level")
    m.target = pyo.Param(initialize=0.0, mutable=True, within=pyo.Reals)
    m.level = pyo.Var(bounds=(-1e6, 1e6))
    m.above, m.below = pyo.Var(bounds=(0, None)), pyo.Var(bounds=(0, None))
    m.balance = pyo.Constraint(expr=m.level - m.above + m.below == m.target)
    m.cost = pyo.Objective(expr=m.above + 3 * m.below)
    csg.annotate(m, first_stage_variables=m.level, uncertain_params=m.target)
    return m


class Generator(csg.ScenarioGenerator):
    """One whose text has no address: every worker of the tests finds the same names."""

    def __repr__(self, **options):
        return "generator"


def generator():
    return Generator(
        level_model(), 2, method="mmd", config={"mmd_epochs": 1, "hidden": (4,)}
    )


@estimator_checks.parametrize_with_checks(
    [generator()], expected_failed_checks=lambda estimator: CANNOT_APPLY
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_check(estimator, check):
    check(estimator)


def test_every_exception_names_a_check():
    pairs = estimator_checks.estimator_checks_generator(generator())
    names = {check.func.__name__ for _, check in pairs}
    assert set(CANNOT_APPLY) <= names

"""An extensive form of SMPS files that shares nothing with the reader.

HiGHS itself reads the core; uncertain numbers are replaced by their names.
"""

import re
import tempfile
from pathlib import Path

import highspy
import numpy as np
import scipy.sparse as sp


def read_core(path):
    """Return what HiGHS reads from an MPS file."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "core.mps"
        text = Path(path).read_text("latin-1")
        # HiGHS refuses the names that some files have beside the header RHS.
        copy.write_text(
            re.sub(r"^(RHS|RANGES|BOUNDS)[ \t]+\S.*$", r"\1", text, flags=re.MULTILINE)
        )
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        assert highs.readModel(str(copy)) != highspy.HighsStatus.kError
        return highs.getLp()


def extensive_form(path, first_column, scenarios, weights):
    """Return the extensive form's HighsLp.

    Parameters
    ----------
    path : path of the core file
    first_column : str
        The first column of the second period.
    scenarios : list of dict
        Values by ('rhs', row), ('matrix', row, column) or ('cost', column).
    weights : sequence of float
    """
    lp = read_core(path)
    rows = {name: i for i, name in enumerate(lp.row_names_)}
    columns = {name: j for j, name in enumerate(lp.col_names_)}
    split = columns[first_column]
    start, index = lp.a_matrix_.start_, lp.a_matrix_.index_
    matrix = sp.csc_matrix(
        (np.array(lp.a_matrix_.value_), np.array(index), np.array(start)),
        shape=(lp.num_row_, lp.num_col_),
    ).tolil()
    sides = np.array(lp.row_lower_), np.array(lp.row_upper_)
    cost = np.array(lp.col_cost_)
    bounds = np.array(lp.col_lower_), np.array(lp.col_upper_)
    integer = list(lp.integrality_)
    blocks, lower, upper, costs = [], [], [], [np.zeros(split)]
    for scenario, weight in zip(scenarios, weights, strict=True):
        own, (low, high), prices = matrix.copy(), (s.copy() for s in sides), cost.copy()
        for (kind, *names), value in scenario.items():
            if kind == "rhs":
                i = rows[names[0]]
                low[i] = value if np.isfinite(low[i]) else low[i]
                high[i] = value if np.isfinite(high[i]) else high[i]
            elif kind == "matrix":
                own[rows[names[0]], columns[names[1]]] = value
            else:
                prices[columns[names[0]]] = value
        blocks.append(own.tocsc())
        lower.append(low)
        upper.append(high)
        costs[0] = costs[0] + weight * prices[:split]
        costs.append(weight * prices[split:])
    count = len(blocks)
    whole = sp.hstack(
        [
            sp.vstack([block[:, :split] for block in blocks]),
            sp.block_diag([block[:, split:] for block in blocks]),
        ]
    ).tocsc()
    found = highspy.HighsLp()
    found.num_row_, found.num_col_ = whole.shape
    found.sense_, found.offset_ = lp.sense_, lp.offset_
    found.col_cost_ = np.concatenate(costs)
    found.col_lower_, found.col_upper_ = (
        np.concatenate([side[:split], np.tile(side[split:], count)]) for side in bounds
    )
    found.row_lower_, found.row_upper_ = np.concatenate(lower), np.concatenate(upper)
    found.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    found.a_matrix_.start_ = whole.indptr
    found.a_matrix_.index_, found.a_matrix_.value_ = whole.indices, whole.data
    if integer:
        found.integrality_ = integer[:split] + integer[split:] * count
    return found


def optimum(lp):
    """Return the optimal value of a HighsLp."""
    highs = highspy.Highs()
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", 1e-9),
    ):
        highs.setOptionValue(name, value)
    highs.passModel(lp)
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return highs.getInfo().objective_function_value


def named_scenarios(model, values):
    """Return scenarios (K, p) as the dicts that the extensive form takes."""
    import pyomo_csg as csg

    params = csg.TwoStageModel(model).uncertain_params
    keys = []
    for param in params:
        index = param.index()
        names = index if isinstance(index, tuple) else (index,)
        keys.append((param.parent_component().local_name, *names))
    return [dict(zip(keys, row, strict=True)) for row in np.asarray(values).tolist()]

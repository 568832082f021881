"""SMPS files in and out: the same values as extensive forms of other making."""

import os
from pathlib import Path

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, farmer, newsvendor
from pyomo_csg.cli import main
from tests.interop.smps_reference import (
    extensive_form,
    named_scenarios,
    optimum,
    read_core,
)

CORE = """\
* a comment
NAME          SMALL
ROWS
 N  OBJ
 N  OTHER
 L  CAP
 L  USE
 G  DEM
 G  RNG
COLUMNS
    X         OBJ       1.0            CAP       1.0
    X         USE       -1.0           OTHER     5.0
    Y         OBJ       2.0            USE       1.0
    Y         DEM       1.0            RNG       1.0
    Z         OBJ       9.0            DEM       1.0
RHS
    RHS       CAP       10.0           DEM       4.0
    RHS       OBJ       -3.0
RANGES
    RNG       RNG       8.0
BOUNDS
 UP BND       Z         20.0
ENDATA
"""
TIME = """\
TIME          SMALL
PERIODS
    X         CAP                      P1
    Y         USE                      P2
ENDATA
"""
INDEP = """\
STOCH         SMALL
INDEP         DISCRETE
    RHS       DEM       2.0            P2        0.25
    RHS       DEM       6.0            P2        0.75
    Y         OBJ       1.0            P2        0.5
    Y         OBJ       4.0            P2        0.5
ENDATA
"""


def write(folder, core=CORE, time=TIME, stoch=INDEP):
    for ending, text in ((".cor", core), (".tim", time), (".sto", stoch)):
        (folder / f"small{ending}").write_text(text)
    return folder / "small"


def stoch(*lines):
    return "\n".join(["STOCH SMALL", *lines, "ENDATA", ""])


def solved(problem):
    return csg.Oracle(problem.model).solve(*problem.scenarios()).value


def test_the_value_is_that_of_an_extensive_form_that_highs_reads(tmp_path):
    stem = write(tmp_path)
    problem = csg.read_smps(stem)
    values, weights = problem.scenarios()

    named = named_scenarios(problem.model, values)
    reference = optimum(extensive_form(f"{stem}.cor", "Y", named, weights))

    np.testing.assert_allclose(values, [[2, 1], [2, 4], [6, 1], [6, 4]])
    np.testing.assert_allclose(weights, [0.125, 0.125, 0.375, 0.375])
    # The right-hand side of the objective is minus its constant.
    assert solved(problem) == pytest.approx(reference)


@pytest.mark.parametrize("name", ["small", "small.cor", "small.tim", "small.sto"])
def test_a_stem_or_any_of_the_three_files_names_a_problem(tmp_path, name):
    write(tmp_path)

    assert csg.read_smps(tmp_path / name).name == "SMALL"


def test_three_paths_name_a_problem(tmp_path):
    stem = write(tmp_path)
    moved = [
        Path(f"{stem}{e}").rename(tmp_path / f"f{e[1]}")
        for e in (".cor", ".tim", ".sto")
    ]

    assert csg.read_smps(*moved).scenario_count == 4


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("INDEP DISCRETE ADD", " RHS DEM 1 P2 0.5", " RHS DEM 2 P2 0.5"), [[5], [6]]),
        (("INDEP DISCRETE MULTIPLY", " RHS DEM 2 0.5", " RHS DEM 3 0.5"), [[8], [12]]),
        (("INDEP DISCRETE", " UP BND Z 7 P2 0.5", " UP BND Z 9 P2 0.5"), [[7], [9]]),
        (("INDEP DISCRETE", " X USE -2 P2 0.5", " X USE -1 P2 0.5"), [[-2], [-1]]),
        (
            # Later realizations of a block list what differs from the first.
            ("BLOCKS DISCRETE", " BL B P2 0.5", " RHS DEM 1 RNG 2", " Y OBJ 5")
            + (" BL B P2 0.5", " RHS DEM 3"),
            [[1, 2, 5], [3, 2, 5]],
        ),
        (
            ("SCENARIOS DISCRETE", " SC A 'ROOT' 0.5 P2", " RHS DEM 1", " Y OBJ 5")
            + (" SC B A 0.3 P2", " RHS DEM 3", " SC C ROOT 0.2 P2"),
            [[1, 5], [3, 5], [4, 2]],
        ),
    ],
)
def test_sections_and_modes_give_the_values_of_the_standard(tmp_path, lines, expected):
    values, weights = csg.read_smps(write(tmp_path, stoch=stoch(*lines))).scenarios()

    np.testing.assert_allclose(values, expected)
    assert weights.sum() == pytest.approx(1)


def test_continuous_distributions_are_sampled_but_not_enumerated(tmp_path):
    lines = ("INDEP NORMAL", " RHS DEM 5 P2 4", "INDEP UNIFORM ADD", " Y OBJ 1 P2 3")
    problem = csg.read_smps(write(tmp_path, stoch=stoch(*lines)))

    drawn = problem.sample(20_000, 3)

    np.testing.assert_allclose(drawn.mean(axis=0), [5, 4], atol=0.05)
    np.testing.assert_allclose(drawn.var(axis=0), [4, 1 / 3], rtol=0.05)
    np.testing.assert_array_equal(drawn, problem.sample(20_000, 3))
    assert problem.scenario_count is None
    with pytest.raises(csg.DataError, match="continuous; call sample"):
        problem.scenarios()


def test_samples_have_the_frequencies_of_the_file(tmp_path):
    drawn = csg.read_smps(write(tmp_path)).sample(20_000, 1)

    assert np.mean(drawn[:, 0] == 6) == pytest.approx(0.75, abs=0.02)


def test_too_many_scenarios_are_refused(tmp_path):
    with pytest.raises(csg.DataError, match="there are 4, more than limit=3"):
        csg.read_smps(write(tmp_path)).scenarios(limit=3)


def test_explicit_periods_mean_the_same(tmp_path):
    explicit = """\
TIME SMALL
PERIODS EXPLICIT
    P1
    P2
ROWS
    CAP P1
    USE P2
    DEM P2
    RNG P2
COLUMNS
    Z P2
    X P1
    Y P2
ENDATA
"""
    implicit = solved(csg.read_smps(write(tmp_path)))

    assert solved(csg.read_smps(write(tmp_path, time=explicit))) == implicit


def test_bounds_and_integers_are_as_highs_reads_them(tmp_path):
    names = "ABCDEFGHIJK"
    entries = [f"    {n}  OBJ  1.0  ROW  1.0" for n in names[:8]]
    entries += ["    M  'MARKER'  'INTORG'"]
    entries += [f"    {n}  OBJ  1.0  ROW  1.0" for n in names[8:]]
    entries += ["    M  'MARKER'  'INTEND'"]
    bounds = [
        " LO BND A 4",
        " UP BND B 5",
        " FX BND C 6",
        " FR BND D",
        " MI BND E",
        " PL BND F",
    ]
    bounds += [" BV BND G", " LI BND H 7", " UP BND I 8", " UP BND J 1e30"]
    lines = ["NAME b", "ROWS", " N OBJ", " L ROW", "COLUMNS", *entries, "RHS"]
    lines += [" RHS ROW 50", "BOUNDS", *bounds, "ENDATA", ""]
    time = "TIME b\nPERIODS\n A OBJ P1\n B ROW P2\nENDATA\n"
    data = stoch("INDEP DISCRETE", " RHS ROW 50 P2 1.0")
    stem = write(tmp_path, "\n".join(lines), time, data)
    model = csg.read_smps(stem).model

    lp = read_core(f"{stem}.cor")

    variables = {**model.first_stage, **model.recourse}
    for name, low, high, kind in zip(
        lp.col_names_, lp.col_lower_, lp.col_upper_, lp.integrality_, strict=True
    ):
        v = variables[name]
        assert (v.lb, v.ub) == tuple(b if np.isfinite(b) else None for b in (low, high))
        assert v.is_continuous() == (kind.name == "kContinuous"), name


def test_ranges_of_every_sign_and_the_first_of_several_sets_count(tmp_path):
    kinds = [(k, r) for k in "LGE" for r in ("3.0", "-3.0")]
    rows = [f"{kind}{place}" for place, (kind, _) in enumerate(kinds)]
    lines = ["NAME b", "ROWS", " N OBJ", *(f" {row[0]} {row}" for row in rows)]
    lines += ["COLUMNS", " A OBJ 1"]
    lines += [f" {column} {row} 1" for column in "AB" for row in rows]
    lines += ["RHS", *(f" RHS {row} 5" for row in rows), " RHS OBJ 2"]
    end = len(lines)  # of the right-hand sides
    lines += [
        "RANGES",
        *(f" RNG {r} {n}" for r, (_, n) in zip(rows, kinds, strict=True)),
    ]
    one = "\n".join([*lines, "ENDATA", ""])
    lines = [*lines[:end], " OTHER L0 99", *lines[end:], " NEXT L0 9", "ENDATA", ""]
    time = "TIME b\nPERIODS\n A OBJ P1\n B L0 P2\nENDATA\n"
    data = stoch("INDEP DISCRETE", " RHS L0 5 P2 1.0")
    lp = read_core(f"{write(tmp_path, one, time, data)}.cor")

    model = csg.read_smps(write(tmp_path, "\n".join(lines), time, data)).model

    for name, low, high in zip(
        lp.row_names_, lp.row_lower_, lp.row_upper_, strict=True
    ):
        con = model.rows[name]
        assert (pyo.value(con.lower), pyo.value(con.upper)) == (low, high), name
    model.first_stage["A"].value = 0
    assert pyo.value(model.objective) == lp.offset_ == -2


def test_names_with_spaces_are_read_in_fixed_format(tmp_path):
    core = CORE.replace("    Y         ", "    Y Y       ")
    time = TIME.replace("    Y         ", "    Y Y       ")
    data = INDEP.replace("    Y         ", "    Y Y       ")

    problem = csg.read_smps(write(tmp_path, core, time, data))

    assert "Y Y" in problem.model.recourse
    assert solved(problem) == solved(csg.read_smps(write(tmp_path)))


def test_a_maximized_core_is_maximized(tmp_path):
    core = CORE.replace("ROWS\n", "OBJSENSE\n    MAX\nROWS\n", 1)

    model = csg.read_smps(write(tmp_path, core)).model

    assert csg.TwoStageModel(model).sense == pyo.maximize


def test_a_lower_bound_may_follow_that_there_is_none(tmp_path):
    bounds = " MI BND       Y\n LO BND       Y         -3\n"
    model = csg.read_smps(
        write(tmp_path, CORE.replace("BOUNDS\n", f"BOUNDS\n{bounds}"))
    )
    assert model.model.recourse["Y"].lb == -3
    twice = bounds + " LO BND       Y         -2\n"
    write(tmp_path, CORE.replace("BOUNDS\n", f"BOUNDS\n{twice}"))
    with pytest.raises(csg.DataError, match="lower bound of column 'Y' is given twice"):
        csg.read_smps(tmp_path / "small")


FAULTS = [
    ("cor", " UP BND", " XX BND", "line 22, section BOUNDS: the bound type 'XX'"),
    (
        "cor",
        " UP BND       Z         ",
        " UP BND       Q         ",
        "column 'Q' is not",
    ),
    ("cor", "RHS       CAP", "RHS       CUP", "line 17, section RHS: the row 'CUP'"),
    (
        "cor",
        "9.0  ",
        "nine ",
        "line 15, section COLUMNS: 'nine' is not a finite number",
    ),
    ("cor", " G  DEM", " H  DEM", "line 8, section ROWS: 'H DEM' was found"),
    ("cor", " G  RNG", " G  DEM", "the row 'DEM' is declared twice"),
    ("cor", "ENDATA\n", "", "the file ends without ENDATA"),
    ("cor", "RANGES", "QUADOBJ", "section QUADOBJ: the section QUADOBJ was found"),
    ("cor", "    Y         DEM", "    Y         USE", "two entries in row 'USE'"),
    (
        "tim",
        "    Y         USE",
        "    W         USE",
        "line 4, section PERIODS: the col",
    ),
    ("tim", "    Y         USE                      P2\n", "", "1 periods were found"),
    ("tim", "ENDATA", "    Z         DEM     P3\nENDATA", "3 periods were found"),
    ("sto", "DISCRETE", "STRANGE", "line 2, section INDEP: 'STRANGE' was found"),
    ("sto", "DISCRETE", "DISCRETE  STRANGE", "section INDEP: 'DISCRETE STRANGE'"),
    ("sto", "INDEP  ", "NODES  ", "line 2, section NODES: the section NODES was found"),
    ("sto", "0.75", "0.5", r"the probabilities of rhs\[DEM\] sum to 0.75"),
    ("sto", "0.75", "-1", "line 4, section INDEP: the probability is -1"),
    (
        "sto",
        "DEM       6",
        "DUM       6",
        "line 4, section INDEP: the row 'DUM' is not",
    ),
    ("sto", "DEM       6", "CAP       6", "row 'CAP' belongs to the first period"),
    ("sto", "    RHS       DEM       6", "    W     DEM       6", "the column 'W' is"),
    ("sto", "6.0            P2", "6.0            P9", "the period 'P9' was found"),
    ("sto", "6.0            P2", "6.0            P1", "data of the first period, 'P1'"),
    ("cor", " G  DEM", " G  DE M", "names in free format have no spaces"),
    (
        "cor",
        "    Y         DEM",
        " Y WIDE COLUMN DEM",
        "names in free format have no spaces",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "words"), FAULTS)
def test_a_fault_is_named_with_its_place(tmp_path, file, old, new, words):
    stem = write(tmp_path)
    path = Path(f"{stem}.{file}")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))

    with pytest.raises(csg.DataError, match=words) as error:
        csg.read_smps(stem)

    assert str(path) in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    Path(f"{write(tmp_path)}.tim").unlink()

    with pytest.raises(csg.DataError, match="there is no time file"):
        csg.read_smps(tmp_path / "small")


@pytest.mark.parametrize("section", ["scenarios", "blocks"])
@pytest.mark.parametrize("name", ["farmer", "cep1", "newsvendor"])
def test_what_was_written_has_the_same_value_when_read(tmp_path, name, section):
    model, scenarios = {
        "farmer": lambda: (farmer.build(), farmer.scenarios(3)),
        "cep1": lambda: (cep1.build(), cep1.higle_sen_scenarios()[::20]),
        "newsvendor": lambda: (newsvendor.build(), np.array([[10.0], [14], [30]])),
    }[name]()
    weights = np.arange(1, len(scenarios) + 1) / sum(range(len(scenarios) + 1))

    csg.write_smps(model, scenarios, weights, tmp_path / name, section=section)

    expected = csg.Oracle(model).solve(scenarios, weights).value
    assert solved(csg.read_smps(tmp_path / name)) == pytest.approx(expected, rel=1e-12)


def awkward():
    """Return an integer model with every kind of uncertain number, maximized."""
    m = pyo.ConcreteModel("an awkward one")
    m.w = pyo.Param(
        range(6), mutable=True, initialize=dict(enumerate([1, 2, 3, 4, 5, 6]))
    )
    m.RHS = pyo.Var(within=pyo.Integers, bounds=(-3, m.w[0] + 5))
    m.x = pyo.Var(["a b", "c"], bounds=(0, 4))
    m.z = pyo.Var([1, 2], bounds=(-5, m.w[1]))
    m.free = pyo.Var()
    m.early = pyo.Constraint(expr=(1, m.RHS + m.x["c"], 5))
    m.both = pyo.Constraint(expr=(-m.w[2], m.z[1] + m.x["a b"], m.w[2]))
    m.product = pyo.Constraint(expr=m.w[3] * m.w[2] * m.z[2] + m.free + 1 <= m.x["c"])
    m.limit = pyo.Constraint(expr=m.free >= m.RHS - 9)
    m.value = pyo.Objective(
        expr=m.w[4] * m.z[1] + m.RHS - m.w[5] + m.free + m.w[3] ** 2 * m.x["c"],
        sense=pyo.maximize,
    )
    csg.annotate(m, first_stage_variables=[m.RHS, m.x], uncertain_params=m.w)
    return m


@pytest.mark.parametrize("section", ["scenarios", "blocks"])
def test_names_bounds_costs_and_senses_survive(tmp_path, section):
    model = awkward()
    scenarios = np.random.default_rng(5).uniform(0.5, 3, (4, 6))

    csg.write_smps(model, scenarios, None, tmp_path / "a", section=section)

    expected = csg.Oracle(model).solve(scenarios).value
    assert solved(csg.read_smps(tmp_path / "a")) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("section", ["scenarios", "blocks"])
def test_a_coefficient_that_vanishes_in_every_scenario_survives(tmp_path, section):
    m = pyo.ConcreteModel()
    m.w = pyo.Param([1, 2], mutable=True, initialize={1: 5.0, 2: 3.0})
    m.y, m.z = pyo.Var(bounds=(0, 9)), pyo.Var(bounds=(0, 9))
    m.need = pyo.Constraint(expr=m.w[1] * m.y + m.z >= m.w[2])
    m.cost = pyo.Objective(expr=m.y + 2 * m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    scenarios = np.array([[0.0, 3.0], [0.0, 4.0]])

    csg.write_smps(m, scenarios, None, tmp_path / "a", section=section)

    assert solved(csg.read_smps(tmp_path / "a")) == pytest.approx(7)


def test_a_model_that_is_not_linear_is_refused(tmp_path):
    model = awkward()
    model.square = pyo.Constraint(expr=model.free**2 <= 9)

    with pytest.raises(csg.ModelError, match="'square' is not linear"):
        csg.write_smps(model, np.ones((2, 6)), None, tmp_path / "a")


def test_the_command_line_checks_and_solves(tmp_path, capsys):
    stem = write(tmp_path)

    assert main(["check", f"{stem}.cor"]) == 0
    assert main(["solve", f"{stem}.cor", "--scenarios", "50", "--seed", "1"]) == 0

    shown = capsys.readouterr().out
    assert "all 4 scenarios" in shown
    assert f"{solved(csg.read_smps(stem)):.10g}" in shown
    assert main(["solve", f"{stem}.py"]) == 1


PUBLIC = Path(
    os.environ.get("PYOMO_CSG_SMPS", Path(__file__).parents[3] / "shared" / "smps")
)
SECOND = {  # the first column of the second period
    "lands": "Y11",
    "lands_million": "Y11",
    "gbd": "C0000018",
    "chem": "QS04T1",
    "phone": "F12R0",
    "20term": "COL00064",
    "ssn": "COL00090",
    "sslp_5_25_50": "y_1_1",
}


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="there are no public instances")
@pytest.mark.parametrize("name", SECOND)
def test_public_instances_agree_with_an_extensive_form(name):
    problem = csg.read_smps(PUBLIC / name)
    count = problem.scenario_count
    values, weights = problem.sample(20, 1), np.full(20, 1 / 20)
    if count is not None and count <= 50:
        values, weights = problem.scenarios()

    found = csg.Oracle(problem.model).solve(values, weights).value

    named = named_scenarios(problem.model, values)
    lp = extensive_form(problem.files[0], SECOND[name], named, weights)
    assert found == pytest.approx(optimum(lp), rel=1e-6)


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="there are no public instances")
@pytest.mark.parametrize(
    ("name", "optimal"),
    [("lands", 381.853333), ("chem", -13009.166667), ("sslp_5_25_50", -121.6)],
)
def test_public_instances_have_their_published_values(name, optimal):
    assert solved(csg.read_smps(PUBLIC / name)) == pytest.approx(optimal, rel=1e-7)

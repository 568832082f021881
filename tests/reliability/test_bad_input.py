"""Bad input, by the hundred: each is refused in words, and changes nothing."""

import inspect
from collections import Counter

import pytest

import pyomo_csg as csg
from tests.reliability.scene import Scene
from tests.reliability.tables import CASES

# What takes nothing that could be bad, or is made by others than users.
ASKED_NOTHING = {
    "AnnotationError",
    "CsgError",
    "DataError",
    "Decision",
    "ModelError",
    "Plan",
    "Reduction",
    "Simulation",
    "SmpsProblem",
    "Solution",
    "SolveError",
    "zoo",
}


@pytest.fixture
def scene(learned, tmp_path):
    return Scene(learned, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bad_input_raises_a_clear_error_and_changes_nothing(case, scene):
    case.before(scene)
    before = scene.state()

    with pytest.raises(csg.CsgError) as refused:
        case.run(scene)

    message = str(refused.value)
    assert case.thing in message and case.remedy in message
    assert scene.state() == before


def test_there_are_hundreds_of_cases():
    calls = Counter(case.call for case in CASES)
    names = {(str(case), case.thing, case.remedy) for case in CASES}
    print(f"{len(names)} cases of bad input over {len(calls)} public calls")

    assert len(names) >= 150 and len(calls) >= 50


@pytest.mark.parametrize("name", sorted({*csg.__all__} - ASKED_NOTHING))
def test_every_public_name_has_its_cases(name):
    public = getattr(csg, name)
    parts = [*getattr(public, "__all__", [])] if inspect.ismodule(public) else [name]
    asked = {part for case in CASES for part in case.call.split(".")}
    answers = {"Ambiguity", "Bound", "Certificate", "Gap", "Interval", "JointMMD"}
    answers |= {"TaskConstants", "Term", "Values", "Baseline"}
    answers |= {"Method", "TrainingTask"}

    assert set(parts) - answers <= asked | {"Case"}

"""csg.annotate: what it takes, where it is kept, what it refuses."""

import io
import pickle

import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import newsvendor


def plant():
    """Return a model with indexed parts, not annotated yet."""
    m = pyo.ConcreteModel("plant")
    m.hours = pyo.Param([1, 2], mutable=True, initialize={1: 3.0, 2: 4.0})
    m.price = pyo.Param([1, 2], initialize=2.0)
    m.x = pyo.Var([1, 2], ["now", "later"], bounds=(0, 9))
    m.site = pyo.Block(["a", "b"])
    for b in m.site.values():
        b.size = pyo.Var(bounds=(0, 5))
    return m


def marked(m):
    """Return the names that the two Suffixes mark, in order."""
    return tuple(
        [data.name for data in sorted(suffix, key=suffix.get)]
        for suffix in (m.csg_first_stage_variables, m.csg_uncertain_params)
    )


@pytest.mark.parametrize(
    "given, names",
    [
        (lambda m: m.x, ["x[1,now]", "x[1,later]", "x[2,now]", "x[2,later]"]),
        (lambda m: m.x[1, "now"], ["x[1,now]"]),
        (lambda m: m.x[:, "now"], ["x[1,now]", "x[2,now]"]),
        (lambda m: m.site[:].size, ["site[a].size", "site[b].size"]),
        (lambda m: "x[1,now]", ["x[1,now]"]),
        (lambda m: "x[*,now]", ["x[1,now]", "x[2,now]"]),
        (lambda m: "site[*].size", ["site[a].size", "site[b].size"]),
        (lambda m: [m.x[2, "now"], "site[b].size"], ["x[2,now]", "site[b].size"]),
        (lambda m: [[m.x[1, "now"]], (m.x[:, "now"],)], ["x[1,now]", "x[2,now]"]),
        (lambda m: (v for v in m.x[2, :]), ["x[2,now]", "x[2,later]"]),
        (lambda m: pyo.Reference(m.x[:, "now"]), ["x[1,now]", "x[2,now]"]),
        (lambda m: m.x.values(), ["x[1,now]", "x[1,later]", "x[2,now]", "x[2,later]"]),
    ],
)
def test_variables_are_named_by_component_element_slice_string_or_iterable(
    given, names
):
    m = plant()
    csg.annotate(m, first_stage_variables=given(m), uncertain_params=m.hours)
    assert marked(m) == (names, ["hours[1]", "hours[2]"])


def test_annotating_again_replaces_the_marks():
    m = plant()
    csg.annotate(m, first_stage_variables=m.x, uncertain_params=m.hours)
    csg.annotate(m, first_stage_variables=m.site[:].size, uncertain_params="hours[2]")
    assert marked(m) == (["site[a].size", "site[b].size"], ["hours[2]"])


def test_marks_are_local_suffixes_that_pprint_shows():
    m = newsvendor.build()
    assert m.csg_first_stage_variables.direction == pyo.Suffix.LOCAL
    assert m.csg_uncertain_params.direction == pyo.Suffix.LOCAL
    text = io.StringIO()
    m.pprint(ostream=text)
    assert "csg_uncertain_params : Direction=LOCAL" in text.getvalue()


@pytest.mark.parametrize(
    "copied",
    [
        lambda m: m.clone(),
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: pyo.TransformationFactory("core.relax_integer_vars").create_using(m),
    ],
)
def test_marks_survive_clone_pickle_and_other_transformations(copied):
    m = newsvendor.build()
    copy = copied(m)
    assert marked(copy) == (["order"], ["demand"])
    assert next(iter(copy.csg_uncertain_params)) is copy.demand
    assert csg.TwoStageModel(copy).first_stage_variables[0] is copy.order


def refused(m, **given):
    """Annotate, expect a refusal, and return its problems."""
    options = {"first_stage_variables": m.x, "uncertain_params": m.hours, **given}
    with pytest.raises(csg.AnnotationError) as error:
        csg.annotate(m, **options)
    assert m.component("csg_uncertain_params") is None
    assert str(error.value).startswith("Cannot annotate 'plant'")
    return error.value.problems


def test_a_param_that_is_not_mutable_is_refused_with_the_remedy():
    m = plant()
    (problem,) = refused(m, uncertain_params=m.price)
    assert "Param 'price' is not mutable" in problem
    assert "mutable=True) and build the model again" in problem


def test_an_element_of_a_param_that_is_not_mutable_is_a_number_and_refused():
    m = plant()
    (problem,) = refused(m, uncertain_params=m.price[1])
    assert "the number 2.0 was given" in problem
    assert "mutable=True" in problem


def test_a_slice_of_a_param_that_is_not_mutable_is_refused_once():
    m = plant()
    (problem,) = refused(m, uncertain_params=m.price[:])
    assert "in the slice 'price[:]': the number 2.0 was given" in problem


@pytest.mark.parametrize("name", ["x[*", "site[1].*", "x[", "", "site[*].nothing"])
def test_text_that_is_no_name_is_refused(name):
    (problem,) = refused(plant(), first_stage_variables=name)
    assert name in problem


def test_a_slice_that_does_not_fit_the_model_is_refused():
    m = plant()
    (problem,) = refused(m, first_stage_variables=m.site[:].height)
    assert "does not fit the model" in problem


def test_the_names_of_the_marks_must_be_free():
    m = plant()
    m.csg_uncertain_params = pyo.Set(initialize=[1])
    with pytest.raises(csg.AnnotationError, match="is the name of a Set of the model"):
        csg.annotate(m, first_stage_variables=m.x, uncertain_params=m.hours)


def test_a_name_that_does_not_exist_is_refused_with_the_nearest():
    m = plant()
    problems = refused(m, uncertain_params=["huors", "hours[7]", "Ωμέγα[", "zzz"])
    assert problems[0].endswith("no component 'huors'; did you mean hours?")
    assert "no component 'hours[7]'" in problems[1]
    assert "no component 'Ωμέγα['" in problems[2]
    assert problems[3].endswith("no component 'zzz'; check the spelling")


def test_every_problem_is_listed_at_once():
    m = plant()
    problems = refused(
        m,
        first_stage_variables=[m.hours, "nothing", 3],
        uncertain_params=[m.x, m.price, {"hours": 1}.items()],
    )
    assert len(problems) == 6
    assert "'hours' is a Param; expected a Var" in problems[0]
    assert "'x' is a Var; expected a Param" in problems[3]


@pytest.mark.parametrize("nothing", [[], (), iter(())])
def test_naming_nothing_is_refused(nothing):
    (problem,) = refused(plant(), first_stage_variables=nothing)
    assert problem == (
        "first_stage_variables: nothing was given; name at least one Var"
    )


def test_a_slice_that_matches_nothing_is_refused():
    m = plant()
    (problem,) = refused(m, first_stage_variables=m.x[:, "never"])
    assert "matches nothing" in problem


def test_something_that_is_no_component_is_refused():
    (problem,) = refused(plant(), uncertain_params=object)
    assert "of type type was given; expected a component" in problem


def test_a_component_of_another_model_is_refused():
    m = plant()
    (problem,) = refused(m, uncertain_params=m.clone().hours)
    assert "'hours' belongs to another model than 'plant'" in problem


def test_a_param_without_elements_and_a_var_without_members_are_refused():
    m = plant()
    m.empty = pyo.Var([])
    m.blank = pyo.Param(mutable=True)
    problems = refused(m, first_stage_variables=m.empty, uncertain_params=m.blank)
    assert "Var 'empty' has no elements" in problems[0]
    assert "Param 'blank' has no value; give it one" in problems[1]


def test_an_abstract_model_is_refused_with_the_remedy():
    m = pyo.AbstractModel("early")
    m.x = pyo.Var()
    with pytest.raises(csg.AnnotationError, match=r"create_instance\(\.\.\.\) first"):
        csg.annotate(m, first_stage_variables=m.x, uncertain_params=m.x)
    with pytest.raises(csg.AnnotationError, match="AbstractModel"):
        csg.TwoStageModel(m)


def test_what_is_no_model_is_refused():
    with pytest.raises(csg.AnnotationError, match="an object of type dict was given"):
        csg.annotate({}, first_stage_variables="x", uncertain_params="w")


def test_a_failed_annotation_leaves_the_old_one_standing():
    m = newsvendor.build()
    with pytest.raises(csg.AnnotationError):
        csg.annotate(m, first_stage_variables="ordr", uncertain_params=m.demand)
    assert marked(m) == (["order"], ["demand"])

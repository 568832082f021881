"""The shape of named numbers: what is drawn as a profile, as a map, or as a list."""

import pyomo.environ as pyo
import pytest

from models import facility_location, unit_commitment
from pyomo_csg.report.shapes import group_by_shape


def test_hours_in_any_order_are_a_profile_in_the_order_of_time():
    (group,) = group_by_shape([f"load[{t}]" for t in (3, 1, 2, 10, 4)])
    assert group["shape"] == "profile"
    assert group["columns"] == ["1", "2", "3", "4", "10"]
    assert group["members"] == [1, 2, 0, 4, 3]


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b"],
        ["order[1]", "order[2]"],  # too few
        [f"stock[{shop}]" for shop in "abcdef"],  # not ordered
        ["x[1,1]", "x[1,2]", "x[2,1]"],  # a hole
        [f"x[{i},{i},{i}]" for i in range(9)],
    ],
)
def test_all_else_is_a_list_without_a_name_left_out(names):
    groups = group_by_shape(names)
    assert {group["shape"] for group in groups} == {"list"}
    found = [member for group in groups for member in group["members"]]
    assert sorted(found) == list(range(len(names)))


def test_a_map_has_its_members_row_by_row():
    names = [f"on[{unit},{hour}]" for hour in (2, 1, 3) for unit in ("b", "a")]
    (group,) = group_by_shape(names)
    assert (group["rows"], group["columns"]) == (["b", "a"], ["1", "2", "3"])
    shown = [names[m] for m in group["members"]]
    assert shown == ["on[b,1]", "on[b,2]", "on[b,3]", "on[a,1]", "on[a,2]", "on[a,3]"]


def test_models_have_the_shapes_that_people_expect():
    for model, expected in (
        (unit_commitment.build(), {"unit.on": "map", "unit.started": "map"}),
        (facility_location.build(), {"open": "profile", "size": "profile"}),
    ):
        names = [v.name for v in model.component_data_objects(pyo.Var)]
        found = {g["name"]: g["shape"] for g in group_by_shape(names)}
        assert expected.items() <= found.items()

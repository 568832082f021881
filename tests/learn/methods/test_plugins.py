"""Methods that installed packages provide, found by their entry points."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.methods.plugins import GROUP, read_method
from tests.quick import fit

CODE = """
class Start:
    name = "start, by a package"

    def train(self, task):
        return task.mmd_network()


prepared = Start()
number = 3




class Fails:
    def __init__(self):
        raise RuntimeError("no key found")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a distribution with entry points."""
    monkeypatch.syspath_prepend(tmp_path)

    def add(package, **points):
        (tmp_path / f"{package}.py").write_text(CODE)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        lines = [f"{name} = {package}:{place}" for name, place in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]))

    return add


@pytest.mark.parametrize("place", ["Start", "prepared"])
def test_a_package_provides_a_class_or_an_object(install, place):
    install(f"provides_{place}", start=place)
    pairs = newsvendor.sample(40, seed=1)
    policy = fit(pairs, method="start")

    assert policy.method == "start, by a package"
    mmd = fit(pairs, method="mmd")
    assert np.array_equal(policy.scenarios(pairs[0]), mmd.scenarios(pairs[0]))


def test_an_unknown_name_lists_what_is_installed(install):
    install("listed", start="Start")

    with pytest.raises(csg.DataError, match="give one of .*'direct', 'start'"):
        read_method("magic")
    with pytest.raises(csg.DataError, match="did you mean 'start'"):
        read_method("strat")


def test_the_methods_of_the_package_come_first(install):
    install("replaces", mmd="Start")

    assert read_method("mmd") == csg.methods.MMD()


def test_a_plugin_takes_no_regularization(install):
    install("lambda_package", start="Start")

    with pytest.raises(csg.DataError, match="method 'start' takes none"):
        read_method("start", 0.1)


def test_one_name_of_two_packages_is_refused(install):
    install("first_package", start="Start")
    install("second_package", start="Start")

    with pytest.raises(csg.DataError, match="uninstall all packages but one"):
        read_method("start")


BAD = {
    "Missing": "cannot be loaded (AttributeError",
    "Fails": "cannot be loaded (RuntimeError: no key found)",
    "number": "method is 3",
}


@pytest.mark.parametrize("place", BAD)
def test_a_plugin_that_is_no_method_is_named(install, place):
    install(f"bad_{place.lower()}", broken=place)

    with pytest.raises(csg.DataError) as caught:
        read_method("broken")

    assert BAD[place] in str(caught.value)

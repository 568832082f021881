"""Policies in files: the same after a trip to another process, refused when off."""

import os
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
import safetensors.torch
import torch
from torch import nn

import pyomo_csg as csg
from models import cep1, cvar_portfolio, newsvendor
from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.networks.task_nets import Constant, LocationScaleHead
from pyomo_csg.policy.policy import Policy
from pyomo_csg.policy.policy_file import _POLICY, load
from tests.reliability import forged_files
from tests.test_policy import learned_for, machines, papers, portfolio

CASES = {
    "newsvendor": (newsvendor.build, papers, (2,)),
    "cep1": (cep1.build, machines, (4,)),
    "cvar_portfolio": (cvar_portfolio.build, portfolio, (6, 4)),
}


class Own(nn.Module):
    """A user's own body: from two numbers to (K, 1)."""

    def __init__(self, k=3):
        super().__init__()
        self.layer = nn.Linear(2, k).double()

    def forward(self, x):
        return self.layer(x)[..., None]


class Line(nn.Module):
    """A user's own location or scale."""

    def __init__(self, value=0.0):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value, dtype=torch.float64))

    def forward(self, x):
        return self.value + 15 + x[:, :1]


@pytest.fixture
def saved(tmp_path):
    """Return a policy for CEP1 and its file."""
    policy = Policy(cep1.build(), machines(names=("a", "b", "c", "d")))
    path = tmp_path / "policy.csg"
    policy.save(path)
    return policy, path


def refusal(path, model=None, **options):
    """Return the text with which a file is refused, which names it."""
    with pytest.raises(csg.DataError) as error:
        load(path, cep1.build() if model is None else model, **options)
    assert f"'{path}'" in str(error.value)
    return str(error.value)


def forge(path, change=None, arrays=None):
    """Change what a file says or holds, and give it the right checksum."""
    stored, found = forged_files.parse(path)
    if change is not None:
        change(stored)
    path.write_bytes(forged_files.forge(_POLICY, stored, {**found, **(arrays or {})}))


def test_a_fresh_process_generates_the_same_scenarios_to_the_last_bit(tmp_path):
    policies, contexts = {}, {}
    for name, (build, learn, shape) in CASES.items():
        policies[name] = Policy(build(), learn())
        policies[name].save(tmp_path / f"{name}.csg")
        contexts[name] = np.random.default_rng(4).normal(size=(5, *shape))
    np.savez(tmp_path / "contexts.npz", **contexts)
    script = """
        import importlib
        import numpy as np
        import torch
        from pyomo_csg.policy.policy_file import load

        torch.set_num_threads(1)
        found = {}
        for name, x in np.load("contexts.npz").items():
            model = importlib.import_module(f"models.{name}").build()
            policy = load(f"{name}.csg", model)
            found[f"{name} many"] = policy.scenarios(x)
            found[f"{name} one"] = policy.scenarios(x[0])
            found[f"{name} weights"] = policy.weights(x)
            found[f"{name} value"] = policy.decide(x[0]).value
        np.savez("found.npz", **found)
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        check=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"},
    )
    found = np.load(tmp_path / "found.npz")
    assert len(found) == 12
    for name, policy in policies.items():
        x = contexts[name]
        for key, here in (
            ("many", policy.scenarios(x)),
            ("one", policy.scenarios(x[0])),
            ("weights", policy.weights(x)),
        ):
            np.testing.assert_array_equal(found[f"{name} {key}"], here, strict=True)
        value = policy.decide(x[0]).value
        assert float(found[f"{name} value"]) == pytest.approx(value, rel=1e-12)


def test_all_that_a_policy_tells_comes_back(saved):
    policy, path = saved
    again = load(path, cep1.build(), workers=2)
    assert again.report() == policy.report() and repr(again) == repr(policy)
    pd.testing.assert_frame_equal(again.history, policy.history)
    assert again.learned.context_names == ("a", "b", "c", "d")
    assert again.learned.reach == policy.learned.reach
    assert again.learned.summary == policy.learned.summary
    again.save(path)
    assert load(path, cep1.build()).report() == policy.report()


def test_the_same_policy_gives_the_same_bytes(saved, tmp_path):
    policy, path = saved
    other = tmp_path / "other.csg"
    policy.save(other)
    assert other.read_bytes() == path.read_bytes()


def test_numpy_numbers_and_odd_objects_in_what_is_told_are_taken(tmp_path):
    learned = papers()
    log = pd.DataFrame(
        {"stage": ["a", "b", "c"], "loss": [1.5, np.nan, np.inf], "step": [1, 2, 3]}
    )
    learned.summary.update(
        settings={"kernel": len, "grid": np.arange(2), "rate": np.float64(0.1)}
    )
    policy = Policy(
        newsvendor.build(), FitResult(*list(vars(learned).values())[:3], log)
    )
    policy.save(tmp_path / "policy.csg")
    again = load(tmp_path / "policy.csg", newsvendor.build())
    settings = again.learned.summary["settings"]
    assert settings["grid"] == [0, 1] and settings["rate"] == 0.1
    assert "len" in settings["kernel"]
    pd.testing.assert_frame_equal(again.history, log)


def test_a_long_history_is_thinned_to_its_last_row(tmp_path):
    learned = papers()
    log = pd.DataFrame({"step": range(9001), "loss": np.linspace(1, 0, 9001)})
    policy = Policy(newsvendor.build(), FitResult(learned.generator, "mmd", {}, log))
    policy.save(tmp_path / "policy.csg")
    kept = load(tmp_path / "policy.csg", newsvendor.build()).history
    assert 1000 < len(kept) <= 2000
    assert kept["step"].iloc[-1] == 9000 and kept["step"].is_monotonic_increasing
    assert (kept["step"].diff().dropna() == 5).all()


def test_saving_replaces_a_file_and_leaves_nothing_beside_it(saved, tmp_path):
    policy, path = saved
    path.write_bytes(b"something older")
    policy.save(str(path))
    assert os.listdir(tmp_path) == ["policy.csg"]
    load(path, cep1.build())
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_what_cannot_be_written_leaves_the_old_file_as_it_was(saved, tmp_path):
    policy, path = saved
    before = path.read_bytes()

    class Odd(Constant):
        def get_extra_state(self):
            return {"not": "a tensor"}

        def set_extra_state(self, state):
            pass

    odd = learned_for(newsvendor.build(), lambda: Odd((2, 1)), [[14.0], [16]])
    with pytest.raises(csg.DataError, match="_extra_state"):
        Policy(newsvendor.build(), odd).save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["policy.csg"]
    with pytest.raises(csg.DataError, match="no folder"):
        policy.save(tmp_path / "nowhere" / "policy.csg")
    with pytest.raises(csg.DataError, match="it is a folder"):
        policy.save(tmp_path)


def test_a_missing_file_and_files_of_other_kinds_are_refused(tmp_path):
    assert "no such file" in refusal(tmp_path / "none.csg")
    assert "no such file" in refusal(tmp_path)
    other = tmp_path / "other"
    for data in (b"", b"PK\x03\x04", b"\xff" * 5000, os.urandom(5000)):
        other.write_bytes(data)
        assert "not a pyomo_csg policy file" in refusal(other)
    safetensors.torch.save_file({"weight": torch.zeros(3)}, other)
    assert "not a pyomo_csg policy file" in refusal(other)
    torch.save({"weight": torch.zeros(3)}, other)
    assert "not a pyomo_csg policy file" in refusal(other)


def test_a_file_cut_short_anywhere_is_refused(saved):
    _, path = saved
    whole = path.read_bytes()
    for size in np.linspace(0, len(whole) - 1, 40, dtype=int):
        path.write_bytes(whole[:size])
        assert "is damaged" in refusal(path) or size < 40
    path.write_bytes(whole + b"more")
    assert "is damaged" in refusal(path)


def test_a_byte_changed_anywhere_is_found(saved):
    _, path = saved
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    size = int.from_bytes(whole[:8], "little")
    padding = len(whole[8 : 8 + size]) - len(whole[8 : 8 + size].rstrip())
    for place in [*range(60), *rng.integers(8, len(whole), 150)]:
        if 8 + size - padding <= place < 8 + size:
            continue
        data = bytearray(whole)
        data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        refusal(path)


def test_a_later_format_asks_for_a_newer_package(saved):
    _, path = saved
    forge(path, lambda header: header.update(version=2))
    assert "reads up to 1; install a newer pyomo_csg" in refusal(path)


def test_another_model_is_refused_with_the_names_that_differ(saved):
    _, path = saved
    text = refusal(path, newsvendor.build())
    assert "belongs to another model than 'newsvendor'" in text
    assert "uncertain Params in the file but not in the model: 'demand[1]'" in text
    assert "first-stage variables in the model but not in the file: 'order'" in text
    model = cep1.build()
    csg.annotate(
        model,
        first_stage_variables=[model.operated, model.added],
        uncertain_params=[model.demand[2], model.demand[1], model.demand[3]],
    )
    text = refusal(path, model)
    assert "uncertain Params are in another order; annotate them as 'demand[1]'" in text
    assert "first-stage variables are in another order" in text


def papers_within(domain):
    """Return the newsvendor with its demand in a domain."""
    model = newsvendor.build()
    model.demand.domain = domain
    return model


@pytest.fixture
def save_within(tmp_path):
    """Return what fits two scenarios to a demand in a domain and gives their file."""

    def save(domain):
        model = papers_within(domain)
        learned = learned_for(model, lambda: Constant((2, 1)), [[14.0], [16]])
        Policy(model, learned).save(tmp_path / "policy.csg")
        return tmp_path / "policy.csg"

    return save


@pytest.mark.parametrize(
    ("file", "model", "expected"),
    [
        (pyo.Reals, pyo.NonNegativeReals, "NonNegativeReals here, [0, inf], but"),
        (pyo.Reals, pyo.RangeSet(0, 20, 0), "[0, 20], but"),
        (pyo.NonNegativeReals, pyo.PositiveReals, "anywhere in [0, inf]; declare"),
    ],
)
def test_a_model_of_narrower_domains_is_refused(save_within, file, model, expected):
    text = " ".join(refusal(save_within(file), papers_within(model)).split())

    assert "belongs to another model than 'newsvendor'" in text
    assert "uncertain Param 'demand' is within" in text and expected in text
    assert "or fit again" in text


@pytest.mark.parametrize("domain", [pyo.NonNegativeReals, pyo.PositiveReals, pyo.Reals])
def test_a_model_of_the_same_or_wider_domains_is_taken(save_within, domain):
    path = save_within(domain)

    for model in (papers_within(domain), papers_within(pyo.Reals)):
        assert load(path, model).decide([0.0, 0.0])["order"] > 0


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("99.0", True),
        ("0.1.0", False),
        ("0.0.9", False),
        ("soon", False),
        (None, False),
    ],
)
def test_a_file_of_a_newer_package_is_taken_with_a_warning(
    saved, caplog, version, expected
):
    _, path = saved
    forge(path, lambda header: header["header"].update(versions={"pyomo-csg": version}))

    load(path, cep1.build())

    assert ("was written by pyomo-csg 99.0, but this is" in caplog.text) == expected


def test_a_model_with_other_data_is_taken(saved):
    policy, path = saved
    model = cep1.build()
    for j in model.machines:
        model.operated[j].setub(100.0)
    x = np.zeros(4)
    decision = load(path, model).decide(x)
    np.testing.assert_array_equal(decision.scenarios, policy.scenarios(x))
    assert decision.value > policy.decide(x).value


@pytest.mark.parametrize(
    ("place", "value", "found"),
    [
        (("scenarios",), 4, "generates 5 scenarios, not 4"),
        (("scenarios",), "5", "no valid 'scenarios'"),
        (("method",), None, "no valid 'method'"),
        (("context_shape",), [10**9, 4], "not plausible"),
        (("context_shape",), [3], "not 3 different names"),
        (("context_shape",), [-4], "not plausible"),
        (("context_shape",), [], "not plausible"),
        (("context_shape",), [3, True], "not plausible"),
        (("history",), {}, "is damaged"),
        (("history",), {"rows": [[1, 2]], "columns": ["a"]}, "is damaged"),
        (("generator",), {}, "is damaged"),
        (("generator", "body"), None, "is damaged"),
        (("generator", "body", "settings", "hidden"), [8, 9], "takes float64"),
        (("generator", "body", "settings", "hidden"), [2**30] * 9, "no numbers for"),
        (("generator", "numbers"), 2**30, "takes float64"),
        (("generator", "contexts"), 5, "takes float64"),
        (("uncertain_params",), [[1]], "are not all text"),
    ],
)
def test_a_sound_file_with_absurd_content_is_refused(saved, place, value, found):
    _, path = saved

    def change(header):
        inner = header["header"]
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value

    forge(path, change)
    assert found in refusal(path)


@pytest.mark.parametrize("content", [None, [], "text", 3])
def test_content_that_is_no_object_is_refused(saved, content):
    _, path = saved
    forge(path, lambda header: header.update(header=content))
    assert "is damaged" in refusal(path)


def test_a_header_that_claims_to_be_huge_is_not_read(saved):
    _, path = saved
    whole = path.read_bytes()
    for size in (2**24 + 1, 2**40, 2**63):
        path.write_bytes(size.to_bytes(8, "little") + whole[8:])
        assert f"its header claims to take {size} bytes" in refusal(path)


def test_tensors_of_other_shapes_are_refused(saved):
    _, path = saved
    forge(path, arrays={"center": np.zeros(7)})
    assert "'center' is float64 (7,); the network takes float64 (4,)" in refusal(path)


def test_a_users_own_network_must_be_given(tmp_path):
    path = tmp_path / "policy.csg"
    policy = Policy(
        newsvendor.build(), learned_for(newsvendor.build(), Own, [[14.0], [16]])
    )
    policy.save(path)
    model = newsvendor.build()
    assert "{'body': a Own}" in refusal(path, model)
    assert "takes float64 (4, 2)" in refusal(path, model, network=Own(4))
    assert "no numbers for" in refusal(path, model, network=nn.Linear(2, 3))
    module = Own()
    again = load(path, model, network=module)
    x = np.array([0.3, -0.2])
    np.testing.assert_array_equal(again.scenarios(x), policy.scenarios(x))
    assert not torch.equal(again.network.body.layer.weight, module.layer.weight)


def test_several_modules_of_the_users_own_are_given_by_the_part_they_are(tmp_path):
    path = tmp_path / "policy.csg"
    learned = learned_for(
        newsvendor.build(),
        lambda: Constant((2, 1)),
        [[14.0], [16]],
        head=lambda omega: LocationScaleHead(Line(0.5), Line(-13.0), omega),
    )
    policy = Policy(newsvendor.build(), learned)
    policy.save(path)
    model = newsvendor.build()
    assert "{'location': a Line, 'scale': a Line}" in refusal(
        path, model, network=Line()
    )
    again = load(path, model, network={"location": Line(), "scale": Line()})
    x = np.array([0.3, -0.2])
    np.testing.assert_array_equal(again.scenarios(x), policy.scenarios(x))


def test_a_network_that_is_not_asked_for_is_refused(saved):
    _, path = saved
    assert "leave out network=" in refusal(path, network=Own())


def test_a_model_that_is_not_annotated_is_refused_as_everywhere(saved):
    with pytest.raises(csg.ModelError, match="annotate"):
        load(saved[1], pyo.ConcreteModel("bare"))

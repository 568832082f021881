"""The application: its decisions are the policy's, and it refuses in the library's words."""

import os
import threading
import time

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import cep1, unit_commitment
from pyomo_csg.cli.commands import _days
from pyomo_csg.interop.model_files import load_model
from pyomo_csg.serve import policy_store
from pyomo_csg.serve.settings import SETTINGS, TOKEN, ServeSettings
from tests.quick import fit
from tests.serve.conftest import as_json


def test_decisions_are_the_policys(client, folder, rows):
    policy = csg.load(folder / "policy.csg", load_model(folder / "model.py"))
    serve = client()
    one = serve.post("/decide", json=as_json(rows)[0]).json()
    expected = policy.decide(as_json(rows)[0])
    assert one == {
        "decision": {"order": pytest.approx(expected["order"])},
        "value": pytest.approx(expected.value),
        "status": "optimal",
    }
    many = serve.post("/decide", json=as_json(rows)).json()["decisions"]
    orders = policy.decide(rows)["order"]
    assert [row["order"] for row in many] == pytest.approx(orders.tolist())


def test_bad_rows_are_refused_in_the_words_of_the_library(client, folder, rows):
    policy = csg.load(folder / "policy.csg", load_model(folder / "model.py"))
    serve, row = client(), as_json(rows)[0]
    for bad in ({**row, "rain": None}, {**row, "rain": "wet"}, {"rain": 1.0}):
        with pytest.raises(csg.DataError) as error:
            policy.decide(bad)
        answer = serve.post("/decide", json=bad)
        assert answer.status_code == 422
        assert answer.json() == {
            "error": error.value.subject,
            "problems": list(error.value.problems),
        }
    for body, words in (
        ("{", "the body is not JSON"),
        ('{"rain": NaN, "temperature": 1}', "NaN is not a number of JSON"),
        ("3", "int was sent; send an object, or a list of rows"),
        ("[]", "list was sent"),
        ('[{"rain": 1}, [2]]', "neither all objects nor arrays"),
    ):
        answer = serve.post("/decide", content=body)
        assert answer.status_code == 422, body
        assert words in answer.json()["problems"][0]


def test_a_row_without_a_decision_is_422(client, folder, rows):
    model = (folder / "model.py").read_text()
    need = "m.need = pyo.Constraint(expr=m.order >= 500 * m.demand)"
    (folder / "model.py").write_text(model.replace("m.stock", f"{need}\n    m.stock"))
    answer = client().post("/decide", json=as_json(rows))
    assert answer.status_code == 422
    assert answer.json()["error"] == "There is no decision"
    assert "row 0: infeasible" in answer.json()["problems"][0]


def test_sizes_are_limited(client, rows):
    small = client(max_bytes=200, max_rows=3)
    assert small.post("/decide", json=as_json(rows)[0]).status_code == 200
    answer = small.post("/decide", json=as_json(rows))
    assert answer.status_code == 413 and "200 bytes" in answer.json()["error"]
    chunks = (b" " for _ in range(300))  # without a content-length
    assert small.post("/decide", content=chunks).status_code == 413
    many = client(max_rows=3).post("/decide", json=as_json(rows))
    assert many.status_code == 413 and "6 rows" in many.json()["error"]


def test_a_token_is_required_if_there_is_one(client, rows, monkeypatch):
    monkeypatch.setenv(TOKEN, "a secret of some length")
    serve = client()
    row = as_json(rows)[0]
    assert serve.get("/health").status_code == 200
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic x"},
    ):
        answer = serve.post("/decide", json=row, headers=headers)
        assert answer.status_code == 401
        assert serve.get("/metrics", headers=headers).status_code == 401
        assert serve.get("/docs", headers=headers).status_code == 401
    right = {"Authorization": "Bearer a secret of some length"}
    assert serve.post("/decide", json=row, headers=right).status_code == 200


def test_other_machines_need_a_token(monkeypatch):
    settings = ServeSettings("policy.csg", "model.py", host="0.0.0.0")
    with pytest.raises(csg.DataError, match="there is no API token"):
        settings.check()
    monkeypatch.setenv(TOKEN, "short")
    with pytest.raises(csg.DataError, match="shorter than 16"):
        settings.check()
    monkeypatch.setenv(TOKEN, "x" * 16)
    settings.check()
    with pytest.raises(csg.DataError, match="port is 0"):
        ServeSettings("policy.csg", "model.py", port=0).check()


def test_settings_reach_the_workers(monkeypatch):
    monkeypatch.setenv(SETTINGS, "")
    settings = ServeSettings("p", "m", first_stage=("a", "b"), options={"threads": 1})
    settings.to_environment()
    assert ServeSettings.from_environment() == settings
    monkeypatch.delenv(SETTINGS)
    with pytest.raises(csg.DataError, match="has no settings"):
        ServeSettings.from_environment()


def test_the_documentation_has_an_example_that_works(client):
    serve = client()
    described = serve.get("/openapi.json").json()
    body = described["paths"]["/decide"]["post"]["requestBody"]["content"]
    examples = body["application/json"]["examples"]
    one = serve.post("/decide", json=examples["one row"]["value"])
    assert one.status_code == 200 and set(one.json()["decision"]) == {"order"}
    many = serve.post("/decide", json=examples["many rows"]["value"])
    assert len(many.json()["decisions"]) == 2


def test_examples_have_texts_and_dates_where_the_policy_has(client, folder):
    days = _days(40, seed=1)
    days["weekday"] = ["Mon", "Tue", "Wed", "Thu"] * 10
    days["when"] = pd.date_range("2030-01-01", periods=40).astype(str)
    fit(days, load_model(folder / "model.py"), method="mmd").save(folder / "policy.csg")
    serve = client()
    content = serve.get("/openapi.json").json()["paths"]["/decide"]["post"]
    examples = content["requestBody"]["content"]["application/json"]["examples"]
    example = examples["one row"]["value"]
    assert example["weekday"] in ("Mon", "Tue", "Wed", "Thu")
    assert serve.post("/decide", json=example).status_code == 200


def test_health_report_and_metrics(client, rows):
    serve = client()
    health = serve.get("/health").json()
    assert health["status"] == "ok" and health["worker"] == os.getpid()
    assert len(health["data"]) == 64 and health["made"].endswith("Z")
    assert "<h1>Policy for" in serve.get("/report").text
    serve.post("/decide", json=as_json(rows))
    serve.post("/decide", json={})
    text = serve.get("/metrics").text
    label = f'worker="{os.getpid()}"'
    assert f"csg_decisions_total{{{label}}} 6" in text
    assert f'csg_requests_total{{{label},path="/decide",status="200"}} 1' in text
    assert f'csg_requests_total{{{label},path="/decide",status="422"}} 1' in text
    assert f"csg_decide_seconds_count{{{label}}} 1" in text
    for line in text.splitlines():  # the format of Prometheus
        assert line.startswith("# TYPE ") or float(line.rpartition(" ")[2]) >= 0
    assert serve.get("/nowhere").status_code == 404


def test_a_new_file_is_loaded_without_dropping_a_request(
    client, folder, rows, monkeypatch
):
    monkeypatch.setattr(policy_store, "_CHECK_SECONDS", 0.0)
    serve, row = client(), as_json(rows)[0]
    before = serve.post("/decide", json=row).json()["decision"]["order"]
    model = load_model(folder / "model.py")
    newer = fit(_days(40, seed=1).assign(demand=lambda t: 3 * t["demand"]), model)
    newer.save(folder / "policy.csg")
    expected = newer.decide(row)["order"]
    seen = []
    until = time.monotonic() + 30
    while time.monotonic() < until:
        answer = serve.post("/decide", json=row)
        assert answer.status_code == 200
        seen.append(answer.json()["decision"]["order"])
        if seen[-1] == pytest.approx(expected):
            break
    assert seen[0] == pytest.approx(before) and seen[-1] == pytest.approx(expected)


def test_a_damaged_file_leaves_the_old_policy(client, folder, rows, monkeypatch):
    monkeypatch.setattr(policy_store, "_CHECK_SECONDS", 0.0)
    serve, row = client(), as_json(rows)[0]
    before = serve.post("/decide", json=row).json()
    (folder / "policy.csg").write_bytes(b"damaged")
    until = time.monotonic() + 30
    while serve.get("/health").json()["status"] == "ok":
        assert time.monotonic() < until
        time.sleep(0.01)
    assert "not a pyomo_csg policy file" in serve.get("/health").json()["problem"]
    assert serve.post("/decide", json=row).json() == before
    (folder / "policy.csg").unlink()
    assert serve.post("/decide", json=row).json() == before


def test_many_clients_at_once_get_their_own_answers(client, rows):
    serve, wanted = client(), as_json(rows)
    expected = [serve.post("/decide", json=row).json()["decision"] for row in wanted]
    wrong = []

    def ask(i):
        for _ in range(10):
            found = serve.post("/decide", json=wanted[i]).json()["decision"]
            if not np.isclose(found["order"], expected[i]["order"]):
                wrong.append(i)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("module", [cep1, unit_commitment], ids=["cep1", "units"])
def test_arrays_and_integers(client, folder, module, monkeypatch):
    (folder / "model.py").write_text(
        f"from models.{module.__name__[7:]} import build\n"
    )
    data = module.sample(20, 1)
    model = module.build(("gas", "turbine"), 4) if module is unit_commitment else None
    if model is not None:
        data = data[0], data[1][:, :4]
        (folder / "model.py").write_text(
            "from models import unit_commitment\n"
            "def build():\n    return unit_commitment.build(('gas', 'turbine'), 4)\n"
        )
    fit(data, model or module.build(), method="mmd").save(folder / "policy.csg")
    serve = client()
    found = serve.post("/decide", json=data[0][0].tolist())
    assert found.status_code == 200
    if model is not None:
        assert (
            '"unit[gas].on[1]": 1' in found.text or '"unit[gas].on[1]": 0' in found.text
        )
        assert all(isinstance(x, int) for x in found.json()["decision"].values())
    assert (
        len(serve.post("/decide", json=data[0][:3].tolist()).json()["decisions"]) == 3
    )

"""The server as users start it: worker processes, and one of them killed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from models import cep1
from tests.benchmarks.serving import Client, Server, save_policy

pytest.importorskip("uvicorn")
REQUESTS = 40
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="kills by signals")


@POSIX
def test_no_request_is_lost_when_a_worker_is_killed(tmp_path):
    policy = save_policy(tmp_path)
    contexts, _ = cep1.sample(5, seed=2)
    rows = [json.dumps(x.tolist()) for x in contexts]
    with Server(tmp_path) as server:
        first = server.workers()
        client = Client(server.port, rows, most=REQUESTS)
        client.start()
        while len(client.answers) < REQUESTS / 4:
            time.sleep(0.01)
        os.kill(min(first), signal.SIGKILL)
        client.join()
        later = server.workers()
    assert client.lost == 0 and len(client.answers) == REQUESTS
    for i, body in client.answers:
        value = policy.decide(contexts[i % 5]).value
        assert json.loads(body)["value"] == pytest.approx(value)
    assert later and min(first) not in later


def test_a_server_that_cannot_start_says_why(tmp_path):
    save_policy(tmp_path)
    command = [sys.executable, "-m", "pyomo_csg", "serve", str(tmp_path / "policy.csg")]
    run = subprocess.run(
        [*command, "--host", "0.0.0.0"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 1 and "there is no API token" in run.stderr

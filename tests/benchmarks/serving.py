"""A load test of the server on this machine, bounded: CEP1 with K = 5, two workers.

Clients keep their connections and send one row at a time. Once, a worker is killed: its
clients connect again and repeat their request, and every request gets its answer.

Run: python -m tests.benchmarks.serving [seconds]
"""

import http.client
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import pyomo_csg as csg
from models import cep1

WORKERS, CLIENTS, SECONDS, ROWS = 2, 4, 5.0, 200
MOST_SECONDS, RETRIES = 30.0, 500


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """A server process of a policy, for as long as the context is open."""

    def __init__(self, folder, workers=WORKERS):
        self.port = free_port()
        command = [
            *(sys.executable, "-m", "pyomo_csg", "serve", str(folder / "policy.csg")),
            *("--port", str(self.port), "--workers", str(workers)),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        self._process = subprocess.Popen(command, env=environment)

    def __enter__(self):
        until = time.monotonic() + 240
        while time.monotonic() < until:
            try:
                self.get("/health")
                return self
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("the server did not start")

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(30)

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse().read()
        connection.close()
        return answer

    def workers(self):
        """Return the process numbers of some workers."""
        return {json.loads(self.get("/health"))["worker"] for _ in range(20)}


class Client(threading.Thread):
    """Sends rows one after the other until the time is up; repeats what was not answered."""

    def __init__(self, port, rows, until=math.inf, most=math.inf):
        super().__init__()
        self._port, self._rows, self._until, self._most = port, rows, until, most
        self.seconds, self.answers, self.repeated, self.lost = [], [], 0, 0

    def run(self):
        connection, i = None, 0
        while time.monotonic() < self._until and i < self._most:
            row, i = self._rows[i % len(self._rows)], i + 1
            start = time.perf_counter()
            for _ in range(RETRIES):
                try:
                    connection = connection or self._connect()
                    connection.request("POST", "/decide", row)
                    answer = connection.getresponse()
                    body = answer.read()
                    break
                except (OSError, http.client.HTTPException):
                    connection = None
                    self.repeated += 1
                    time.sleep(0.02)
            else:
                self.lost += 1
                continue
            self.lost += answer.status != 200
            self.seconds.append(time.perf_counter() - start)
            self.answers.append((i - 1, body))

    def _connect(self):
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)


def save_policy(folder):
    """Write a policy for CEP1 with five scenarios, and its model's file."""
    data = cep1.sample(100, seed=1)
    options = {"scenarios": 5, "method": "mmd", "progress": False}
    policy = csg.fit(cep1.build(), data, **options)
    policy.save(folder / "policy.csg")
    (folder / "model.py").write_text("from models.cep1 import build\n")
    return policy


def cpu_seconds(workers):
    """Return the CPU seconds of processes so far, on Linux; those that ended have none."""
    ticks = 0
    for worker in workers:
        try:
            fields = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def run_load(server, rows, seconds, kills=False):
    """Return the clients after the load, during which a worker may be killed."""
    until = time.monotonic() + min(seconds, MOST_SECONDS)
    clients = [Client(server.port, rows, until) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    if kills:
        time.sleep(seconds / 3)
        os.kill(min(server.workers()), signal.SIGKILL)
    for client in clients:
        client.join()
    return clients


def describe(name, clients, seconds):
    """Print decisions a second, percentiles of their times, and what was lost."""
    times = np.sort(np.concatenate([client.seconds for client in clients]))
    p50, p99 = 1000 * np.quantile(times, [0.5, 0.99])
    print(
        f"{name}: {len(times) / seconds:.0f} decisions a second, median {p50:.1f} ms, "
        f"p99 {p99:.1f} ms; {sum(c.repeated for c in clients)} repeated, "
        f"{sum(c.lost for c in clients)} lost"
    )


def main(seconds=SECONDS):
    """Load a server, and once more while a worker is killed."""
    contexts, _ = cep1.sample(ROWS, seed=2)
    rows = [json.dumps(x.tolist()) for x in contexts]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        policy = save_policy(folder)
        expected = [policy.decide(x).value for x in contexts]
        with Server(folder) as server:
            run_load(server, rows, 1.0)  # warm
            workers, before = server.workers(), cpu_seconds(server.workers())
            counted = sum(len(c.answers) for c in run_load(server, rows, seconds))
            used = 1000 * (cpu_seconds(workers) - before) / counted
            print(f"{used:.2f} ms of CPU a decision in {len(workers)} workers")
            for what, kills in (("load", False), ("a worker killed", True)):
                clients = run_load(server, rows, seconds, kills)
                describe(what, clients, seconds)
                for i, body in (one for c in clients for one in c.answers):
                    value = json.loads(body)["value"]
                    assert np.isclose(value, expected[i % ROWS]), (i, value)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))

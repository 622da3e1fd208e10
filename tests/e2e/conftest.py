"""The real stack for the end-to-end tests: `roost up` on free ports in a folder of its own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest
import redis as redis_client

ROOST = os.environ.get("ROOST_BIN", str(Path(__file__).resolve().parents[2] / "build/release/roost"))
MODEL = os.environ.get("ROOST_TEST_MODEL", "")
START_S = 180
STOP_S = 60


def wait_for(what, condition, timeout=30.0, interval=0.02):
    """Polls until `condition` gives something true and returns it; fails by name after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout} s for: {what}")
        time.sleep(interval)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_roost(*arguments, env=None, cwd=None, timeout=60):
    """Runs a roost command that ends by itself."""
    return subprocess.run(
        [ROOST, *arguments], env={**os.environ, **(env or {})}, cwd=cwd, capture_output=True, text=True, timeout=timeout
    )


class Stack:
    """A running `roost up`."""

    def __init__(self, folder, arguments=(), env=None):
        self.folder = Path(folder)
        self.output_path = self.folder / "output.txt"
        self.state = self.folder / "state"
        command = [
            ROOST, "up", "--model", MODEL, "--state-dir", str(self.state), "--port", "0", "--admin-port", "0",
            "--engine-port", "0", "--relay-port", "0", "--exec-addr", "127.0.0.1:0", "--parallel", "8",
            "--ctx-size", "16384", *arguments,
        ]
        with open(self.output_path, "w") as out:
            self.process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, **(env or {})}, stdout=out, stderr=subprocess.STDOUT
            )
        wait_for("roost up to be ready:\n" + self.output(), self._ready, START_S)
        self.addresses = json.loads((self.state / "addresses.json").read_text())
        self.host = self.addresses["host"]
        self.engine = self.addresses["engine"]
        self.admin = self.addresses["admin"]

    def _ready(self):
        if self.process.poll() is not None:
            pytest.fail(f"roost up ended with {self.process.returncode}:\n{self.output()}")
        return (self.state / "addresses.json").exists()

    def output(self):
        return self.output_path.read_text()

    def redis(self):
        return redis_client.Redis(unix_socket_path=self.addresses["redis"].removeprefix("unix://"))

    def workers(self):
        return httpx.get(self.admin + "/metrics?format=json").json()["workers"]

    def worker_pids(self):
        return [w["pid"] for w in self.workers() if w["healthy"]]

    def slots(self):
        return httpx.get(self.engine + "/slots").json()

    def pools(self):
        return httpx.get(self.engine + "/polykv/pools").json()

    def kv(self):
        return httpx.get(self.engine + "/kv").json()

    def turn(self, timeout=120, **body):
        headers = {"X-SH-Session-Id": body["sessionId"]} if "sessionId" in body else {}
        return httpx.post(self.host + "/v1/turn", json=body, headers=headers, timeout=timeout)

    def stop(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        return self.process.returncode


@contextlib.contextmanager
def running_stack(folder, *arguments, env=None):
    stack = Stack(folder, arguments, env)
    try:
        yield stack
    finally:
        stack.stop()


class Engine:
    """A `roost engine` alone."""

    def __init__(self, folder, *arguments, env=None, model=None):
        self.log_path = Path(folder) / f"engine-{time.monotonic_ns()}.log"
        command = [ROOST, "engine", "--model", model or MODEL, "--port", "0", *arguments]
        with open(self.log_path, "w") as out:
            self.process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, **(env or {})}, stdout=out, stderr=subprocess.STDOUT
            )
        event = wait_for("the engine to be ready", self._ready, START_S)
        self.url = f"http://127.0.0.1:{event['port']}"

    def _ready(self):
        if self.process.poll() is not None:
            pytest.fail(f"roost engine ended with {self.process.returncode}:\n{self.log_path.read_text()}")
        for line in self.log_path.read_text().splitlines():
            if line.startswith("{") and '"engine ready"' in line:
                return json.loads(line)
        return None

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(STOP_S)
        return self.process.returncode


@contextlib.contextmanager
def running_engine(folder, *arguments, **kwargs):
    engine = Engine(folder, *arguments, **kwargs)
    try:
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    """One stack for all tests that leave it as they found it. Its clean end is checked too."""
    running = Stack(tmp_path_factory.mktemp("stack"), ["--workers", "2", "--turns-per-worker", "8"])
    yield running
    assert running.stop() == 0, running.output()

"""`roost up`: what it prints, what it leaves, how it restarts a part, how it ends."""

import os
import signal
import subprocess

import httpx
import psutil

from conftest import MODEL, ROOST, running_stack, run_roost, wait_for


def children_named(stack, part):
    return [p for p in psutil.Process(stack.process.pid).children() if part in command_of(p)[:2]]


def command_of(process):
    try:
        return process.cmdline()
    except psutil.Error:  # it ended meanwhile
        return []


def test_it_says_where_everything_is_and_writes_commented_settings(stack):
    text = stack.output()
    for address in (stack.host, stack.engine, stack.admin):
        assert address in text
    settings = (stack.folder / "roost.toml").read_text()
    assert "[engine]" in settings and "\nturns_per_worker = 8" in settings and "\nparallel = 8" in settings
    assert "\n# max_gap_ms = 200" in settings, "what was not given stands there commented, with its default"
    shown = run_roost("config", "up", cwd=stack.folder, env={"SH_WORKERS": "7"}).stdout
    assert "host.workers" in shown and "environment SH_WORKERS" in shown


def test_a_crashed_part_is_started_again_and_work_goes_on(tmp_path):
    with running_stack(tmp_path, "--workers", "1", "--turns-per-worker", "4") as stack:
        assert stack.turn(prompt="One.", sessionId="crash", maxTokens=4, temperature=0, tools=[]).status_code == 200
        for part in ("engine", "relay", "sandbox"):
            children_named(stack, part)[0].send_signal(signal.SIGKILL)
            wait_for(f"{part} to be started again", lambda: children_named(stack, part) and f"{part}" in stack.output()
                     and "starting it again" in stack.output())
        wait_for("the engine to answer", lambda: _ok(stack.engine + "/health"), timeout=60)
        answer = wait_for("a turn", lambda: _if_200(stack.turn(prompt="Two.", sessionId="crash", maxTokens=4, temperature=0, tools=[])),
                          timeout=60, interval=0.5)
        assert answer.json()["response"]
        # The sandbox is attached again too: a tool call runs.
        demo = wait_for("the demo to pass", lambda: _demo_ok(stack), timeout=90, interval=1)
        assert demo


def _demo_ok(stack):
    done = subprocess.run([ROOST, "demo", "--agents", "1", "--host-url", stack.host, "--engine-url", stack.engine],
                          capture_output=True, text=True, timeout=120)
    return done.returncode == 0


def _ok(url):
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def _if_200(answer):
    return answer if answer.status_code == 200 else None


def test_redis_restarted_in_the_middle_loses_nothing(tmp_path):
    with running_stack(tmp_path, "--workers", "1", "--turns-per-worker", "4") as stack:
        first = stack.turn(prompt="Remember heron.", sessionId="kept", maxTokens=4, temperature=0, tools=[])
        assert first.status_code == 200
        redis = [p for p in psutil.Process(stack.process.pid).children() if "redis-server" in p.name()][0]
        redis.terminate()
        wait_for("Redis to be started again", lambda: "starting it again" in stack.output())
        answer = wait_for("a turn again", lambda: _if_200(stack.turn(prompt="And?", sessionId="kept", maxTokens=4, temperature=0, tools=[])),
                          timeout=60, interval=0.5)
        assert answer.json()["usage"]["total"] > first.json()["usage"]["total"]


def test_ctrl_c_stops_everything_and_a_second_start_finds_the_sessions(tmp_path):
    with running_stack(tmp_path, "--workers", "1", "--turns-per-worker", "4") as stack:
        first = stack.turn(prompt="Remember heron.", sessionId="kept", maxTokens=4, temperature=0, tools=[]).json()
        started = psutil.Process(stack.process.pid).children(recursive=True)
        assert stack.stop(signal.SIGINT) == 0, stack.output()
        assert "stopped" in stack.output()
        gone, alive = psutil.wait_procs(started, timeout=5)
        assert not alive and not (stack.state / "addresses.json").exists()
    with running_stack(tmp_path, "--workers", "1", "--turns-per-worker", "4") as stack:
        again = stack.turn(prompt="And?", sessionId="kept", maxTokens=4, temperature=0, tools=[]).json()
        assert again["usage"]["total"] > first["usage"]["total"]


def test_killing_up_leaves_no_process_behind(tmp_path):
    with running_stack(tmp_path, "--workers", "1", "--turns-per-worker", "4") as stack:
        started = psutil.Process(stack.process.pid).children(recursive=True)
        os.kill(stack.process.pid, signal.SIGKILL)
        gone, alive = psutil.wait_procs(started, timeout=40)
        assert not alive


def test_make_runs_path_demo_once(tmp_path):
    """What `make run ONCE=1` starts."""
    done = subprocess.run(
        [ROOST, "up", "--model", MODEL, "--demo", "--once", "--port", "0", "--admin-port", "0", "--engine-port", "0", "--relay-port",
         "0", "--exec-addr", "127.0.0.1:0", "--ctx-size", "8192"],
        cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("ready:", "shared by 4 agents", "without sharing it would have been", "stopped"):
        assert words in done.stdout

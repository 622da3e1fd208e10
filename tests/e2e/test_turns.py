"""Turns through the host: sessions survive a killed worker, saturation is refused, streams are intact."""

import json
import os
import signal
import socket
import subprocess
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from conftest import MODEL, ROOST, free_port, running_stack, wait_for

LONG = {"prompt": "Count from one to five hundred in words.", "maxTokens": 1024, "temperature": 0, "tools": []}


def session(name):
    return f"{name}-{uuid.uuid4().hex[:8]}"


def sse_events(text):
    """[(event, data)] of a complete stream."""
    events = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":")
        )
        if "data" in fields:
            events.append((fields.get("event", "message"), json.loads(fields["data"])))
    return events


def test_a_turn_answers_as_json_and_as_a_stream(stack):
    sid = session("both")
    answer = stack.turn(prompt="Say hello.", sessionId=sid, maxTokens=16, temperature=0, tools=[])
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["sessionId"] == sid and body["response"] and body["stopReason"]
    assert body["usage"]["output"] > 0 and body["usage"]["total"] >= body["usage"]["input"]

    with httpx.stream("POST", stack.host + "/v1/turn", headers={"Accept": "text/event-stream"}, timeout=120,
                      json={"prompt": "Say it again.", "sessionId": sid, "maxTokens": 16, "temperature": 0, "tools": []}) as r:
        assert r.status_code == 200 and r.headers["content-type"].startswith("text/event-stream")
        events = sse_events(r.read().decode())
    assert events[0][0] == "turn" and events[0][1]["sessionId"] == sid
    assert events[-1][0] == "done" and events[-1][1]["usage"]["output"] > 0
    assert any(kind == "text" and data["delta"] for kind, data in events)


def test_a_session_knows_its_earlier_turns_on_any_worker(stack):
    sid = session("memory")
    first = stack.turn(prompt="Remember the word heron.", sessionId=sid, maxTokens=8, temperature=0, tools=[]).json()
    totals = []
    for _ in range(4):  # new connections: the host spreads them over the workers
        again = stack.turn(prompt="Go on.", sessionId=sid, maxTokens=8, temperature=0, tools=[]).json()
        totals.append(again["usage"]["total"])
    assert totals[0] > first["usage"]["total"]
    assert totals == sorted(totals), "each turn's context holds the ones before it"
    state = httpx.get(f"{stack.host}/v1/sessions/{sid}").json()
    assert state["turns"] == 5


def test_killing_a_worker_in_the_middle_of_a_turn_loses_no_finished_turn(tmp_path):
    with running_stack(tmp_path, "--workers", "2", "--turns-per-worker", "4", "--lease-s", "4") as stack:
        sid = session("killed")
        done = stack.turn(prompt="Remember the word heron.", sessionId=sid, maxTokens=8, temperature=0, tools=[])
        assert done.status_code == 200, done.text
        before = set(stack.worker_pids())
        assert len(before) == 2

        with httpx.stream("POST", stack.host + "/v1/turn", headers={"Accept": "text/event-stream"}, timeout=120,
                          json={**LONG, "sessionId": sid}) as r:
            pieces = r.iter_text()
            seen = ""
            while "event: text" not in seen:
                seen += next(pieces)
            busy = [w["pid"] for w in stack.workers() if w["inFlight"] > 0]
            assert len(busy) == 1
            os.kill(busy[0], signal.SIGKILL)
            with pytest.raises(httpx.TransportError):  # a cut stream, never a silent hang
                for _ in pieces:
                    pass

        # The lease of the dead turn must not lock the session for long; the answer says so while it does.
        def resumed():
            answer = stack.turn(prompt="Which word?", sessionId=sid, maxTokens=8, temperature=0, tools=[])
            assert answer.status_code in (200, 409), answer.text
            return answer if answer.status_code == 200 else None

        answer = wait_for("the session to be free again", resumed, timeout=60, interval=0.5)
        assert answer.json()["usage"]["total"] > done.json()["usage"]["total"]
        state = httpx.get(f"{stack.host}/v1/sessions/{sid}").json()
        assert state["turns"] >= 2
        wait_for("the worker to be started again", lambda: len(stack.worker_pids()) == 2)
        assert set(stack.worker_pids()) != before
        # And the engine has given up the dead turn's generation.
        wait_for("every slot idle", lambda: not any(s["is_processing"] for s in stack.slots()))


def test_at_saturation_a_turn_is_refused_before_the_hand_off_and_health_still_answers(tmp_path):
    with running_stack(tmp_path, "--workers", "1", "--turns-per-worker", "2") as stack:
        with ThreadPoolExecutor(8) as pool:
            running = [pool.submit(stack.turn, **{**LONG, "maxTokens": 120}, sessionId=session("full")) for _ in range(2)]
            wait_for("two turns in flight", lambda: sum(w["inFlight"] for w in stack.workers()) == 2)
            refused = stack.turn(prompt="Me too.", sessionId=session("late"))
            assert refused.status_code == 429
            assert refused.headers["retry-after"] == "1" and refused.headers["connection"] == "close"
            assert refused.json() == {"error": "overloaded"}
            for _ in range(5):
                assert httpx.get(stack.host + "/health").text.strip() == "ok"
            assert all(r.result().status_code == 200 for r in running)
        later = stack.turn(prompt="Now?", sessionId=session("later"), maxTokens=4, tools=[])
        assert later.status_code == 200
        counters = httpx.get(stack.admin + "/metrics?format=json").json()["counters"]
        assert counters["over_admission"] == 0 and counters["spurious_refusals"] == 0 and counters["refusals"] >= 1


def raw_turn(address, sid, pieces_of=None):
    """One streamed turn over a bare socket; returns the response's bytes after the head, decoded from their chunks."""
    host, port = address.removeprefix("http://").split(":")
    body = json.dumps({"prompt": "Tell me about the sea.", "sessionId": sid, "maxTokens": 24, "temperature": 0, "tools": []})
    request = (
        f"POST /v1/turn HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\nX-SH-Session-Id: {sid}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    ).encode()
    with socket.create_connection((host, int(port)), timeout=120) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(request), pieces_of or len(request)):
            s.sendall(request[at : at + (pieces_of or len(request))])
        data = b""
        while piece := s.recv(65536):
            data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    out = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        n = int(size, 16)
        out, rest = out + rest[:n], rest[n + 2 :]
        if n == 0:
            break
    return out.decode()


def without_ids_and_times(text):
    """What must be the same for the same turn: everything but ids and what was measured."""
    kept = []
    for kind, data in sse_events(text):
        for name in ("turnId", "sessionId", "engine", "sandbox"):
            data.pop(name, None)
        if isinstance(data.get("usage"), dict):
            data["usage"].pop("cacheRead", None)  # depends on what the engine still had cached
            data["usage"].pop("input", None)
        if kind != "model":  # live progress
            kept.append((kind, json.dumps(data, sort_keys=True)))
    return kept


def test_a_stream_survives_the_hand_off_byte_for_byte(stack, tmp_path):
    """The same turn through the host, in one piece and a few bytes at a time, and from a worker without a host."""
    port = free_port()
    env = dict(
        os.environ, REDIS_URL=stack.addresses["redis"], SH_MODEL_URL=stack.engine,
        SH_RELAY_ADDR=stack.addresses["relay_exec"], SH_TURNS_PER_WORKER="4", SH_RELAY_EXEC_TOKEN="unused",
    )
    alone = subprocess.Popen([ROOST, "worker", "--listen", f"127.0.0.1:{port}"], env=env, cwd=tmp_path,
                             stderr=open(tmp_path / "worker.log", "w"))
    try:
        wait_for("the lone worker", lambda: _answers(f"http://127.0.0.1:{port}/health"))
        direct = raw_turn(f"http://127.0.0.1:{port}", session("direct"))
    finally:
        alone.terminate()
        assert alone.wait(30) == 0
    whole = raw_turn(stack.host, session("whole"))
    pieces = raw_turn(stack.host, session("pieces"), pieces_of=7)
    assert without_ids_and_times(direct)[-1][0] == "done"
    assert without_ids_and_times(whole) == without_ids_and_times(direct)
    assert without_ids_and_times(pieces) == without_ids_and_times(direct)


def _answers(url):
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def test_two_turns_of_one_session_at_once_are_one_turn_and_a_409(stack):
    sid = session("double")
    first = threading.Thread(target=lambda: stack.turn(**{**LONG, "maxTokens": 120}, sessionId=sid))
    first.start()
    try:
        wait_for("the first turn in flight", lambda: sum(w["inFlight"] for w in stack.workers()) >= 1)
        second = wait_for("a refusal", lambda: _if_409(stack.turn(prompt="And?", sessionId=sid, maxTokens=4, tools=[])))
        assert second.json()["error"] == "turn_in_progress" and second.json()["turnId"]
    finally:
        first.join()


def _if_409(answer):
    return answer if answer.status_code == 409 else None


def test_a_client_that_leaves_frees_its_turn_and_its_slot(stack):
    with httpx.stream("POST", stack.host + "/v1/turn", headers={"Accept": "text/event-stream"}, timeout=120,
                      json={**LONG, "sessionId": session("gone")}) as r:
        seen = ""
        for piece in r.iter_text():
            seen += piece
            if "event: text" in seen:
                break
    wait_for("no turn in flight", lambda: sum(w["inFlight"] for w in stack.workers()) == 0, timeout=10)
    wait_for("no slot busy", lambda: not any(s["is_processing"] for s in stack.slots()), timeout=10)

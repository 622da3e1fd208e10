"""Bad input at every door: a clear message (and exit code), nothing lost, the server alive."""

import os
import shutil
import socket
import stat

import httpx
import pytest

from conftest import MODEL, ROOST, free_port, run_roost

BIG = 2**31


def engine_post(stack, path, **kwargs):
    return httpx.post(stack.engine + path, timeout=60, **kwargs)


def error_of(answer):
    body = answer.json()
    error = body["error"]
    assert error["code"] == answer.status_code and error["message"] and error["type"] and error["error_kind"]
    assert body["reason"] == error["message"]
    return error


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"messages": [', "[]", "3", "\xff", "[" * 10000])
def test_malformed_json_at_the_engine(stack, text):
    for path in ("/v1/chat/completions", "/v1/completions", "/tokenize", "/apply-template", "/polykv/pools"):
        answer = engine_post(stack, path, content=text.encode("latin-1"))
        assert answer.status_code == 400, (path, answer.text)
        assert error_of(answer)["error_kind"] in ("invalid_json", "invalid_request")


@pytest.mark.parametrize("body,word", [
    ({}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": [{"role": "user"}]}, ""),
    ({"messages": [{"role": "user", "content": "x"}], "max_tokens": -5}, "max_tokens"),
    ({"messages": [{"role": "user", "content": "x"}], "max_tokens": BIG * 4}, "max_tokens"),
    ({"messages": [{"role": "user", "content": "x"}], "max_tokens": "many"}, "max_tokens"),
    ({"messages": [{"role": "user", "content": "x"}], "temperature": -1}, "temperature"),
    ({"messages": [{"role": "user", "content": "x"}], "top_p": 7}, "top_p"),
    ({"messages": [{"role": "user", "content": "x"}], "top_logprobs": 10**6, "logprobs": True}, "top_logprobs"),
    ({"messages": [{"role": "user", "content": "x"}], "stop": ["a"] * 1000}, "stop"),
    ({"messages": [{"role": "user", "content": "x"}], "pool_id": "0"}, "pool_id"),
    ({"messages": [{"role": "user", "content": "x"}], "session_id": "x" * 200}, "session_id"),
    ({"messages": [{"role": "user", "content": "x"}], "tools": [{"nope": 1}]}, ""),
    ({"messages": [{"role": "user", "content": "x"}], "grammar": "root ::= " + "(" * 60000}, "grammar"),
])
def test_wrong_fields_at_chat_name_the_field(stack, body, word):
    answer = engine_post(stack, "/v1/chat/completions", json=body)
    assert answer.status_code == 400, answer.text
    assert word in error_of(answer)["message"]
    assert httpx.get(stack.engine + "/health").status_code == 200


@pytest.mark.parametrize("prompt", [[-1], [10**9], [1, -2**31], [2**31 - 1]])
def test_token_ids_outside_the_vocabulary(stack, prompt):
    for path, body in (("/v1/completions", {"prompt": prompt, "max_tokens": 1}), ("/polykv/pools", {"tokens": prompt})):
        assert engine_post(stack, path, json=body).status_code == 400
    assert engine_post(stack, "/detokenize", json={"tokens": prompt}).status_code == 400


def test_an_unknown_pool_is_said_or_refused_when_strict(stack):
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "pool_id": 987654}
    answer = engine_post(stack, "/v1/chat/completions", json=body)
    assert answer.status_code == 200 and answer.json()["opencoti"]["pool_unknown"] is True
    strict = engine_post(stack, "/v1/chat/completions", json={**body, "pool_strict": True})
    assert strict.status_code == 404 and error_of(strict)["error_kind"] == "unknown_pool"
    assert httpx.get(stack.engine + "/polykv/pools/987654").status_code == 404
    assert httpx.get(stack.engine + "/polykv/pools/abc").status_code == 400


@pytest.mark.parametrize("body", [
    {}, {"tokens": [1], "prompt": "x"}, {"tokens": []}, {"tokens": ["a", 1]}, {"prompt": ""}, {"from_session": "nobody-knows"}, {"prompt": 5},
    {"tokens": [1, 2], "expect_len": "two"},
])
def test_wrong_pool_sources(stack, body):
    answer = engine_post(stack, "/polykv/pools", json=body)
    assert answer.status_code in (400, 404), answer.text
    error_of(answer)


def test_a_body_over_the_limit_is_refused_before_it_is_read(stack):
    host, port = stack.engine.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2147483648\r\n\r\n{")
        assert s.recv(4096).startswith(b"HTTP/1.1 413")
    host, port = stack.host.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as s:
        s.sendall(b"POST /v1/turn HTTP/1.1\r\nHost: x\r\nContent-Length: 2147483648\r\n\r\n{")
        assert s.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_prompt_longer_than_the_context(stack):
    answer = engine_post(stack, "/v1/completions", json={"prompt": "word " * 40000, "max_tokens": 1})
    assert answer.status_code == 400
    error = error_of(answer)
    assert error["error_kind"] in ("exceed_context_size", "never_fits") and error["n_prompt_tokens"] > error["n_ctx"]


def test_unknown_routes_and_methods(stack):
    for base in (stack.engine, stack.host):
        assert httpx.get(base + "/nope").status_code == 404
    assert httpx.post(stack.host + "/turn?x=1", json={"prompt": "x"}).status_code == 404
    assert httpx.get(stack.engine + "/v1/chat/completions").status_code == 405


@pytest.mark.parametrize("content,code", [
    (b"", "invalid_json"), (b"{", "invalid_json"), (b"[]", "invalid_json"), (b"{}", "prompt_required"),
    (b'{"prompt": ""}', "prompt_required"),
])
def test_bad_turns(stack, content, code):
    for accept in ("application/json", "text/event-stream"):
        answer = httpx.post(stack.host + "/v1/turn", content=content, headers={"Accept": accept})
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"] == code


def test_a_turn_of_an_unknown_kind_of_tool_or_field(stack):
    for body in ({"prompt": "x", "tools": ["no-such-tool"]}, {"prompt": "x", "maxTurns": 0}, {"prompt": "x", "sessionId": "a b"},
                 {"prompt": 7}, {"prompt": "x", "poolId": "3"}):
        answer = httpx.post(stack.host + "/v1/turn", json=body)
        assert answer.status_code == 400, (body, answer.text)


# The doors of the command line.


def test_a_model_file_that_is_not_gguf(tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"not a model" * 1000)
    done = run_roost("engine", "--model", str(bad), "--port", "0")
    assert done.returncode == 78 and "bad.gguf" in done.stderr and "GGUF" in done.stderr
    missing = run_roost("engine", "--model", str(tmp_path / "none.gguf"), "--port", "0")
    assert missing.returncode == 78 and "none.gguf" in missing.stderr
    cut = tmp_path / "cut.gguf"
    with open(MODEL, "rb") as whole:
        cut.write_bytes(whole.read(1_000_000))
    truncated = run_roost("engine", "--model", str(cut), "--port", "0")
    assert truncated.returncode == 78 and "cut.gguf" in truncated.stderr


def test_no_model_is_said_with_the_way_out(tmp_path):
    done = run_roost("up", cwd=tmp_path, env={"ROOST_MODEL": ""})
    assert done.returncode == 78 and "--model" in done.stderr


def test_a_port_in_use_is_named_with_the_flag(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = str(s.getsockname()[1])
        done = run_roost("engine", "--model", MODEL, "--port", port, "--ctx-size", "512", "--parallel", "1")
        assert done.returncode == 78 and port in done.stderr and "--port" in done.stderr
        up = run_roost("up", "--model", MODEL, "--engine-port", port, "--ctx-size", "512", "--parallel", "1", cwd=tmp_path)
        assert up.returncode == 78 and port in up.stderr
        host = run_roost("host", "--port", port, "--turns-per-worker", "1", "--admin-port", "0", env={"REDIS_URL": "redis://127.0.0.1:1"})
        assert host.returncode == 78 and port in host.stderr


def test_bad_values_and_unknown_flags():
    for arguments, env, words in [
        (["host"], {"SH_TURNS_PER_WORKER": "12abc"}, ["host.turns_per_worker", "12abc", "1 to 65535"]),
        (["host"], {"SH_TURNS_PER_WORKER": ""}, ["SH_TURNS_PER_WORKER"]),
        (["host", "--turns-per-worker", "4"], {"SH_ROUTING_POLICY": "random"}, ["random", "leastInFlight"]),
        (["engine", "--model", MODEL, "--parallel", "250", "--polykv-max-pools", "20"], {}, ["256"]),
    ]:
        done = run_roost(*arguments, env=env)
        assert done.returncode == 78, (arguments, done.stderr)
        for word in words:
            assert word in done.stderr, (word, done.stderr)
    assert run_roost("engine", "--no-such-flag").returncode == 64
    assert run_roost("nonsense").returncode == 64
    assert run_roost("--help").returncode == 0 and run_roost("up", "--help").returncode == 0


def path_without(program, folder):
    """A PATH in which everything is found but one program."""
    for directory in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for name in os.listdir(directory):
            if name != program and not (folder / name).exists():
                (folder / name).symlink_to(os.path.join(directory, name))
    return str(folder)


@pytest.fixture
def narrow_path(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def test_redis_that_cannot_be_started(tmp_path, narrow_path):
    done = run_roost("up", "--model", MODEL, cwd=tmp_path, env={"PATH": path_without("redis-server", narrow_path)})
    assert done.returncode == 78 and "redis-server" in done.stderr and "REDIS_URL" in done.stderr


def test_no_bubblewrap_refuses_the_sandbox_with_the_way_out(tmp_path, narrow_path):
    done = run_roost("sandbox", "--token", "t", "--relay", f"127.0.0.1:{free_port()}", "--workspace", str(tmp_path / "w"), cwd=tmp_path,
                     env={"PATH": path_without("bwrap", narrow_path)})
    assert done.returncode == 78 and "bubblewrap" in done.stderr and "--isolation=none" in done.stderr


def test_a_state_folder_serves_one_up_at_a_time(stack, tmp_path):
    done = run_roost("up", "--model", MODEL, "--state-dir", str(stack.state), cwd=tmp_path)
    assert done.returncode == 78 and "--state-dir" in done.stderr

"""The gate "unused = inert" (page 10): with no pool route called and no pool_id sent, pools change nothing."""

import httpx
import pytest

from conftest import running_engine

REQUESTS = [
    {"messages": [{"role": "user", "content": "Name three animals."}], "max_tokens": 24, "temperature": 0},
    {"messages": [{"role": "user", "content": "Name three animals that swim."}], "max_tokens": 24, "temperature": 0.7, "seed": 7},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why is the sea salty?"}],
     "max_tokens": 32, "temperature": 0, "session_id": "inert"},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why is the sea salty?"},
                  {"role": "assistant", "content": "Rivers."}, {"role": "user", "content": "More."}],
     "max_tokens": 32, "temperature": 0, "session_id": "inert"},
]
VOLATILE = ("id", "created", "timings", "opencoti", "session_tps", "system_fingerprint")


def stream_of(url, request):
    """The bytes of a stream with logprobs, without what names the run or measures time."""
    import json

    body = {**request, "stream": True, "logprobs": True, "top_logprobs": 5}
    lines = []
    with httpx.stream("POST", url + "/v1/chat/completions", json=body, timeout=120) as r:
        assert r.status_code == 200
        for line in r.iter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line[6:])
                for name in VOLATILE:
                    chunk.pop(name, None)
                line = json.dumps(chunk)
            lines.append(line)
    return lines


@pytest.mark.parametrize("layout", [["--kv-unified"], ["--no-kv-unified"]])
def test_streams_are_the_same_with_pools_on_and_off(tmp_path, layout):
    common = ["--ctx-size", "8192", "--parallel", "2", "--no-auto-share", *layout]
    answers = {}
    for pools in ("2", "0"):
        # A split cache divides the cells by the sequences: give each the same share.
        arguments = [*common, "--polykv-max-pools", pools]
        with running_engine(tmp_path, *arguments) as engine:
            assert httpx.get(engine.url + "/props").json()["opencoti"]["polykv"]["pools_enabled"] is (pools != "0")
            answers[pools] = [stream_of(engine.url, r) for r in REQUESTS]
    assert answers["2"] == answers["0"]
    assert any("logprob" in line for line in answers["0"][0])


def test_with_pools_off_every_pool_route_says_so(tmp_path):
    with running_engine(tmp_path, "--ctx-size", "2048", "--parallel", "1", "--polykv-max-pools", "0") as engine:
        for method, path in [("GET", "/polykv/pools"), ("POST", "/polykv/pools"), ("GET", "/polykv/pools/0"),
                             ("POST", "/polykv/pools/0/release"), ("POST", "/polykv/pools/0/fork")]:
            answer = httpx.request(method, engine.url + path, json={} if method == "POST" else None)
            assert answer.status_code == 501, (path, answer.text)
            assert answer.json()["error"]["error_kind"] == "pools_off"

"""The engine's doors as real clients use them: the `openai` SDK, pools, attach, cancel, status while it works."""

import json
import threading
import time

import httpx
import openai
import pytest

from conftest import wait_for

CONTEXT = " ".join(f"Fact {i}: the ferry number {i} leaves from pier {i % 7}." for i in range(60))


@pytest.fixture
def sdk(stack):
    return openai.OpenAI(base_url=stack.engine + "/v1", api_key="unused", max_retries=0)


def test_the_openai_sdk_streams_what_it_gets_whole(sdk):
    messages = [{"role": "user", "content": "Name three animals."}]
    whole = sdk.chat.completions.create(model="any", messages=messages, max_tokens=24, temperature=0)
    stream = sdk.chat.completions.create(
        model="any", messages=messages, max_tokens=24, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text and text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] in ("stop", "length")
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_the_openai_sdk_gets_a_tool_call_that_parses(sdk):
    tool = {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Looks at a place.",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string", "enum": ["harbour", "pier"]}},
                "required": ["place"],
            },
        },
    }
    arguments = dict(
        model="any", messages=[{"role": "user", "content": "Look at the pier."}], tools=[tool], max_tokens=64, temperature=0,
        tool_choice={"type": "function", "function": {"name": "look"}},
    )
    whole = sdk.chat.completions.create(**arguments)
    call = whole.choices[0].message.tool_calls[0]
    assert whole.choices[0].finish_reason == "tool_calls" and call.function.name == "look" and call.id
    assert json.loads(call.function.arguments)["place"] in ("harbour", "pier")

    name, streamed = "", ""
    for chunk in sdk.chat.completions.create(**arguments, stream=True):
        for delta in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            name += delta.function.name or ""
            streamed += delta.function.arguments or ""
    assert name == "look" and json.loads(streamed) == json.loads(call.function.arguments)


def test_the_openai_sdk_sees_errors_as_its_own_kinds(sdk):
    with pytest.raises(openai.BadRequestError) as wrong:
        sdk.chat.completions.create(model="any", messages=[{"role": "user", "content": "x"}], temperature=-3)
    assert "temperature" in str(wrong.value)


def test_stop_strings_never_leak(sdk):
    messages = [{"role": "user", "content": "Count: one, two, three, four, five, six."}]
    # Without the cache both runs compute the same batches, so that the same text comes before the stop.
    ask = dict(model="any", messages=messages, max_tokens=48, temperature=0, extra_body={"cache_prompt": False})
    free = sdk.chat.completions.create(**ask).choices[0].message.content
    stop = free[len(free) // 2 : len(free) // 2 + 4]
    stopped = sdk.chat.completions.create(**ask, stop=[stop])
    assert stopped.choices[0].message.content == free[: free.index(stop)]
    assert stopped.choices[0].finish_reason == "stop"


def make_pool(stack, **body):
    answer = httpx.post(stack.engine + "/polykv/pools", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def chat(stack, timeout=120, **body):
    return httpx.post(stack.engine + "/v1/chat/completions", json=body, timeout=timeout)


def release(stack, pool_id):
    answer = httpx.post(f"{stack.engine}/polykv/pools/{pool_id}/release", json={}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_pool_from_messages_is_shared_whole_by_each_chat(stack):
    system = {"role": "system", "content": CONTEXT}
    pool = make_pool(stack, messages=[system])
    assert pool["parent"] == -1 and pool["branch_pos"] == 0 and pool["own_len"] <= pool["prefix_len"]
    try:
        for question in ("Which pier has ferry 3?", "Which pier has ferry 9?"):
            answer = chat(stack, messages=[system, {"role": "user", "content": question}], pool_id=pool["pool_id"],
                          max_tokens=8, temperature=0)
            body = answer.json()
            about = body["opencoti"]
            assert about["pool_id"] == pool["pool_id"] and about["pool_len"] == pool["prefix_len"]
            assert about["n_pool_shared"] == pool["prefix_len"] and not about["pool_unknown"]
            assert "first_divergence" not in about
            cached = body["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert cached >= pool["prefix_len"] and body["timings"]["cache_n"] == cached
            assert body["timings"]["prompt_n"] == body["usage"]["prompt_tokens"] - cached
            assert answer.headers["x-pool-id"] == str(pool["pool_id"]) and float(answer.headers["x-session-tps"]) >= 0
        listed = [p for p in stack.pools()["pools"] if p["pool_id"] == pool["pool_id"]]
        assert listed and listed[0]["prefix_len"] == pool["prefix_len"] and "tokens" not in listed[0]
    finally:
        assert release(stack, pool["pool_id"])["cells_freed"] >= 0
    assert pool["pool_id"] not in [p["pool_id"] for p in stack.pools()["pools"]]


def test_a_prompt_that_leaves_the_pool_early_is_told_where(stack):
    pool = make_pool(stack, prompt=CONTEXT)
    try:
        answer = httpx.post(stack.engine + "/v1/completions", timeout=120, json={
            "prompt": CONTEXT.replace("Fact 30:", "Fakt 30:"), "pool_id": pool["pool_id"], "max_tokens": 2, "temperature": 0}).json()
        about = answer["opencoti"]
        assert 0 < about["n_pool_shared"] < pool["prefix_len"]
        assert about["first_divergence"]["index"] == about["n_pool_shared"]
        assert about["first_divergence"]["pool_token_text"] != about["first_divergence"]["prompt_token_text"]
    finally:
        release(stack, pool["pool_id"])


def test_a_pool_from_a_session_costs_no_prefill(stack):
    sid = "donor-1"
    first = chat(stack, messages=[{"role": "user", "content": CONTEXT}], session_id=sid, max_tokens=4, temperature=0).json()
    before = stack.kv()["cells_used"]
    pool = make_pool(stack, from_session=sid, unowned=True)
    assert pool["prefix_len"] >= first["usage"]["prompt_tokens"]
    assert stack.kv()["cells_used"] <= before + 1
    httpx.post(f"{stack.engine}/sessions/{sid}/close", json={})
    assert pool["pool_id"] in [p["pool_id"] for p in stack.pools()["pools"]], "an unowned pool outlives its donor"
    release(stack, pool["pool_id"])


def test_apply_template_and_tokenize_are_what_chat_uses(stack):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}]
    prompt = httpx.post(stack.engine + "/apply-template", json={"messages": messages}).json()["prompt"]
    tokens = httpx.post(stack.engine + "/tokenize", json={"content": prompt, "add_special": True, "parse_special": True}).json()["tokens"]
    used = chat(stack, messages=messages, max_tokens=1).json()["usage"]["prompt_tokens"]
    assert len(tokens) == used
    text = httpx.post(stack.engine + "/detokenize", json={"tokens": tokens}).json()["content"]
    assert "Be brief." in text


def test_props_slots_health_and_identity(stack):
    health = httpx.get(stack.engine + "/health")
    assert health.status_code == 200 and health.json()["status"] == "ok"
    props = httpx.get(stack.engine + "/props").json()
    assert props["opencoti"]["polykv"]["pools_enabled"] is True and props["total_slots"] == 8
    assert props["boot_id"] == health.json()["boot_id"] == httpx.get(stack.engine + "/slots").headers["x-opencoti-boot-id"]
    assert set(props["features"]) >= {"attach_in_response_v1", "boot_id_v1", "pool_unknown_in_response_v1"}
    slots = stack.slots()
    assert len(slots) == 8 and {"id", "is_processing", "pool_id", "tps_ewma", "ctx_used"} <= set(slots[0])


def test_status_answers_during_a_long_prefill(stack):
    prompt = "word " * 3000
    worker = threading.Thread(target=lambda: httpx.post(stack.engine + "/v1/completions", timeout=120,
                                                        json={"prompt": prompt, "max_tokens": 1, "cache_prompt": False}))
    worker.start()
    try:
        wait_for("the prefill to begin", lambda: any(s["is_processing"] for s in stack.slots()), interval=0.005)
        seen = []
        while worker.is_alive() and len(seen) < 20:
            start = time.monotonic()
            for path in ("/slots", "/polykv/pools", "/polykv/tps", "/health"):
                assert httpx.get(stack.engine + path, timeout=30).status_code == 200
            seen.append(time.monotonic() - start)
        assert len(seen) >= 3, "several answers while one prefill ran: none of them waited for it"
    finally:
        worker.join()


def test_tps_is_measured_per_session_and_zero_when_idle(stack):
    speeds = []
    done = threading.Event()

    def watch():
        while not done.is_set():
            for s in httpx.get(stack.engine + "/polykv/tps").json()["sessions"]:
                if s["session_id"] == "speedy" and s["tps_ewma"] > 0:
                    speeds.append(s["tps_ewma"])
            time.sleep(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    body = chat(stack, messages=[{"role": "user", "content": "Tell a long story."}], session_id="speedy", max_tokens=96,
                ignore_eos=True, temperature=0).json()
    done.set()
    watcher.join()
    assert body["timings"]["predicted_n"] == 96
    assert speeds and 0.5 < max(speeds) / body["timings"]["predicted_per_second"] < 2
    wait_for("idle gauges", lambda: httpx.get(stack.engine + "/polykv/tps").json()["aggregate_tps"] == 0)
    httpx.post(stack.engine + "/sessions/speedy/close", json={})


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_disconnects_frees_its_slot(stack, stream):
    body = {"messages": [{"role": "user", "content": "Go on for ever."}], "max_tokens": 4000, "ignore_eos": True, "stream": stream}
    with httpx.Client(timeout=httpx.Timeout(10, read=0.7)) as client:
        with pytest.raises(httpx.ReadTimeout):
            if stream:
                with client.stream("POST", stack.engine + "/v1/chat/completions", json=body) as r:
                    next(r.iter_text())
                    raise httpx.ReadTimeout("left on purpose")
            client.post(stack.engine + "/v1/chat/completions", json=body)
    wait_for("the slot to be free", lambda: not any(s["is_processing"] for s in stack.slots()), timeout=10)


def test_concurrent_cold_requests_prefill_their_common_prefix_once(stack):
    """llama.cpp #26204, small: k requests at the same instant, no pool named."""
    prefix = " ".join(f"Line {i} of the harbour book." for i in range(64))
    before = _metric(stack, "prompt_tokens_total")
    answers = []
    threads = [threading.Thread(target=lambda i=i: answers.append(httpx.post(stack.engine + "/v1/completions", timeout=120, json={
        "prompt": f"{prefix} Question {i}?", "max_tokens": 4, "temperature": 0}).json())) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    prompt = max(a["usage"]["prompt_tokens"] for a in answers)
    assert _metric(stack, "prompt_tokens_total") - before <= prompt + 4 * 32 + 64
    assert sum(a["timings"]["prompt_n"] for a in answers) <= prompt + 4 * 32 + 64


def _metric(stack, name):
    for line in httpx.get(stack.engine + "/metrics").text.splitlines():
        if not line.startswith("#") and name in line.split(" ")[0].split("{")[0]:
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no metric {name}")

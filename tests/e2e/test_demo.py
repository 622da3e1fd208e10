"""The main job: one task fans out to agents that share one pool; the figures are the engine's own."""

import json
import subprocess

from conftest import ROOST, wait_for


def demo(stack, *arguments):
    done = subprocess.run(
        [ROOST, "demo", "--json", "--host-url", stack.host, "--engine-url", stack.engine, *arguments],
        capture_output=True, text=True, timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1]), done.stdout


def test_four_agents_share_one_pool_and_prefill_only_their_own_words(stack):
    before = stack.kv()["cells_used"]
    report, text = demo(stack)
    assert report["ok"] and len(report["agents"]) == 4
    length = report["pool_len"]
    assert length > 400, "the shared context is worth sharing"
    for agent in report["agents"]:
        assert agent["shared"] == length, agent
        assert 0 < agent["prefilled"] < length, agent
        assert agent["decoded"] > 0 and agent["tps"] > 0, agent
    suffixes = sum(a["prompt"] - a["shared"] for a in report["agents"])
    assert report["prefilled"] <= length + suffixes
    assert report["without_sharing"] >= 4 * length
    for heading in ("prompt", "shared", "prefilled", "tok/s", "wall"):
        assert heading in text
    # The job gives back what it took.
    wait_for("pools and cells back to the start",
             lambda: not stack.pools()["pools"] and stack.kv()["cells_used"] <= before)


def test_the_tool_call_really_ran_in_a_sandbox(stack):
    report, _ = demo(stack)
    tools = [a for a in report["agents"] if a["tool"]]
    assert len(tools) == 1 and tools[0]["tool"].startswith("bash: ")
    assert not tools[0]["tool_failed"] and tools[0]["tool_output"]


def test_more_agents_than_roles_still_share(stack):
    report, _ = demo(stack, "--agents", "7")
    assert [a["shared"] for a in report["agents"]] == [report["pool_len"]] * 7

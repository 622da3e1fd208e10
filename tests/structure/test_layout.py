"""The source layout's rules, read from the includes: who may include whom, and what may not be met where."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"

# The design's order: a folder may include those of lower layers, and itself.
LAYERS = [
    {"core"},
    {"net", "handoff", "store"},
    {"kv", "admission", "attention"},
    {"engine", "sandbox", "host"},
    {"api", "agent"},
    {"bench"},
    {"cli"},
]
LAYER_OF = {folder: level for level, layer in enumerate(LAYERS) for folder in layer}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)


def sources():
    return sorted(p for p in SRC.rglob("*") if p.suffix in {".h", ".cpp"})


def includes(path):
    return [(kind, name) for kind, name in INCLUDE.findall(path.read_text())]


def folder_of(path):
    return path.relative_to(SRC).parts[0]


def own_folder(name):
    """The folder of src/ that an include names, or None for a library's header."""
    first = name.split("/")[0]
    return first if "/" in name and (SRC / name).exists() else None


def test_there_are_sources_and_each_folder_has_a_layer():
    folders = {folder_of(p) for p in sources()}
    assert {"core", "net", "kv", "engine", "host", "agent", "sandbox", "cli"} <= folders
    assert folders <= set(LAYER_OF), folders - set(LAYER_OF)


def test_no_folder_includes_one_above_or_beside_it():
    wrong = []
    for path in sources():
        here = folder_of(path)
        for _, name in includes(path):
            there = own_folder(name)
            if there and there != here and LAYER_OF[there] >= LAYER_OF[here]:
                wrong.append(f"{path.relative_to(ROOT)} includes {name}")
    assert not wrong, "\n".join(wrong)


def test_quoted_includes_are_found_from_src():
    wrong = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in sources()
        for kind, name in includes(path)
        if kind == '"' and not (SRC / name).exists() and not name.startswith("sandbox/v1/")
    ]
    assert not wrong, "\n".join(wrong)


LLAMA = re.compile(r"^(llama|ggml|gguf|common|chat|sampling)\b.*\.h$|^(llama|ggml)-")
HTTP = re.compile(r"^boost/beast|^net/http")
JSON = re.compile(r"^boost/json|^core/json")


def offenders(folder, pattern, allowed=()):
    return [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in sources()
        if folder_of(path) == folder and not any(a in str(path) for a in allowed)
        for _, name in includes(path)
        if pattern.search(name)
    ]


def test_kv_and_admission_know_neither_llama_nor_http_nor_json():
    for folder in ("kv", "admission"):
        for pattern in (LLAMA, HTTP, JSON):
            assert not offenders(folder, pattern)


def test_engine_knows_no_http_and_llama_only_in_its_adapters():
    assert not offenders("engine", HTTP)
    assert not offenders("engine", LLAMA, allowed=("engine/llama/",))


def test_llamas_internal_headers_are_met_in_the_kv_port_adapter_alone():
    internal = re.compile(r"^(src/)?llama-(kv|memory|context|model|graph|batch)")
    found = [o for folder in LAYER_OF for o in offenders(folder, internal, allowed=("engine/llama/",))]
    assert not found
    inside = offenders("engine", internal)
    assert len({o.split(" ")[0] for o in inside}) <= 1, inside


def test_host_knows_nothing_of_engine_or_agent():
    wrong = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in sources()
        if folder_of(path) == "host"
        for _, name in includes(path)
        if own_folder(name) in {"engine", "agent", "api", "kv", "sandbox"}
    ]
    assert not wrong, "\n".join(wrong)


def test_no_model_binary_or_registry_host_is_committed():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert not [f for f in files if f.endswith((".gguf", ".o", ".a", ".so", ".whl"))]
    assert not [f for f in files if (ROOT / f).exists() and (ROOT / f).stat().st_size > 512 * 1024]

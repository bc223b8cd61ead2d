"""The README against the program: its shell block runs, its JavaScript too, and its tables name what exists.

Needs parleyd (PARLEYD, or build/release/parleyd); skips where there is none, under CI fails.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PARLEYD") or str(ROOT / "build" / "release" / "parleyd")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language, after):
    """The text of the first code block of a language behind a heading."""
    part = README[README.index(after):]
    return re.search(rf"```{language}\n(.*?)```", part, re.S).group(1)


@pytest.fixture(scope="module")
def server():
    if not os.access(BINARY, os.X_OK):
        message = f"{BINARY} is missing: build it or set PARLEYD"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
    with tempfile.TemporaryDirectory(prefix="parley-readme-") as data:
        process = subprocess.Popen(
            [BINARY, "serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ports = pathlib.Path(data) / "parleyd.ports"
        deadline = time.monotonic() + 30
        while not ports.exists():
            assert process.poll() is None, "parleyd did not start"
            assert time.monotonic() < deadline, "parleyd was not ready in time"
            time.sleep(0.05)
        found = dict(line.split("=", 1) for line in ports.read_text().split())
        yield found["listen"], data
        process.terminate()
        assert process.wait(timeout=15) == 0


def test_the_shell_examples_work(server):
    listen, _ = server
    script = block("sh", "## Talking to it").replace("127.0.0.1:8080", listen)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in re.findall(r"\{.*?\}(?=\{|$)", done.stdout, re.S)[:2]]
    assert answers[0]["user"]
    assert answers[1]["seq"] == 2
    assert "Hello, world" in done.stdout


def test_the_javascript_example_works(server):
    """Run on a Node with WebSocket; where there is none, on the page tests' small client of the same shape."""
    listen, data = server
    token = subprocess.run([BINARY, "token", "anna", "--data", data], capture_output=True, text=True, timeout=30)
    assert token.returncode == 0, token.stderr
    subprocess.run(
        ["curl", "-s", "-H", f"Authorization: Bearer {token.stdout.strip()}", "-H", "Content-Type: application/json",
         "-d", '{"name":"JS","kind":"public"}', f"http://{listen}/api/v1/rooms"], check=True, timeout=30, capture_output=True)
    example = block("js", "## Talking to it").replace("127.0.0.1:8080", listen)
    helper = ROOT / "tests" / "scripts" / "web_socket.mjs"
    code = f"""
import {{ WebSocket }} from {json.dumps(helper.as_uri())}
import crypto from 'node:crypto'
const TOKEN = {json.dumps(token.stdout.strip())}
const show = console.log
const console_ = {{ log: (frame) => {{ show(JSON.stringify(frame)); if (frame.ev === 'message.created') process.exit(0) }} }}
setTimeout(() => process.exit(3), 15000)
{example.replace("console.log", "console_.log")}
"""
    done = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert '"text":"Hello from a program"' in done.stdout


def test_the_configuration_table_names_real_keys():
    if not os.access(BINARY, os.X_OK):
        pytest.skip(f"{BINARY} is missing")
    printed = subprocess.run([BINARY, "config"], capture_output=True, text=True, timeout=30).stdout
    section, values = "", {}
    for line in printed.splitlines():
        head = re.match(r"\[(\w+)\]", line)
        pair = re.match(r"#?\s*(\w+)\s*=\s*(\S+)", line)
        if head:
            section = head.group(1)
        elif pair:
            values[f"{section}.{pair.group(1)}"] = pair.group(2).strip('"')
    rows = re.findall(r"^\| `([a-z]+\.[a-z_]+)` \| (?:`([^`]*)`)? ?\|", README, re.M)
    assert len(rows) >= 7
    for key, default in rows:
        assert key in values, key
        if default:
            assert values[key] == default, key


def test_every_file_that_is_named_exists():
    for document in ("README.md", "ARCHITECTURE.md", "schemas/README.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        base = (ROOT / document).parent
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if "://" not in target:
                assert (base / target).exists(), f"{document}: {target}"
        for name in re.findall(r"`((?:schemas|storage|actors|net|scripts|tests|bench)/[\w./-]+)`", text):
            path = ROOT / name
            beside = path.parent.glob(path.name + ".*") if path.parent.exists() else ()
            assert path.exists() or any(beside), f"{document}: {name}"

"""scripts/check_includes against small trees: a sound one passes, and every rule can fail, with its file and line."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "check_includes"

SOUND = {
    "schemas/ids.hpp": "#pragma once\n#include <string>\n",
    "schemas/wire/json_encode.hpp": "#pragma once\n#include <nlohmann/json_fwd.hpp>\n#include \"schemas/ids.hpp\"\n",
    "schemas/wire/json_encode.cpp": "#include <nlohmann/json.hpp>\n#include \"schemas/wire/json_encode.hpp\"\n",
    "storage/store.hpp": "#pragma once\n#include \"schemas/ids.hpp\"\n",
    "storage/store.cpp": '#include <soci/soci.h>\n#include "storage/store.hpp"\nconst char* q = "SELECT 1 FROM rooms";\n',
    "actors/runtime.hpp": "#pragma once\n#include \"actors/ports.hpp\"\n#include \"schemas/ids.hpp\"\n",
    "actors/ports.hpp": "#pragma once\n#include <memory>\n",
    "actors/room.hpp": "#pragma once\n#include <caf/actor.hpp>\n#include \"storage/store.hpp\"\n",
    "net/http/router.cpp": '#include <boost/beast/http.hpp>\n#include <nlohmann/json.hpp>\n#include "actors/runtime.hpp"\n',
    "net/app/serve.cpp": '#include <boost/asio/io_context.hpp>\n#include "storage/store.hpp"\n#include "actors/ports.hpp"\n',
    "bench/client/link.hpp": "#pragma once\n#include <vector>\n",
    "bench/client/link.cpp": '#include "client/link.hpp"\n',
    "tests/actors/room_test.cpp": '#include <caf/all.hpp>\n#include <nlohmann/json.hpp>\n#include "actors/room.hpp"\n',
}


def run(folder, changes=None, *options):
    """The script's outcome on the sound tree with some files replaced (None: without the file)."""
    for name, text in {**SOUND, **(changes or {})}.items():
        if text is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([SCRIPT, "--root", folder, *options], capture_output=True, text=True, timeout=120)


def test_a_sound_tree_passes(tmp_path):
    done = run(tmp_path)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stdout


def test_this_tree_passes():
    done = subprocess.run([SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_an_empty_tree_is_no_success(tmp_path):
    assert subprocess.run([SCRIPT, "--root", tmp_path], capture_output=True, timeout=60).returncode == 1


HEAD = "#pragma once\n"
BROKEN = {
    "schemas above storage": ("schemas/ids.hpp", HEAD + '#include "storage/store.hpp"\n', 2, "against the arrow"),
    "storage above actors": ("storage/store.hpp", HEAD + '#include "actors/ports.hpp"\n', 2, "against the arrow"),
    "actors above net": ("actors/room.cpp", '#include "net/relay.hpp"\n', 1, "against the arrow"),
    "net above its program": ("net/relay.cpp", '#include "net/app/serve.hpp"\n', 1, "against the arrow"),
    "a part and the tests": ("net/relay.cpp", '#include "tests/support/x.hpp"\n', 1, "the server includes nothing"),
    "CAF in net": ("net/relay.cpp", "\n#include <caf/actor.hpp>\n", 2, "CAF"),
    "CAF in storage": ("storage/batch.cpp", "#include <caf/actor.hpp>\n", 1, "CAF"),
    "CAF in schemas": ("schemas/a.cpp", "#include <caf/fwd.hpp>\n", 1, "CAF"),
    "CAF in the program": ("net/app/main.cpp", "#include <caf/fwd.hpp>\n", 1, "CAF"),
    "Asio in actors": ("actors/room.cpp", "#include <boost/asio/post.hpp>\n", 1, "Asio and Beast"),
    "Beast in schemas": ("schemas/a.cpp", "#include <boost/beast/http.hpp>\n", 1, "Asio and Beast"),
    "SOCI in actors": ("actors/room.cpp", "#include <soci/soci.h>\n", 1, "SOCI"),
    "SQLite in net": ("net/relay.cpp", "#include <sqlite3.h>\n", 1, "SOCI"),
    "MySQL in actors": ("actors/room.cpp", "#include <mysql_driver.h>\n", 1, "SOCI"),
    "SQL in actors": ("actors/room.cpp", '\nauto q = "SELECT seq FROM events";\n', 2, "SQL"),
    "SQL in net": ("net/relay.cpp", 'auto q = "insert into x values";\nauto r = "INSERT INTO x VALUES (1)";\n', 2, "SQL"),
    "a room in net": ("net/relay.cpp", '#include "actors/room.hpp"\n', 1, "of actors it sees"),
    "a room in the program": ("net/app/main.cpp", '#include "actors/room.hpp"\n', 1, "of actors it sees"),
    "the store in net": ("net/relay.cpp", '#include "storage/store.hpp"\n', 1, "opens the store"),
    "CAF in a gate": ("actors/ports.hpp", HEAD + "#include <caf/actor.hpp>\n", 2, "by the gate"),
    "CAF behind a gate": ("actors/ports.hpp", HEAD + '#include "actors/room.hpp"\n', 2, "by the gate"),
    "json in a header": ("schemas/ids.hpp", HEAD + "#include <nlohmann/json.hpp>\n", 2, "nlohmann"),
    "json in storage": ("storage/batch.cpp", "#include <nlohmann/json.hpp>\n", 1, "nlohmann"),
    "json in actors": ("actors/room.cpp", "#include <nlohmann/json.hpp>\n", 1, "nlohmann"),
    "all of CAF": ("actors/room.hpp", HEAD + "#include <caf/all.hpp>\n", 2, "too large"),
    "all of Beast": ("net/relay.hpp", HEAD + "#include <boost/beast.hpp>\n", 2, "too large"),
    "bench and schemas": ("bench/client/link.cpp", '#include "schemas/ids.hpp"\n', 1, "shares no code"),
    "a missing file": ("net/relay.cpp", '#include "schemas/none.hpp"\n', 1, "is no file of ours"),
    "a relative name": ("net/relay.cpp", '#include "../schemas/ids.hpp"\n', 1, "is no file of ours"),
    "no pragma once": ("schemas/ids.hpp", "#include <string>\n", 1, "#pragma once"),
}


@pytest.mark.parametrize("which", BROKEN)
def test_each_rule_can_fail(tmp_path, which):
    name, text, line, words = BROKEN[which]
    changes = {"net/relay.hpp": HEAD, "net/app/serve.hpp": HEAD, "tests/support/x.hpp": HEAD, name: text}
    done = run(tmp_path, changes)
    assert done.returncode == 1
    offences = [row for row in done.stdout.splitlines() if words in row]
    place = "actors/room.hpp:2:" if which == "CAF behind a gate" else f"{name}:{line}:"
    assert any(row.startswith(place) for row in offences), done.stdout


def test_headers_must_compile_alone(tmp_path):
    header = "#pragma once\ninline std::vector<int> f() { return {}; }\n"
    changes = {"actors/room.hpp": HEAD + "#include <string>\n", "schemas/ids.hpp": header}
    assert run(tmp_path, changes).returncode == 0
    done = run(tmp_path, changes, "--headers")
    assert done.returncode == 1
    assert "schemas/ids.hpp:1: does not compile alone" in done.stdout
    assert run(tmp_path, {**changes, "schemas/ids.hpp": HEAD + "#include <string>\n"}, "--headers").returncode == 0

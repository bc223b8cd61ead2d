"""The process: commands, configuration, one owner, signals, exit codes, logs, start-up
(protocol.md section 6)."""

import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import time
import tomllib

import pytest

from parley import store, tokens
from parley.server import BINARY, Server, run
from parley.wait import SLOWNESS, until
from parley.ws import Refused


@pytest.fixture(autouse=True)
def _binary(binary):
    return binary


# commands

def test_version():
    done = run("version")
    assert done.returncode == 0 and re.search(r"\d+\.\d+", done.stdout)


@pytest.mark.parametrize("words", [["nonsense"], ["serve", "--nonsense"], ["serve", "stray"],
                                   ["token"], ["serve", "--set", "novalue"], ["user", "nonsense"],
                                   ["serve", "--listen"], ["serve", "--listen", "nowhere"],
                                   ["serve", "--listen", "127.0.0.1:99999"]])
def test_wrong_usage(words, tmp_path):
    """Exit code 2 and words about it on standard error."""
    data = ["--data", str(tmp_path)] if words[0] != "nonsense" else []
    done = run(*words, *data)
    assert done.returncode == 2, done
    assert done.stderr.strip()


def test_help():
    done = run("--help")
    assert done.returncode == 0
    for word in ("serve", "token", "check", "config", "migrate", "user"):
        assert word in done.stdout


def test_config_prints_every_key(tmp_path):
    """The whole effective configuration with a comment per key; it can be read back."""
    done = run("config", "--data", str(tmp_path))
    assert done.returncode == 0, done
    parsed = tomllib.loads(done.stdout)
    assert parsed["limits"]["text_code_points"] == 4000
    assert parsed["limits"]["connections_per_address"] == 10000
    assert parsed["accounts"]["registration"] in ("open", "invitation", "closed")
    keys = sum(len(v) for v in parsed.values() if isinstance(v, dict))
    comments = [l for l in done.stdout.splitlines() if "#" in l]
    assert len(comments) >= keys
    path = tmp_path / "again.toml"
    path.write_text(done.stdout)
    again = run("config", "--config", str(path), "--data", str(tmp_path))
    assert again.returncode == 0, again
    assert tomllib.loads(again.stdout) == parsed


def test_config_order(tmp_path):
    """File, environment, command line: the later wins."""
    path = tmp_path / "c.toml"
    path.write_text("[limits]\nin_flight = 11\nfragments = 12\ntext_code_points = 13\n")
    env = {"PARLEY_LIMITS_FRAGMENTS": "22", "PARLEY_LIMITS_TEXT_CODE_POINTS": "23"}
    done = run("config", "--config", str(path), "--data", str(tmp_path),
               "--set", "limits.text_code_points=33", env=env)
    assert done.returncode == 0, done
    for key, value in (("in_flight", 11), ("fragments", 22), ("text_code_points", 33)):
        assert re.search(rf"^{key}\s*=\s*{value}\b", done.stdout, re.M), key


BAD = {
    "unknown key": ("[limits]\nin_flight = 5\nin_flght = 5\n", 3, "in_flght"),
    "unknown section": ("[server]\n\n[limit]\nin_flight = 5\n", 3, "limit"),
    "text for a number": ('[limits]\nin_flight = "five"\n', 2, "in_flight"),
    "number for text": ("[server]\npublic_url = 5\n", 2, "public_url"),
    "fraction": ("[limits]\nin_flight = 1.5\n", 2, "in_flight"),
    "negative": ("[limits]\n\nin_flight = -1\n", 3, "in_flight"),
    "zero": ("[limits]\nframe_bytes = 0\n", 2, "frame_bytes"),
    "not one of": ('[storage]\ndurability = "sometimes"\n', 2, "durability"),
    "registration": ('[accounts]\nregistration = "yes"\n', 2, "registration"),
    "no TOML": ("[limits\nin_flight = 5\n", 1, ""),
    "half a line": ("[limits]\nin_flight =\n", 2, ""),
    "twice": ("[limits]\nin_flight = 5\nin_flight = 6\n", 3, "in_flight"),
    "bad address": ('[server]\nlisten = "nowhere"\n', 2, "listen"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_configuration(name, tmp_path):
    """The start stops with 2 and names the file, the line and the key."""
    text, line, key = BAD[name]
    path = tmp_path / "bad.toml"
    path.write_text(text)
    done = run("serve", "--config", str(path), "--data", str(tmp_path / "d"),
               "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", timeout=10)
    assert done.returncode == 2, done
    assert key in done.stderr and "bad.toml" in done.stderr, done.stderr
    assert re.search(rf"\b{line}\b", done.stderr), done.stderr
    assert not (tmp_path / "d" / "parleyd.ports").exists()


@pytest.mark.parametrize("words, env, part", [
    (["--set", "limits.nonsense=1"], {}, "limits.nonsense"),
    (["--set", "limits.in_flight=x"], {}, "limits.in_flight"),
    ([], {"PARLEY_LIMITS_IN_FLIGHT": "x"}, "PARLEY_LIMITS_IN_FLIGHT"),
    ([], {"PARLEY_LIMITS_NONSENSE": "1"}, "PARLEY_LIMITS_NONSENSE"),
    (["--config", "/nonexistent/file.toml"], {}, "/nonexistent/file.toml"),
    (["--db", "postgres://x"], {}, ""),
    (["--set", "server.trusted_proxies=no address"], {}, "trusted_proxies"),
])
def test_bad_settings(words, env, part, tmp_path):
    done = run("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0",
               "--admin-listen", "127.0.0.1:0", *words, env=env, timeout=10)
    assert done.returncode == 2, done
    assert part.lower() in done.stderr.lower()


@pytest.mark.quick
def test_token_without_and_beside_a_server(make_server):
    """One line, valid, the user made once; the same user whether the server runs or not."""
    server = make_server(start=False)
    server.data.mkdir(exist_ok=True)
    first = server.cli_token("alice")
    server.start()
    second = server.cli_token("alice")
    subs = {tokens.decode(t)[1]["sub"] for t in (first, second)}
    assert len(subs) == 1 and first != second
    for token in (first, second):
        me = server.http(token).get("/me").json
        assert me["name"] == "alice" and me["user"] in subs
    assert server.admin.get("/admin/users?q=alice").json["users"][0]["user"] in subs


def test_user_commands(make_server):
    server = make_server()

    def user(*words, input=None):
        return run("user", *words, "--data", str(server.data), input=input)

    assert user("add", "bob").returncode == 0
    listed = user("list")
    assert listed.returncode == 0 and "bob" in listed.stdout
    assert user("add", "bob").returncode == 1  # there is one
    done = user("passwd", "bob", input="a good password\na good password\n")
    assert done.returncode == 0, done
    login = {"name": "bob", "password": "a good password"}
    answer = server.http().post("/login", login)
    assert answer.status == 200
    client = server.chat(answer.json["token"])
    assert user("suspend", "bob").returncode == 0
    client.wait_closed(4003, 2.0)
    assert server.http().post("/login", login).status == 403
    assert user("unsuspend", "bob").returncode == 0
    assert server.http().post("/login", login).status == 200
    assert user("suspend", "nobody-here").returncode == 1


def test_user_commands_without_a_server(make_server):
    server = make_server()
    assert server.stop() == 0
    for words in (["add", "carol"], ["list"], ["suspend", "carol"], ["unsuspend", "carol"]):
        done = run("user", *words, "--data", str(server.data))
        assert done.returncode == 0, done
    assert "carol" in run("user", "list", "--data", str(server.data)).stdout


@pytest.mark.quick
def test_check_finds_damage(make_server):
    """`check` is silent on a sound store and names what is wrong in another."""
    server = make_server()
    a, b = server.users(2)
    room = server.room(a, b)
    client = server.chat(a)
    for i in range(10):
        client.send_message(room, f"m{i}")
    assert server.cli("check").returncode == 0
    client.close()
    assert server.stop() == 0
    assert server.cli("check").returncode == 0
    path = next(server.data.glob("*.db"))
    for damage in ("DELETE FROM events WHERE seq = 7", "UPDATE rooms SET head_n = head_n + 1",
                   "UPDATE room_members SET own_n = own_n + 1",
                   "DELETE FROM messages WHERE seq = 5"):
        copy = pathlib.Path(str(server.data) + ".copy")
        subprocess.run(["cp", "-r", str(server.data), str(copy)], check=True)
        with sqlite3.connect(copy / path.name) as db:
            assert db.execute(damage).rowcount >= 1
        db.close()
        done = run("check", "--data", str(copy))
        assert done.returncode == 1, (damage, done)
        assert (done.stdout + done.stderr).strip()
        subprocess.run(["rm", "-r", str(copy)], check=True)


def test_migrate(tmp_path):
    """migrate makes the schema; a newer one than the program knows stops the start."""
    done = run("migrate", "--data", str(tmp_path))
    assert done.returncode == 0, done
    assert run("migrate", "--data", str(tmp_path)).returncode == 0
    path = next(tmp_path.glob("*.db"))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET v = '999' WHERE k LIKE '%schema%'")
        assert db.total_changes == 1
    db.close()
    done = run("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--admin-listen",
               "127.0.0.1:0", timeout=10)
    assert done.returncode == 1, done
    assert "999" in done.stderr and "schema" in done.stderr.lower()


def test_start_without_migrating(tmp_path):
    done = run("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--admin-listen",
               "127.0.0.1:0", "--set", "storage.migrate=false", timeout=10)
    assert done.returncode == 1, done
    assert "migrate" in done.stderr


# one owner

@pytest.mark.quick
def test_second_owner(make_server):
    """It ends with 1 and names the holder; the first goes on."""
    server = make_server()
    done = run("serve", "--data", str(server.data), "--listen", "127.0.0.1:0", "--admin-listen",
               "127.0.0.1:0", timeout=15)
    assert done.returncode == 1, done
    assert str(server.pid) in done.stderr, done.stderr
    done = run("migrate", "--data", str(server.data), timeout=15)
    assert done.returncode == 1 and str(server.pid) in done.stderr
    assert server.probe("/readyz") == 200
    server.kill9()
    server.start()  # a dead holder holds nothing


def test_port_in_use(make_server, tmp_path):
    server = make_server()
    done = run("serve", "--data", str(tmp_path), "--listen", server.host, "--admin-listen",
               "127.0.0.1:0", timeout=15)
    assert done.returncode == 1, done
    assert server.host.split(":")[1] in done.stderr


def test_data_folder_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    done = run("serve", "--data", str(file), "--listen", "127.0.0.1:0", "--admin-listen",
               "127.0.0.1:0", timeout=15)
    assert done.returncode in (1, 2), done
    assert done.stderr.strip()


def test_no_database(tmp_path):
    """A file that is none: a clear end, nothing overwritten."""
    (tmp_path / "parley.db").write_bytes(b"this is no database, " * 500)
    done = run("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--admin-listen",
               "127.0.0.1:0", timeout=15)
    assert done.returncode == 1, done
    assert (tmp_path / "parley.db").read_bytes().startswith(b"this is no database")


# signals

@pytest.mark.quick
def test_term(make_server):
    """bye with a time of its own each, closes spread, what was accepted is done, exit 0 in 10 s."""
    server = make_server(sets={"server.drain_ms": 3000, "limits.in_flight": 500})
    a, *users = server.users(12)
    room = server.room(a, *users)
    clients = [server.chat(u, enter={room: 0}) for u in users]
    source = server.chat(a)
    ids = source.batch([("message.send", {"room": room, "nonce": f"t{i}", "text": f"{i}"})
                        for i in range(200)])
    until(lambda: ids[0] in source.answers, 5, pump=[source])
    begun = time.monotonic()
    server.signal(signal.SIGTERM)
    for client in (*clients, source):
        assert client.wait_closed((1001, 1012), 10)
    byes = [client.event_seen("bye") for client in (*clients, source)]
    assert all(b["code"] in (1001, 1012) and b["retry_after_ms"] >= 0 for b in byes)
    assert len({b["retry_after_ms"] for b in byes}) > 3
    assert server.wait(10) == 0
    assert time.monotonic() - begun <= 10 * SLOWNESS
    acked = {source.answers[i]["seq"] for i in ids
             if i in source.answers and source.answers[i].get("ok")}
    refused = [source.answers[i]["error"]["code"] for i in ids
               if i in source.answers and "error" in source.answers[i]]
    assert set(refused) <= {"unavailable"}
    server.start()
    found = {m["seq"] for m in server.chat(a).request("history", room=room, limit=200)["messages"]}
    assert acked <= found


def test_not_ready_while_stopping(make_server):
    server = make_server(sets={"server.drain_ms": 2500})
    clients = [server.chat(u) for u in server.users(8)]
    server.signal(signal.SIGTERM)
    seen = set()

    def ended():
        seen.add(server.probe("/readyz"))
        for client in clients:
            client.pump(0)
        return server.process.poll() is not None

    until(ended, 12, every=0.05)
    assert 503 in seen or seen <= {0, 200}
    assert server.process.returncode == 0


@pytest.mark.quick
def test_second_term(make_server):
    server = make_server(sets={"server.drain_ms": 8000})
    clients = [server.chat(u) for u in server.users(10)]
    server.signal(signal.SIGTERM)
    until(lambda: any(c.pump(0.05) or c.close_frame for c in clients), 5)
    begun = time.monotonic()
    server.signal(signal.SIGTERM)
    assert server.wait(3) in (0, 1)  # not everything was said goodbye to
    assert time.monotonic() - begun < 2 * SLOWNESS


def test_interrupt_and_idle_stop(make_server):
    """INT is as TERM; with nobody there it is quick."""
    server = make_server()
    begun = time.monotonic()
    server.signal(signal.SIGINT)
    assert server.wait(10) == 0 and time.monotonic() - begun < 5 * SLOWNESS
    server.start()


def test_requests_under_way_at_term(make_server):
    """HTTP: what was accepted is answered."""
    server = make_server()
    a = server.user()
    room = server.room(a)
    answer = a.api.post(f"/rooms/{room}/messages", {"text": "x", "nonce": "n"})
    assert answer.status in (200, 201)
    assert server.stop() == 0
    with pytest.raises((OSError, Refused)):
        server.chat(a)
    server.start()
    assert server.chat(a).send_message(room, "x", "n")["duplicate"] is True


# start and log

def test_start_prints_where_to_go(make_server):
    server = make_server()
    text = server.stdout.read_text()
    assert f"listening on http://{server.host}" in text
    assert f"admin on http://{server.admin_host}" in text
    lines = (server.data / "parleyd.ports").read_text().splitlines()
    assert lines == [f"listen={server.host}", f"admin={server.admin_host}"]


def test_ready_with_many_messages(make_server):
    """Ready within 1 s on a store of 100,000 messages."""
    server = make_server(sets={"limits.in_flight": 1000})
    a = server.user()
    room = server.room(a)
    server.chat(a).send_message(room, "first")
    assert server.stop() == 0
    count = 100000
    head = store.fill(server, a, count, lambda i: f"text {i}")
    begun = time.monotonic()
    server.start()
    took = time.monotonic() - begun
    print(f"\nready after {took:.2f} s on {count} messages")
    assert took <= 1.0 * float(os.environ.get("PARLEY_SLOWNESS", "1"))
    client = server.chat(a)
    line = client.welcome["rooms"][0]
    assert line["unread"] == 0 and line["last_seq"] == head
    assert client.send_message(room, "next")["seq"] == head + 1
    done = server.cli("check", timeout=60)
    assert done.returncode == 0, done


def test_log_lines(make_server):
    """One JSON object per line with level, at and component; never a message's text."""
    server = make_server(sets={"log.level": "debug"})
    a = server.user()
    room = server.room(a, name="room name kept quiet")
    server.chat(a).send_message(room, "words for nobody else")
    server.stop()
    lines = server.text().splitlines()
    assert lines
    for line in lines:
        entry = json.loads(line)
        assert {"level", "at", "component"} <= set(entry)
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(entry["at"])) or \
            isinstance(entry["at"], int)
    assert "words for nobody else" not in server.text()
    server.start()


def test_log_cannot_be_forged(make_server):
    """What strangers choose stays inside its line."""
    server = make_server(sets={"log.level": "debug"})
    evil = 'x"}\n{"level":"error","at":"now","component":"forged"}'
    server.http().post("/login", {"name": evil, "password": "wrong password"})
    server.http(prefix="").get("/%0a%7b%22level%22:%22error%22%7d")
    client = server.chat(server.user(), client=evil)
    client.hostile(evil)
    assert not [e for e in server.log() if e.get("component") == "forged"]


def test_unclean_start_is_no_matter(make_server):
    server = make_server()
    for _ in range(3):
        server.restart()
    assert server.cli("check").returncode == 0


def test_relaxed(make_server):
    """`relaxed` says so everywhere."""
    server = make_server(sets={"storage.durability": "relaxed"})
    a = server.user()
    room = server.room(a)
    client = server.chat(a)
    assert client.welcome["durability"] == "relaxed"
    assert server.http(prefix="").get("/readyz").json["durability"] == "relaxed"
    seq = client.send_message(room, "x", "kept")["seq"]
    server.restart()
    assert server.chat(a).send_message(room, "x", "kept")["seq"] == seq


def test_defaults(tmp_path):
    """With nothing given: ./parley-data, and where to point a browser. On its own ports only."""
    server = Server(data=tmp_path / "parley-data")
    server.start()
    assert server.probe("/livez") == 200
    assert server.stop() == 0
    assert os.access(BINARY, os.X_OK)

"""A walk through every message that the published contract documents, against a real server; at its end
everything that was sent and received in it is held against schemas/ by tests/contract/validate.mjs, which also says
what did not occur. (Where PARLEY_RECORD names a folder, the walk's frames go there too.)
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from parley import record
from parley.wait import until

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "tests" / "contract"
PASSWORD = "correct horse 9"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A folder of this module's own to record into."""
    before = record._DIR, record._file
    folder = tmp_path_factory.mktemp("contract")
    record._DIR, record._file = str(folder), None
    yield folder
    if record._file is not None:
        record._file.close()
    record._DIR, record._file = before
    if before[0]:
        os.makedirs(before[0], exist_ok=True)
        for path in folder.glob("*.jsonl"):
            shutil.copy(path, pathlib.Path(before[0]) / f"contract-{path.name}")


@pytest.fixture(scope="module")
def server(recording, make_server):
    return make_server(
        config="[limits]\ntext_code_points = 4000\n",
        sets={"timers.sync_ms": 700, "presence.grace_ms": 300, "timers.typing_ms": 500})


def test_accounts(server):
    name = f"p{os.urandom(4).hex()}"
    plain = server.http()
    made = plain.post("/users", {"name": name, "password": PASSWORD, "display_name": "P"})
    assert made.status == 201, made
    answer = plain.post("/login", {"name": name, "password": PASSWORD})
    assert answer.header("parley-device")
    api = server.http(answer.json["token"])
    assert api.get("/me").json["name"] == name
    changed = api.patch("/me", {"display_name": "Q", "picture": "https://pictures.example/p.png"})
    assert changed.json["display_name"] == "Q" and changed.json["picture"]
    assert api.get(f"/users?id={made.json['user']}").json["users"][0]["name"] == name
    assert api.post("/token").status == 200
    changed = api.put("/password", {"password": PASSWORD, "new_password": PASSWORD + "!"})
    api = server.http(changed.json["token"])
    assert api.post("/logout").status == 204
    assert api.get("/me").status == 401
    assert plain.post("/login", {"name": name, "password": "wrong password"}).status == 401


def test_rooms_and_messages_over_http(server):
    a, b = server.users(2)
    room = a.api.post("/rooms", {"name": "HTTP", "kind": "public"}, headers=[("Idempotency-Key", "k1")]).json["room"]
    assert a.api.post("/rooms", {"name": "HTTP", "kind": "public"}, headers=[("Idempotency-Key", "k1")]).status == 200
    assert a.api.patch(f"/rooms/{room}", {"topic": "T", "history": "all"}).status == 200
    assert "role" not in b.api.get(f"/rooms/{room}").json, "one who is no member has no role"
    assert b.api.put(f"/rooms/{room}/members/{b.id}").status == 200
    sent = a.api.post(f"/rooms/{room}/messages", {"text": "over HTTP", "nonce": "m1"})
    assert sent.status == 201
    again = a.api.post(f"/rooms/{room}/messages", {"text": "over HTTP", "nonce": "m1"})
    assert again.status == 200 and again.json["duplicate"] is True
    assert a.api.post(f"/rooms/{room}/messages", {"text": "other", "nonce": "m1"}).status == 409
    assert len(b.api.get(f"/rooms/{room}/messages?limit=1").json["messages"]) == 1
    assert b.api.put(f"/rooms/{room}/read", {"seq": sent.json["seq"]}).json["unread"] == 0
    assert b.api.get(f"/rooms/{room}").json["role"] == "member"
    assert len(a.api.get(f"/rooms/{room}/members?limit=1").json["members"]) == 1
    assert a.api.get("/rooms").json["rooms"][0]["room"] == room
    assert a.api.get(f"/rooms/{room}/presence").status == 200
    assert b.api.delete(f"/rooms/{room}/members/{b.id}").status == 200
    assert b.api.get(f"/rooms/{room}/messages").status == 403
    assert a.api.get("/rooms/none").status == 404


def test_sessions(server):
    a, b, c = server.users(3)
    alice, bob = server.chat(a), server.chat(b)
    room = alice.request("room.create", name="Walk", kind="public", nonce="c1")["room"]
    assert alice.request("room.create", name="Walk", kind="public", nonce="c1")["duplicate"] is True
    alice.request("room.create", kind="direct", members=[b.id])
    joined = bob.request("room.join", room=room, nonce="j1")
    again = bob.request("room.join", room=room, nonce="j1")
    assert (again["seq"], again["duplicate"]) == (joined["seq"], True)
    alice.request("room.enter", room=room)
    bob.request("room.enter", room=room, after_seq=0, epoch=bob.welcome["epoch"])
    invited = alice.request("room.invite", room=room, user=c.id, nonce="i1")
    again = alice.request("room.invite", room=room, user=c.id, nonce="i1")
    assert (again["seq"], again["duplicate"]) == (invited["seq"], True)
    alice.event("member.changed", user=c.id)
    alice.request("room.change", room=room, topic="Walking", slow_mode_s=0, retention_days=30)
    bob.event("room.changed")
    first = alice.send_message(room, "안녕 👋", nonce="s1")
    assert alice.send_message(room, "안녕 👋", nonce="s1")["duplicate"] is True
    reply = alice.send_message(room, "again", reply_to=first["seq"])
    bob.event("message.created", seq=reply["seq"], reply_to=first["seq"])
    alice.post("typing", room=room)
    bob.event("typing", on=True)
    bob.event("typing", on=False)
    bob.request("message.read", room=room, seq=reply["seq"])
    alice.event("read")
    bob.request("message.unread", room=room, seq=reply["seq"])
    assert bob.request("history", room=room)["messages"]
    assert bob.request("events", room=room, after_seq=0)["events"]
    assert bob.request("users", users=[a.id, b.id])["users"]
    assert len(bob.request("rooms", limit=1)["rooms"]) == 1
    bob.request("ping")
    # b names itself anew; those who look at a common room are told
    assert b.api.patch("/me", {"display_name": "Bob Two"}).status == 200
    alice.event("user.updated")
    bob.request("token.renew", token=server.forge(b))
    # b goes out, and is told in numbers what is said
    bob.request("room.exit", room=room)
    alice.send_message(room, "b does not look")
    bob.event("unread")
    bob.event("room.updated", room=room)
    alice.event("sync", timeout=10)
    # a third who comes back, with a room that is not his and one that he is behind in
    other = server.chat(c)
    other.request("room.join", room=room)
    other.close()
    alice.find(lambda f: f.get("ev") == "presence" and any(not u["online"] and "last_seen" in u for u in f["users"]),
               10, "presence that tells when one was last seen")
    back = server.chat(c, enter={room: 0, "r_none": 3})
    assert {e["room"]: "error" in e for e in back.welcome["entered"]} == {room: False, "r_none": True}
    reset = back.request("room.enter", room=room, after_seq=0, epoch="another")
    assert reset["reset"] is True
    back.request("room.leave", room=room)
    back.event("room.mine", gone=True)
    alice.event("member.left", user=c.id)
    with_members = server.room(a, b, name="With b")
    assert alice.request("events", room=with_members, after_seq=0)["events"][1]["by"] == a.id
    elsewhere = server.chat(a, epoch="another", enter={room: 1})
    assert elsewhere.welcome["entered"][0]["reset"] is True
    elsewhere.request("room.change", room=room, name="Walked", history="joined", slow_mode_s=1, nonce="w1")
    assert elsewhere.request("room.change", room=room, name="Walked", history="joined", slow_mode_s=1,
                             nonce="w1")["duplicate"] is True
    late = server.chat(c)
    late.request("room.join", room=room)
    assert late.request("history", room=room, after_seq=0)["gap"][0]["why"] == "not_yours"
    alice.refused("room.join", "not_found", room="r_none")
    alice.refused("history", "bad_request", room=room, before_seq=3, after_seq=3)
    alice.refused("message.send", "conflict", room=room, nonce="s1", text="another")


def test_gap_and_page(make_server, recording):
    server = make_server(sets={"limits.replay_events": 5})
    a = server.user()
    client = server.chat(a)
    room = server.room(a)
    for i in range(12):
        client.send_message(room, f"{i}")
    assert client.request("room.enter", room=room, after_seq=0)["gap"][0]["why"] == "far"
    behind = server.chat(a, enter={room: 1})
    assert behind.welcome["entered"][0]["gap"][0]["why"] == "far"
    for i in range(60):
        client.request("room.create", name=f"{i}", kind="private")
    page = client.request("rooms", limit=20)
    assert len(page["rooms"]) == 20
    assert client.request("rooms", limit=20, cursor=page["rooms_next"])["rooms"]


def test_refused_for_a_while(make_server, recording):
    server = make_server(roomy=False, sets={"limits.messages_burst": 1, "limits.messages_per_s": 1})
    a = server.user()
    client, room = server.chat(a), server.room(a)
    client.send_message(room, "one")
    assert client.refused("message.send", "rate_limited", room=room, nonce="r1", text="two")["retry_after_ms"] > 0
    answer = a.api.post(f"/rooms/{room}/messages", {"text": "three", "nonce": "r2"})
    assert answer.status == 429 and answer.header("retry-after")


def test_many_members_are_counted(make_server, recording):
    server = make_server(sets={"timers.name_nobody_above": 2})
    people = server.users(6)
    room = server.room(people[0], kind="public")
    clients = [server.chat(p) for p in people]
    for client in clients[:4]:
        client.request("room.join", room=room) if client is not clients[0] else None
        client.request("room.enter", room=room)
    for client in clients[4:]:
        client.request("room.join", room=room)
    clients[0].event("members.changed", timeout=10)


def test_a_token_that_ends_soon(server):
    # The warning comes a minute before the end; a slow machine may take a while to say hello.
    a = server.user(ttl_s=66)
    assert server.chat(a).event("token.expiring", timeout=20)["expires_at"]


def test_documents_and_page(server):
    plain = server.http(prefix="")
    for path in ("/livez", "/readyz", "/openapi.json", "/asyncapi.json", "/"):
        assert plain.get(path).status == 200, path
    page = plain.get("/").body.decode()
    assets = re.findall(r'(?:src|href)="/?([\w.-]+\.(?:js|css|svg))"', page)
    assert assets
    for asset in assets:
        assert plain.get(f"/{asset}").status == 200, asset
    assert plain.get("/api/v1/none").status == 404
    assert plain.get("/api/v1/me").status == 401
    assert plain.delete("/livez").status == 405


def test_the_served_documents_are_those_of_this_tree(server, tmp_path):
    subprocess.run([ROOT / "scripts" / "bundle_schemas", "--out", tmp_path], check=True, timeout=60)
    for name in ("openapi", "asyncapi"):
        served = server.http(prefix="").get(f"/{name}.json").json
        assert served == json.loads((tmp_path / f"{name}.json").read_text()), name


def test_admin(server):
    a = server.user()
    client = server.chat(a)
    room = server.room(a)
    client.request("room.enter", room=room)
    admin = server.admin
    assert admin.get("/metrics").status == 200
    for what, one in (("actors", "id"), ("rooms", "room"), ("sessions", "session")):
        listed = admin.get(f"/admin/{what}?limit=1").json
        assert len(listed[what]) == 1 and listed["total"] >= 1
        assert admin.get(f"/admin/{what}/{listed[what][0][one]}").status == 200
    assert admin.get("/admin/actors?kind=room").json["actors"]
    assert admin.get("/admin/actors/none").status == 404
    assert admin.get("/admin/storage").status == 200
    assert admin.post("/admin/check").json["ok"] is True
    assert admin.post("/admin/reload").json["ok"] is True
    session = client.welcome["session"]
    assert admin.delete(f"/admin/sessions/{session}").status == 200
    client.event("bye")
    quiet = server.room(a)
    a.api.get(f"/rooms/{quiet}")
    until(lambda: admin.post(f"/admin/rooms/{quiet}/passivate").status in (200, 404), 10, "the room can be put away")
    made = admin.post("/admin/users", {"name": f"n{os.urandom(4).hex()}", "password": PASSWORD})
    user = made.json["user"]
    assert made.status == 201 and admin.get(f"/admin/users?q={made.json['name']}").json["users"]
    assert admin.post(f"/admin/users/{user}/password", {"password": PASSWORD + "!"}).status == 200
    assert admin.post(f"/admin/users/{user}/suspend", {"reason": "a test"}).status == 200
    assert admin.post(f"/admin/users/{user}/unsuspend").status == 200
    assert admin.post("/admin/invitations").status == 201
    assert admin.post("/admin/tokens", {"user": user, "ttl_s": 60}).status == 201
    from parley.http import Api
    assert Api(server.admin_address, "not the token", prefix="").get("/admin/actors").status == 401


def test_all_of_it_fits_the_contract(recording):
    """Last: every frame and body above, and whether anything documented never occurred."""
    if not (CONTRACT / "node_modules").exists():
        message = "tests/contract has no node_modules: npm ci there"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
    done = subprocess.run(["node", CONTRACT / "validate.mjs", "--require-coverage", recording],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + done.stdout

"""The HTTP API: parity with the socket, Idempotency-Key, problems, paging, documents."""

import json
import os

import pytest

from parley.wait import until

pytestmark = pytest.mark.quick


@pytest.fixture
def pair(server):
    a, b = server.users(2)
    return a, b, server.room(a, b, name="pair")


def test_send_and_read(server, pair):
    a, b, room = pair
    watcher = server.chat(b, enter={room: 0})
    answer = a.api.post(f"/rooms/{room}/messages", {"text": "over HTTP", "nonce": "h1"})
    assert answer.status in (200, 201)
    event = watcher.event("message.created", room=room)
    assert event["text"] == "over HTTP" and event["seq"] == answer.json["seq"]
    assert event["at"] == answer.json["at"]
    page = b.api.get(f"/rooms/{room}/messages").json
    assert page["messages"][0]["text"] == "over HTTP" and page["as_of"] == 3
    mark = b.api.put(f"/rooms/{room}/read", {"seq": 3})
    assert mark.json == {"read_seq": 3, "unread": 0, "mentions": 0}
    assert b.api.put(f"/rooms/{room}/read", {"seq": 1}).json["read_seq"] == 3


def test_idempotency_key(server, pair):
    a, _, room = pair
    key = "key-" + os.urandom(4).hex()
    call = lambda text: a.api.call("POST", f"/rooms/{room}/messages", {"text": text},
                                   [("Idempotency-Key", key)])
    first = call("once")
    again = call("once")
    assert first.status in (200, 201) and again.json["seq"] == first.json["seq"]
    assert again.json["duplicate"] is True
    assert server.chat(a).send_message(room, "once", key)["seq"] == first.json["seq"]
    answer = call("else")
    assert answer.status == 409 and answer.code == "conflict"
    answer = a.api.post(f"/rooms/{room}/messages", {"text": "no nonce"}, hostile=True)
    assert answer.status == 400 and "nonce" in answer.body.decode()
    made = [a.api.call("POST", "/rooms", {"name": "x", "kind": "private"},
                       [("Idempotency-Key", key)]).json["room"] for _ in range(2)]
    assert made[0] == made[1]
    for bad in ("", "a b", "x" * 65, "ä"):
        answer = a.api.call("POST", f"/rooms/{room}/messages", {"text": "x"},
                            [("Idempotency-Key", bad)], hostile=True)
        assert answer.status == 400, bad


def test_rooms_and_members(server, pair):
    a, b, room = pair
    card = a.api.get(f"/rooms/{room}").json
    listed = next(r for r in a.api.get("/rooms").json["rooms"] if r["room"] == room)
    assert card == listed
    members = a.api.get(f"/rooms/{room}/members").json["members"]
    assert {m["user"]: m["role"] for m in members} == {a.id: "owner", b.id: "member"}
    c = server.user()
    public = server.room(a, kind="public", name="hall")
    joined = c.api.put(f"/rooms/{public}/members/{c.id}", {})
    assert joined.status in (200, 201) and joined.json["seq"] == 2
    assert c.api.put(f"/rooms/{public}/members/{c.id}", {}).json["seq"] == 2
    watcher = server.chat(a, enter={public: 0})
    left = c.api.delete(f"/rooms/{public}/members/{c.id}")
    assert left.status == 200 and left.json["seq"] == 3
    assert watcher.event("member.left", room=public)["user"] == c.id
    here = server.chat(b)
    here.fence()
    until(lambda: b.id in [u["user"] for u in a.api.get(f"/rooms/{room}/presence").json["users"]
                           if u["online"]], 3)


def test_members_paging(server):
    owner = server.user()
    members = server.users(30)
    room = server.room(owner, *members)
    found, cursor = [], None
    while True:
        page = owner.api.get(f"/rooms/{room}/members?limit=7"
                             + (f"&cursor={cursor}" if cursor else "")).json
        assert len(page["members"]) <= 7
        found += [m["user"] for m in page["members"]]
        cursor = page.get("next")
        if not cursor:
            break
    assert len(found) == 31 and set(found) == {owner.id, *(m.id for m in members)}


def test_message_paging(server, pair):
    a, _, room = pair
    client = server.chat(a)
    ids = client.batch([("message.send", {"room": room, "nonce": f"m{i}", "text": f"{i}"})
                        for i in range(60)])
    assert all(client.answer(i)["ok"] for i in ids)
    page = a.api.get(f"/rooms/{room}/messages?limit=25").json
    assert [m["text"] for m in page["messages"]] == [str(i) for i in range(35, 60)] and page["more"]
    before = page["messages"][0]["seq"]
    page = a.api.get(f"/rooms/{room}/messages?limit=100&before_seq={before}").json
    assert len(page["messages"]) == 35 and page["more"] is False
    page = a.api.get(f"/rooms/{room}/messages?after_seq=3&limit=2").json
    assert [m["seq"] for m in page["messages"]] == [4, 5] and page["more"] is True
    assert a.api.get(f"/rooms/{room}/messages?after_seq=3&before_seq=9").status == 400
    assert len(a.api.get(f"/rooms/{room}/messages?limit=1000").json["messages"]) == 60


@pytest.mark.parametrize("method, path, body, status, code", [
    ("GET", "/rooms/r_missing", None, 404, "not_found"),
    ("GET", "/nowhere", None, 404, "not_found"),
    ("POST", "/rooms", {"kind": "private"}, 400, "bad_request"),
    ("POST", "/rooms", [], 400, "bad_request"),
    ("POST", "/login", {"name": "nobody", "password": "wrong password"}, 401, "unauthenticated"),
    ("GET", "/rooms?limit=x", None, 400, "bad_request"),
    ("GET", "/rooms?cursor=x", None, 400, "bad_request"),
])
def test_problems(server, method, path, body, status, code):
    """RFC 9457 with the same codes as on the socket."""
    answer = server.user().api.call(method, path, body, hostile=True)
    assert answer.status == status, answer
    assert answer.code == code
    problem = answer.json
    assert problem["status"] == status and problem["type"] and problem["title"]


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_health(server, path):
    for api in (server.http(prefix=""), server.admin):
        answer = api.get(path)
        assert answer.status == 200
    ready = server.http(prefix="").get("/readyz").json
    assert ready["status"] == "ready" and ready["durability"] == "full"


def test_documents(server):
    openapi = server.http(prefix="").get("/openapi.json").json
    assert openapi["openapi"].startswith("3.1")
    asyncapi = server.http(prefix="").get("/asyncapi.json").json
    assert asyncapi["asyncapi"].startswith("3.")
    text = json.dumps(openapi)
    for path in ("/users", "/login", "/logout", "/token", "/password", "/me", "/rooms"):
        assert path in text
    page = server.http(prefix="").get("/")
    assert page.status == 200 and page.header("content-type").startswith("text/html")


def test_page_headers(server):
    """S89: a strict policy, no inline script, no cookies."""
    for path in ("/", "/nowhere"):
        answer = server.http(prefix="").get(path)
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("set-cookie") is None
    page = server.http(prefix="").get("/")
    assert page.header("referrer-policy")
    policy = dict(p.strip().split(" ", 1) for p in
                  page.header("content-security-policy").split(";") if " " in p.strip())
    assert policy["default-src"] in ("'self'", "'none'")
    assert policy.get("script-src", policy["default-src"]) == "'self'"
    assert policy["object-src"] == "'none'" if "object-src" in policy else \
        policy["default-src"] == "'none'"
    assert policy["base-uri"] == "'none'" and policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in page.header("content-security-policy")
    html = page.body.decode()
    assert "<script>" not in html and " onclick=" not in html and "javascript:" not in html


def test_users_and_me(server, pair):
    a, b, _ = pair
    assert a.api.get("/me").json["user"] == a.id
    assert a.api.get(f"/users?id={b.id}").json["users"][0]["user"] == b.id
    assert a.api.patch("/me", {"display_name": "x" * 129}, hostile=True).status in (400, 413)
    assert a.api.patch("/me", {"display_name": "A  B"}).json["display_name"] == "A  B"


def test_retry_after_is_whole_seconds(make_server):
    server = make_server(roomy=False, sets={"limits.messages_per_s": 1, "limits.messages_burst": 1})
    a = server.user()
    room = server.room(a)
    for i in range(3):
        answer = a.api.post(f"/rooms/{room}/messages", {"text": "x", "nonce": f"r{i}"})
    assert answer.status == 429
    assert answer.header("retry-after").isdigit() and int(answer.header("retry-after")) >= 1


def test_nul_and_bad_paths_in_ids(server):
    user = server.user()
    for id in ("%00", "a%2Fb", "x" * 65, "%F0%9F%98%80", "a%20b"):
        answer = user.api.get(f"/rooms/{id}")
        assert answer.status in (400, 404), (id, answer)

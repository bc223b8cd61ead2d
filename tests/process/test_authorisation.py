"""Who may see and do what: a matrix of stranger, invited, member, leaver and owner against every
op and call (hostile rows S97 to S114). The second half of each is the leak: what others get told.
"""

import json
import statistics
import time

import pytest

from parley.chat import Chat
from parley.http import HttpConnection
from parley.wait import SLOWNESS, keep

pytestmark = pytest.mark.quick

OPS = [
    ("history", {}), ("events", {"after_seq": 0}), ("room.enter", {}),
    ("room.enter", {"after_seq": 0}), ("message.send", {"text": "x", "nonce": "n1"}),
    ("message.read", {"seq": 1}), ("message.unread", {"seq": 3}), ("room.leave", {}),
    ("room.change", {"name": "mine now"}), ("room.invite", {"user": "@other"}), ("typing", {}),
    ("room.exit", {}),
]
CALLS = [
    ("GET", "", None), ("GET", "/members", None), ("GET", "/presence", None),
    ("GET", "/messages", None), ("GET", "/messages?after_seq=0", None),
    ("POST", "/messages", {"text": "x", "nonce": "n2"}), ("PUT", "/read", {"seq": 1}),
    ("PATCH", "", {"name": "mine now"}), ("DELETE", "/members/@me", None),
    ("PUT", "/members/@other", {}),
]


class World:
    """A private and a public room of `owner` and `member`; stranger, invited and leaver."""

    def __init__(self, server):
        self.server = server
        self.owner, self.member, self.stranger, self.invited, self.leaver = server.users(5)
        self.private = server.room(self.owner, self.member, self.leaver, name="private")
        self.public = server.room(self.owner, self.member, self.leaver, name="open", kind="public")
        self.secret = "a secret word"
        owner = server.chat(self.owner)
        for room in (self.private, self.public):
            owner.send_message(room, self.secret)
            owner.request("room.invite", room=room, user=self.invited.id)
            server.chat(self.leaver).request("room.leave", room=room)
        owner.close()
        self.missing = "r_" + "x" * 16


@pytest.fixture(scope="module")
def world(server):
    return World(server)


def fill(fields, world, me):
    return {k: (world.member.id if v == "@other" else v) for k, v in fields.items()}


@pytest.mark.parametrize("who", ["stranger", "invited", "leaver"])
@pytest.mark.parametrize("op, fields", OPS, ids=[f"{o}{'+' if f else ''}" for o, f in OPS])
def test_private_room_is_as_missing(world, who, op, fields):
    """S97: not_found, word for word as of a room that is not there."""
    me = getattr(world, who)
    client = world.server.chat(me)
    answers = []
    for room in (world.private, world.missing):
        answer = client.ask(op, room=room, **fill(fields, world, me))
        assert answer.get("error", {}).get("code") == "not_found", answer
        answers.append(json.dumps(answer["error"]).replace(room, "R"))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("who", ["stranger", "invited", "leaver"])
@pytest.mark.parametrize("method, path, body", CALLS, ids=[f"{m}{p}" for m, p, _ in CALLS])
def test_private_room_is_as_missing_over_http(world, who, method, path, body):
    me = getattr(world, who)
    path = path.replace("@me", me.id).replace("@other", world.member.id)
    answers = []
    for room in (world.private, world.missing):
        answer = me.api.call(method, f"/rooms/{room}{path}", body)
        assert answer.status == 404 and answer.code == "not_found", answer
        answers.append((answer.body.decode().replace(room, "R"),
                        sorted(k for k, _ in answer.headers)))
    assert answers[0] == answers[1]


def test_private_room_takes_as_long_as_missing(world):
    """S97: the same time, within noise."""
    client = world.server.chat(world.stranger)
    times = {world.private: [], world.missing: []}
    for _ in range(100):  # by turns, so that a busy machine is busy for both
        for room, kept in times.items():
            t0 = time.perf_counter()
            client.ask("history", room=room)
            kept.append(time.perf_counter() - t0)
    there, missing = (statistics.median(kept) for kept in times.values())
    assert abs(there - missing) < 0.003 * SLOWNESS, (there, missing)


@pytest.mark.parametrize("op, fields", OPS, ids=[f"{o}{'+' if f else ''}" for o, f in OPS])
@pytest.mark.parametrize("who", ["stranger", "leaver"])
def test_public_room_keeps_its_content(world, op, fields, who):
    """Of a public room others get forbidden for its content."""
    client = world.server.chat(getattr(world, who))
    answer = client.ask(op, room=world.public, **fill(fields, world, world.stranger))
    assert answer.get("error", {}).get("code") == "forbidden", answer


def test_invited_may_join_and_nothing_else(server):
    a, b = server.users(2)
    room = server.room(a, name="by invitation")
    server.chat(a).request("room.invite", room=room, user=b.id)
    client = server.chat(b)
    client.refused("history", "not_found", room=room)
    assert all(r["room"] != room for r in client.welcome["rooms"])
    seq = client.request("room.join", room=room)["seq"]
    listed = next(r for r in server.chat(b).welcome["rooms"] if r["room"] == room)
    assert listed["read_seq"] == seq and listed["unread"] == 0
    client.request("history", room=room)


def test_join_without_invitation(world):
    client = world.server.chat(world.stranger)
    client.refused("room.join", "not_found", room=world.private)
    client.refused("room.join", "not_found", room=world.missing)


def test_who_may_invite(server):
    """Members in public rooms, moderators and owners elsewhere."""
    a, b, c = server.users(3)
    private, public = server.room(a, b), server.room(a, b, kind="public")
    member = server.chat(b)
    member.refused("room.invite", "forbidden", room=private, user=c.id)
    member.request("room.invite", room=public, user=c.id)
    owner = server.chat(a)
    first = owner.request("room.invite", room=private, user=c.id)["seq"]
    assert owner.request("room.invite", room=private, user=c.id)["seq"] == first
    owner.refused("room.invite", "not_found", room=private, user="u_" + "q" * 16)
    joined = server.chat(c).request("room.join", room=private)["seq"]
    assert owner.request("room.invite", room=private, user=c.id)["seq"] == joined


def test_members_may_not_change_the_room(world):
    client = world.server.chat(world.member)
    client.refused("room.change", "forbidden", room=world.private, name="x")
    answer = world.member.api.patch(f"/rooms/{world.private}", {"name": "x"})
    assert answer.status == 403 and answer.code == "forbidden"
    for op in ("room.role", "room.kick", "room.ban"):
        error = client.hostile(op, room=world.private, user=world.member.id, role="owner")["error"]
        assert error["code"] in ("bad_request", "forbidden")


def test_claims_in_a_message_are_ignored(server):
    """S100: the server sets sender, seq and time."""
    a, b = server.users(2)
    room = server.room(a, b)
    client = server.chat(b)
    before = int(time.time() * 1000)
    answer = client.send_message(room, "mine", sender=a.id, user_id=a.id, seq=1, created_at=5, at=5)
    event = client.event("message.created", room=room, seq=answer["seq"])
    assert event["sender"] == b.id and event["seq"] == answer["seq"] > 1
    assert before - 1000 <= event["at"] == answer["at"] <= time.time() * 1000 + 1000


def test_reply_into_another_room(server):
    """S101: a reply names a message of its own room, or nothing is quoted."""
    a, b = server.users(2)
    one, two = server.room(a), server.room(a, b)
    owner = server.chat(a)
    seqs = [owner.send_message(one, f"only in one {i}")["seq"] for i in range(6)]
    client = server.chat(b)
    client.refused("message.send", {"not_found", "bad_request"}, room=two, nonce="r1", text="re",
                   reply_to=seqs[-1])
    client.refused("message.send", {"not_found", "bad_request"}, room=two, nonce="r2", text="re",
                   reply_to=1)  # a membership is no message


def test_leaver_gets_nothing_more(server):
    """S104: the own member.left is the last; resume, pages and reads are refused."""
    a, b = server.users(2)
    room = server.room(a, b)
    owner, leaver = server.chat(a), server.chat(b, enter={room: 0})
    second = server.chat(b, enter="all")
    for i in range(20):
        owner.send_message(room, f"before {i}")
    left = leaver.request("room.leave", room=room)["seq"]
    owner.batch([("message.send", {"room": room, "nonce": f"after{i}", "text": "after"})
                 for i in range(50)])
    owner.wait_seq(room, left + 50)
    for client in (leaver, second):
        client.event("member.left", room=room, seq=left)
        client.fence()
        keep(lambda: not [s for s in client.seqs(room, ev=None) if s > left], 0.5, [client])
        assert client.event("room.mine", room=room)["gone"] is True
        assert not any("after" in str(f) for f in client.log)
    for op, fields in [("room.enter", {"after_seq": 3}), ("history", {}), ("events", {"after_seq": 1}),
                       ("message.send", {"text": "x", "nonce": "late"})]:
        leaver.refused(op, "not_found", room=room, **fields)
    assert b.api.get(f"/rooms/{room}/messages?before_seq=10").status == 404
    assert all(r["room"] != room for r in server.chat(b).welcome["rooms"])


def test_leave_in_the_middle_of_a_replay(server):
    """S104: leaving ends a replay that is under way."""
    a, b = server.users(2)
    room = server.room(a, b)
    owner = server.chat(a, sample=True)
    for part in range(8):
        done = owner.batch([("message.send", {"room": room, "nonce": f"m{part}-{i}", "text": "y" * 3000})
                            for i in range(60)])
        owner.answer(done[-1])
    client = Chat.connect(server, b.token, rcvbuf=4096)
    client.post("room.enter", room=room, after_seq=0)
    leave = client.post("room.leave", room=room)
    left = client.answer(leave, 20)["seq"]
    owner.send_message(room, "not for the leaver")
    client.fence()
    assert max(client.seqs(room, ev=None), default=0) <= left
    assert "not for the leaver" not in client.texts(room)


@pytest.mark.parametrize("policy", ["all", "joined"])
def test_history_after_coming_back(server, policy):
    """S105: exactly as the room's policy has it."""
    a, b = server.users(2)
    room = server.room(a, b, kind="public", history=policy)
    owner, client = server.chat(a), server.chat(b)
    first = owner.send_message(room, "one")["seq"]
    client.request("room.leave", room=room)
    hidden = owner.send_message(room, "two")["seq"]
    joined = client.request("room.join", room=room)["seq"]
    last = owner.send_message(room, "three")["seq"]
    page = client.request("history", room=room, after_seq=0)
    texts = [m["text"] for m in page["messages"]]
    entered = client.request("room.enter", room=room, after_seq=0)
    client.wait_seq(room, last)
    seqs = client.seqs(room, ev=None)
    events = client.request("events", room=room, after_seq=0)
    if policy == "all":
        assert texts == ["one", "two", "three"]
        assert "gap" not in entered and seqs[-last:] == list(range(1, last + 1))
        assert [e["seq"] for e in events["events"]] == list(range(1, last + 1))
    else:
        assert texts == ["three"]
        assert entered["gap"] == [{"from": 1, "to": joined - 1, "why": "not_yours"}]
        assert events["gap"] == [{"from": 1, "to": joined - 1, "why": "not_yours"}]
        assert page["gap"][0]["why"] == "not_yours"
        assert min(s for s in seqs) >= joined and first < hidden < joined
        assert [e["seq"] for e in events["events"]] == list(range(joined, last + 1))
        answer = b.api.get(f"/rooms/{room}/messages?after_seq=0").json
        assert [m["text"] for m in answer["messages"]] == ["three"]


def test_strangers_are_told_nothing(server, world):
    """S110, S111, behaviour 106: presence, typing, roles, joins and messages stay in their room."""
    watcher = server.chat(world.stranger, enter="all")
    mark = watcher.mark()
    owner = server.chat(world.owner, enter={world.private: 0, world.public: 0})
    member = server.chat(world.member, enter={world.private: 0, world.public: 0})
    for room in (world.private, world.public):
        owner.request("typing", room=room)
        owner.send_message(room, f"@{world.stranger.name} hello")
        owner.request("room.change", room=room, topic="changed")
        member.request("message.read", room=room, seq=2)
    owner.request("room.invite", room=world.private, user=world.leaver.id)
    member.fence()
    watcher.fence()
    keep(lambda: not [f for f in watcher.log[mark:] if "ev" in f and f["ev"] != "sync"], 1.2,
         [watcher, owner, member], lambda: watcher.log[mark:])


def test_only_the_invited_hears_of_the_invitation(server):
    a, b, c = server.users(3)
    room = server.room(a)
    client, other = server.chat(b), server.chat(c)
    server.chat(a).request("room.invite", room=room, user=b.id)
    other.fence()
    assert not [f for f in other.log if f.get("ev") in ("room.mine", "room.updated", "unread")]
    client.fence()
    assert not [f for f in client.log if f.get("ev") in ("room.updated", "unread", "member.changed")]


def test_last_owner_leaves(server):
    """S112: the longest-serving member becomes owner, by an event of its own."""
    a, b, c = server.users(3)
    room = server.room(a, b, kind="public")
    server.chat(c).request("room.join", room=room)
    watcher = server.chat(b, enter={room: 0})
    left = server.chat(a).request("room.leave", room=room)["seq"]
    event = watcher.event("member.changed", room=room)
    assert event["user"] == b.id and event["role"] == "owner" and event["seq"] == left + 1
    assert watcher.event("room.mine", room=room)["role"] == "owner"
    watcher.request("room.change", room=room, name="still owned")
    # the last one of all may leave too
    server.chat(c).request("room.leave", room=room)
    watcher.request("room.leave", room=room)
    server.chat(c).request("room.join", room=room)


def test_direct_rooms(server):
    """S109: one per pair, from either side; nobody else's, whatever its id."""
    a, b, c = server.users(3)
    client = server.chat(a)
    room = client.request("room.create", kind="direct", name="", members=[b.id])["room"]
    assert client.request("room.create", kind="direct", name="", members=[b.id])["room"] == room
    assert server.chat(b).request("room.create", kind="direct", name="",
                                  members=[a.id])["room"] == room
    stranger = server.chat(c)
    for op, fields in OPS:
        stranger.refused(op, "not_found", room=room, **{k: (a.id if v == "@other" else v)
                                                       for k, v in fields.items()})
    stranger.refused("room.join", "not_found", room=room)
    for members in ([], [b.id, c.id], [a.id], ["u_" + "z" * 16]):
        client.refused("room.create", {"bad_request", "not_found"}, kind="direct", name="",
                       members=members)
    for guess in (f"dm:{a.id}:{b.id}", f"{a.id}:{b.id}"):
        stranger.refused("room.enter", "not_found", room=guess)


def test_room_ids_are_the_servers(server):
    """Only the administrator chooses room ids."""
    a = server.user()
    room = server.chat(a).request("room.create", name="x", kind="private", room="chosen")["room"]
    assert room != "chosen"
    assert a.api.post("/rooms", {"name": "x", "kind": "private", "room": "chosen2"}).json[
        "room"] != "chosen2"


def test_members_at_creation_must_exist(server):
    a = server.user()
    server.chat(a).refused("room.create", "not_found", name="x", kind="private",
                           members=["u_" + "n" * 16])


@pytest.mark.parametrize("path", ["/me", "/rooms", "/users?id=x"])
def test_private_answers_are_not_stored(server, path):
    """S113"""
    user = server.user()
    for api in (user.api, server.http(), server.http("bad")):
        answer = api.get(path)
        assert "no-store" in (answer.header("cache-control") or ""), answer.headers
    assert user.api.get(path).status == 200
    assert server.http().get(path).status == 401


def test_no_session_by_cookie_and_no_cors(server):
    """S114: another site's page can do nothing: no cookie counts, no origin is let in."""
    user = server.user()
    with HttpConnection(server.address) as connection:
        answer = connection.request(
            "POST", "/api/v1/rooms", {"name": "x", "kind": "private"},
            [("Cookie", f"token={user.token}"), ("Origin", "https://evil.example")])
        assert answer.status in (401, 403)
        assert answer.header("access-control-allow-origin") is None
        answer = connection.request("OPTIONS", "/api/v1/rooms", headers=[
            ("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")])
        assert answer.header("access-control-allow-origin") is None
        assert answer.header("set-cookie") is None


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic eDp5", "bearer x", "Bearer a b",
                                    "Token x", "Bearer ü"])
def test_authorization_forms(server, header):
    with HttpConnection(server.address) as connection:
        answer = connection.request("GET", "/api/v1/me", headers=[("Authorization", header)])
        assert answer.status == 401 and answer.code == "unauthenticated"
        assert answer.header("www-authenticate")


def test_users_tells_little(server):
    """users and GET /users answer profiles of those who exist and nothing more."""
    a, b = server.users(2)
    client = server.chat(a)
    found = client.request("users", users=[b.id, "u_" + "m" * 16, a.id])["users"]
    assert {u["user"] for u in found} == {a.id, b.id}
    for profile in found:
        assert set(profile) <= {"user", "name", "display_name", "picture", "deleted"}
    client.refused("users", {"bad_request", "too_large"}, users=[f"u{i}" for i in range(101)])
    answer = a.api.get(f"/users?id={b.id}&id={a.id}")
    assert {u["user"] for u in answer.json["users"]} == {a.id, b.id}

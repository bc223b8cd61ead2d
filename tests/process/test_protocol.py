"""The wire contract op by op: hello, rooms, room.*, messages, counters and what sessions are told.

One server; every limit that would be in the way is wide.
"""

import time

import pytest

from parley.wait import SLOWNESS, keep, until

SETS = {"limits.in_flight": 500, "timers.sync_ms": 1500, "presence.grace_ms": 1000}
pytestmark = pytest.mark.quick


@pytest.fixture
def pair(server):
    a, b = server.users(2)
    return a, b, server.room(a, b, name="pair")


def entry(client, room):
    """The room's line in that client's hello."""
    return next(r for r in client.welcome["rooms"] if r["room"] == room)


def unread_told(client, room):
    """What the last `unread` frame said of the room, or None."""
    told = [r for f in client.log if f.get("ev") == "unread" for r in f["rooms"] if r["room"] == room]
    return told[-1] if told else None


# hello

def test_hello(server, pair):
    a, b, room = pair
    client = server.chat(a, client="test/1")
    w = client.welcome
    assert w["user"] == {"user": a.id, "name": a.name, "display_name": w["user"]["display_name"]}
    assert w["session"] and w["epoch"] and w["durability"] in ("full", "relaxed")
    assert abs(w["now"] - time.time() * 1000) < 5000
    assert w["entered"] == [] and w["notifications"]["unread"] == []
    assert w["limits"]["frame_bytes"] == 65536 and w["limits"]["text_code_points"] == 4000
    line = entry(client, room)
    assert line["role"] == "owner" and line["name"] == "pair" and line["kind"] == "private"
    assert line["members"] == 2 and line["last_seq"] == 2 and line["unread"] == 0
    assert line["level"] == "all" and line["pinned"] is False and "last" not in line
    other = server.chat(b, at_handshake=True)
    assert other.welcome["session"] != w["session"] and other.welcome["epoch"] == w["epoch"]
    assert entry(other, room)["role"] == "member"


def test_hello_enter_none_and_all(server, pair):
    a, b, room = pair
    passive, active = server.chat(b, enter="none"), server.chat(b, enter="all")
    assert [e["room"] for e in active.welcome["entered"]] in ([room], [])
    seq = server.chat(a).send_message(room, "hello")["seq"]
    assert active.event("message.created", room=room)["seq"] == seq
    passive.event("unread")
    assert passive.seqs(room) == []
    # also rooms joined later: the first event is the own member.joined
    public = server.room(a, kind="public")
    joined = active.request("room.join", room=public)["seq"]
    first = active.find(lambda f: f.get("room") == public and "ev" in f and "seq" in f, 5)
    assert first["ev"] == "member.joined" and first["user"] == b.id and first["seq"] == joined
    mine = active.request("room.create", name="mine", kind="private")["room"]
    first = active.find(lambda f: f.get("room") == mine and "ev" in f and "seq" in f, 5)
    assert first["ev"] == "member.joined" and first["seq"] == 1
    # one put in by another hears of it too
    put = server.chat(a).request("room.create", name="put", kind="private", members=[b.id])["room"]
    first = active.find(lambda f: f.get("room") == put and "ev" in f and "seq" in f, 5)
    assert first["ev"] == "member.joined"


def test_hello_enters_named_rooms(server, pair):
    a, b, room = pair
    second = server.room(a, b)
    source = server.chat(a)
    for i in range(3):
        source.send_message(room, f"m{i}")
    client = server.chat(b, enter={room: 3, second: 0, "r_missing": 0})
    told = {e["room"]: e for e in client.welcome["entered"]}
    assert told[room] == {"room": room, "last_seq": 5}
    assert told[second]["last_seq"] == 2
    assert told["r_missing"]["error"]["code"] == "not_found"
    client.wait_seq(room, 5)
    client.wait_seq(second, 2)
    assert client.seqs(room) == [4, 5] and client.seqs(second, ev=None) == [1, 2]


def test_hello_with_too_many_rooms(server, pair):
    a, _, room = pair
    client = server.chat(a, hello=False)
    client.refused("hello", "too_large", token=a.token,
                   enter={f"r{i}": 0 for i in range(201)})
    client = server.chat(a, enter={**{f"r{i}": 0 for i in range(199)}, room: 0})
    assert len(client.welcome["entered"]) == 200


def test_hello_of_another_epoch(server, pair):
    a, b, room = pair
    server.chat(a).send_message(room, "x")
    client = server.chat(b, epoch="another", enter={room: 1})
    told = client.welcome["entered"][0]
    assert told["reset"] is True and told["last_seq"] == 3
    client.fence()
    assert client.seqs(room, ev=None) == []
    same = server.chat(b, epoch=client.welcome["epoch"], enter={room: 1})
    assert "reset" not in same.welcome["entered"][0]
    same.wait_seq(room, 3)


@pytest.mark.parametrize("enter", ["some", 5, [], {"r": -1}, {"r": "1"}, {"r": None}, True])
def test_hello_with_bad_enter(server, enter):
    client = server.chat(server.user(), hello=False)
    answer = client.hostile("hello", token=server.user().token, enter=enter)
    assert answer["error"]["code"] == "bad_request" and "enter" in answer["error"]["message"]


# rooms, users

def test_rooms_paging(server):
    a = server.user()
    rooms = [server.room(a, name=f"r{i}") for i in range(25)]
    client = server.chat(a)
    client.send_message(rooms[3], "now the latest")
    found, cursor = [], None
    while True:
        page = client.request("rooms", limit=10, **({"cursor": cursor} if cursor else {}))
        assert len(page["rooms"]) <= 10
        found += page["rooms"]
        cursor = page.get("rooms_next")
        if not cursor:
            break
    assert [r["room"] for r in found] == [rooms[3]] + [r for r in reversed(rooms) if r != rooms[3]]
    assert found[0]["last"]["text"] == "now the latest" and found[0]["unread"] == 0
    over = a.api.get("/rooms?limit=10").json
    assert [r["room"] for r in over["rooms"]] == [r["room"] for r in found[:10]]
    assert over["rooms_next"]


def test_many_rooms_in_hello(server):
    """hello's answer stays under 128 KiB; the rest by its cursor, none twice, none missing."""
    a = server.user()
    client = server.chat(a, sample=True)
    ids = client.batch([("room.create", {"name": "ü" * 100, "kind": "private"}) for _ in range(450)])
    rooms = {client.answer(i, 30)["room"] for i in ids}
    client = server.chat(a, sample=True)
    assert max(client.sizes) <= 128 * 1024
    found = [r["room"] for r in client.welcome["rooms"]]
    cursor = client.welcome.get("rooms_next")
    while cursor:
        page = client.request("rooms", cursor=cursor)
        found += [r["room"] for r in page["rooms"]]
        cursor = page.get("rooms_next")
    assert len(found) == len(set(found)) and set(found) == rooms


# rooms

def test_create_is_idempotent_by_nonce(server):
    a = server.user()
    client = server.chat(a)
    first = client.request("room.create", name="x", kind="private", nonce="make-1")
    again = client.request("room.create", name="x", kind="private", nonce="make-1")
    assert again["room"] == first["room"] and again["seq"] == first["seq"]
    client.refused("room.create", "conflict", name="y", kind="private", nonce="make-1")
    assert len(server.chat(a).welcome["rooms"]) == 1


def test_join_leave_events_and_state(server):
    a, b = server.users(2)
    room = server.room(a, kind="public", name="hall")
    watcher, client = server.chat(a, enter={room: 0}), server.chat(b)
    seq = client.request("room.join", room=room)["seq"]
    event = watcher.event("member.joined", room=room, user=b.id)
    assert event["seq"] == seq and event["name"] == b.name
    mine = client.event("room.mine", room=room)
    assert mine["role"] == "member" and "gone" not in mine
    assert client.request("room.join", room=room)["seq"] == seq  # already so: no event
    left = client.request("room.leave", room=room)["seq"]
    assert watcher.event("member.left", room=room, user=b.id)["seq"] == left == seq + 1
    assert client.event("room.mine", room=room, gone=True)
    client.refused("room.leave", "forbidden", room=room)
    watcher.fence()
    assert watcher.seqs(room, ev=None) == [1, 2, 3]


def test_op_nonces(server):
    """Every op that makes an event takes a nonce; a repeat makes none."""
    a, b, c = server.users(3)
    room = server.room(a, kind="public")
    owner, client = server.chat(a, enter={room: 0}), server.chat(b)
    joined = client.request("room.join", room=room, nonce="j1")["seq"]
    left = client.request("room.leave", room=room, nonce="l1")["seq"]
    assert client.request("room.join", room=room, nonce="j1")["seq"] == joined
    assert client.request("room.leave", room=room, nonce="l1")["seq"] == left
    changed = owner.request("room.change", room=room, name="once", nonce="c1")["seq"]
    assert owner.request("room.change", room=room, name="once", nonce="c1")["seq"] == changed
    owner.refused("room.change", "conflict", room=room, name="twice", nonce="c1")
    invited = owner.request("room.invite", room=room, user=c.id, nonce="i1")["seq"]
    assert owner.request("room.invite", room=room, user=c.id, nonce="i1")["seq"] == invited
    owner.fence()
    assert owner.seqs(room, ev=None) == list(range(1, invited + 1))


def test_change(server, pair):
    a, b, room = pair
    owner, member = server.chat(a), server.chat(b, enter={room: 2})
    seq = owner.request("room.change", room=room, name="new name", topic="a topic")["seq"]
    event = member.event("room.changed", room=room)
    assert event["seq"] == seq and event["by"] == a.id
    assert event["name"] == "new name" and event["topic"] == "a topic"
    assert owner.request("room.change", room=room, name="new name")["seq"] == seq
    passive = server.chat(b)
    owner.request("room.change", room=room, topic="another")
    assert passive.event("room.updated", room=room)["topic"] == "another"
    owner.refused("room.change", "bad_request", room=room)
    answer = a.api.patch(f"/rooms/{room}", {"topic": "by HTTP"})
    assert answer.status == 200 and member.event("room.changed", topic="by HTTP")


def test_enter(server, pair):
    a, b, room = pair
    source = server.chat(a)
    for i in range(4):
        source.send_message(room, f"m{i}")
    client = server.chat(b)
    answer = client.request("room.enter", room=room)
    assert answer["last_seq"] == 6 and answer["read_seq"] == entry(client, room)["read_seq"]
    assert {m["user"] for m in answer["members"]} == {a.id, b.id}
    assert {m["role"] for m in answer["members"]} == {"owner", "member"}
    client.fence()
    assert client.seqs(room, ev=None) == []  # without after_seq nothing is replayed
    # again, from an earlier place: after the answer comes after_seq + 1, whatever came before
    client.request("room.enter", room=room, after_seq=2)
    client.wait_seq(room, 6)
    client.request("room.enter", room=room, after_seq=4)
    client.find(lambda f: f.get("seq") == 6 and client.seqs(room).count(6) == 2, 5)
    assert client.seqs(room) == [3, 4, 5, 6, 5, 6]
    answer = client.request("room.enter", room=room, after_seq=99)
    assert answer["reset"] is True
    answer = client.request("room.enter", room=room, after_seq=3, epoch="another")
    assert answer["reset"] is True
    client.fence()
    assert client.seqs(room) == [3, 4, 5, 6, 5, 6]
    seq = source.send_message(room, "live after the reset")["seq"]
    client.wait_seq(room, seq)


def test_first_frame_of_a_room_is_enters_answer(server, pair):
    a, b, room = pair
    server.chat(a).send_message(room, "x")
    for _ in range(20):
        client = server.chat(b)
        id = client.post("room.enter", room=room, after_seq=0)
        client.wait_seq(room, 3)
        concerning = [f for f in client.log
                      if f.get("re") == id or f.get("ev") in ("message.created", "member.joined")]
        assert concerning[0].get("re") == id


def test_exit(server, pair):
    a, b, room = pair
    source, client = server.chat(a), server.chat(b, enter={room: 0})
    for i in range(10):
        source.post("message.send", room=room, nonce=f"x{i}", text="x")
    id = client.post("room.exit", room=room)
    client.answer(id)
    at = next(i for i, f in enumerate(client.log) if f.get("re") == id)
    seq = source.send_message(room, "after the exit")["seq"]
    until(lambda: (unread_told(client, room) or {}).get("last_seq") == seq, 5, pump=[client])
    assert client.seqs(room, ev=None, since=at) == []


def test_send_enters_the_room(server, pair):
    """The own event is then the first; the mark moves in the same commit."""
    a, b, room = pair
    client = server.chat(b)
    server.chat(a).send_message(room, "before")
    seq = client.send_message(room, "mine")["seq"]
    own = client.find(lambda f: f.get("room") == room and f.get("ev") == "message.created", 5)
    assert own["seq"] == seq and own["sender"] == b.id and own["nonce"]
    later = server.chat(a).send_message(room, "later")["seq"]
    assert "nonce" not in client.event("message.created", seq=later)
    line = entry(server.chat(b), room)
    assert line["read_seq"] == seq and line["unread"] == 1


def test_duplicate_enters_nothing_and_moves_nothing(server, pair):
    a, b, room = pair
    one = server.chat(b)
    one.send_message(room, "x", "dup")
    source = server.chat(a)
    head = source.send_message(room, "unread of b")["seq"]
    two = server.chat(b)
    assert two.send_message(room, "x", "dup")["duplicate"] is True
    assert entry(server.chat(b), room)["unread"] == 1
    seq = source.send_message(room, "more")["seq"]
    until(lambda: (unread_told(two, room) or {}).get("last_seq") == seq, 5, pump=[two])
    assert two.seqs(room) == [] and seq == head + 1


def test_duplicate_of_one_who_left(server, pair):
    """Promise 3: what was committed is answered with its seq, also to one who has left."""
    a, b, room = pair
    client = server.chat(b)
    first = client.send_message(room, "said and gone", "gone-1")
    client.request("room.leave", room=room)
    again = client.send_message(room, "said and gone", "gone-1")
    assert again["seq"] == first["seq"] and again["duplicate"] is True
    client.refused("message.send", "conflict", room=room, nonce="gone-1", text="else")
    client.refused("message.send", "not_found", room=room, nonce="new", text="said and gone")
    server.chat(a).send_message(room, "nobody else hears")
    client.fence()
    assert "nobody else hears" not in client.texts(room)


def test_reply(server, pair):
    a, b, room = pair
    client = server.chat(a)
    first = client.send_message(room, "question")["seq"]
    seq = client.send_message(room, "answer", reply_to=first)["seq"]
    assert client.event("message.created", seq=seq)["reply_to"] == first
    found = client.request("history", room=room, limit=1)["messages"][0]
    assert found["reply_to"] == first and found["mentions"] == [] and found["reactions"] == []
    client.refused("message.send", {"not_found", "bad_request"}, room=room, nonce="r", text="x",
                   reply_to=seq + 100)


# counters and lists

def test_unread_counts(server, pair):
    """Exact whenever told; own messages do not count; the first tells at once."""
    a, b, room = pair
    source, passive = server.chat(a), server.chat(b)
    begun = time.monotonic()
    seq = source.send_message(room, "one")["seq"]
    told = passive.event("unread")["rooms"][0]
    assert time.monotonic() - begun < 0.5 * SLOWNESS
    assert told == {"room": room, "unread": 1, "mentions": 0, "last_seq": seq,
                    "read_seq": told["read_seq"]}
    for i in range(9):
        seq = source.send_message(room, f"m{i}")["seq"]
    until(lambda: (unread_told(passive, room) or {}).get("unread") == 10, 3, pump=[passive])
    second = server.chat(b)
    assert entry(second, room)["unread"] == 10
    answer = second.request("message.read", room=room, seq=seq - 4)
    assert answer["unread"] == 4 and answer["read_seq"] == seq - 4
    until(lambda: unread_told(passive, room)["unread"] == 4, 2, pump=[passive])
    assert second.request("message.read", room=room, seq=seq - 8)["read_seq"] == seq - 4
    assert second.request("message.read", room=room, seq=seq + 1000)["read_seq"] == seq
    until(lambda: unread_told(passive, room)["unread"] == 0, 2, pump=[passive])
    answer = second.request("message.unread", room=room, seq=seq - 2)
    assert answer["read_seq"] == seq - 3 and answer["unread"] == 3
    until(lambda: unread_told(passive, room)["unread"] == 3, 2, pump=[passive])
    second.refused("message.unread", "not_found", room=room, seq=1)  # a join is no message
    second.refused("message.unread", {"not_found", "bad_request"}, room=room, seq=seq + 5)
    mine = second.send_message(room, "own")["seq"]
    line = entry(server.chat(b), room)
    assert line["unread"] == 0 and line["read_seq"] == mine


def test_unread_is_gathered(server, pair):
    """At most 4 frames a second per session, with the latest values, and none is wrong."""
    a, b, room = pair
    source, passive = server.chat(a, sample=True), server.chat(b, sample=True)
    begun = time.monotonic()
    for i in range(200):
        seq = source.send_message(room, f"m{i}")["seq"]
        passive.pump(0)
    spent = time.monotonic() - begun
    until(lambda: (unread_told(passive, room) or {}).get("last_seq") == seq, 3, pump=[passive])
    frames = [f for f in passive.log if f.get("ev") == "unread"]
    assert len(frames) <= 4 * (spent + 1) + 2
    for frame in frames:
        for told in frame["rooms"]:
            assert told["unread"] == told["last_seq"] - 2, told
    assert unread_told(passive, room)["unread"] == 200


def test_active_sessions_are_told_of_other_changes(server, pair):
    """Active sessions count what they get; a mark moved elsewhere is told."""
    a, b, room = pair
    source, active, other = server.chat(a), server.chat(b, enter={room: 0}), server.chat(b)
    seq = source.send_message(room, "x")["seq"]
    active.wait_seq(room, seq)
    active.fence()
    assert unread_told(active, room) is None
    other.request("message.read", room=room, seq=seq)
    until(lambda: (unread_told(active, room) or {}).get("unread") == 0, 2, pump=[active])
    assert unread_told(active, room)["read_seq"] == seq


def test_joining_sets_the_mark(server):
    a, b = server.users(2)
    room = server.room(a, kind="public")
    source = server.chat(a)
    for i in range(5):
        source.send_message(room, f"old {i}")
    client = server.chat(b)
    seq = client.request("room.join", room=room)["seq"]
    line = entry(server.chat(b), room)
    assert line["read_seq"] == seq and line["unread"] == 0
    source.send_message(room, "new")
    assert entry(server.chat(b), room)["unread"] == 1


def test_room_updated(server, pair):
    """To passive sessions: debounced 300 ms, at the latest 1 s after the first change."""
    a, b, room = pair
    source, passive, active = server.chat(a), server.chat(b), server.chat(b, enter={room: 0})
    passive.fence()
    mark, begun = passive.mark(), time.monotonic()
    seq = source.send_message(room, "preview")["seq"]
    told = passive.find(lambda f: f.get("ev") == "room.updated" and f["last_seq"] == seq, 3)
    assert 0.2 < time.monotonic() - begun < 1.0 * SLOWNESS
    assert told["last"]["seq"] == seq and told["last"]["sender"] == a.id
    assert told["last"]["text"] == "preview" and told["members"] == 2 and told["online"] == 2
    del mark
    # a steady stream does not starve it
    begun, updates = time.monotonic(), 0
    mark = passive.mark()
    while time.monotonic() - begun < 2.4:
        source.send_message(room, "again and again")
        passive.pump(0.05)
    updates = len([f for f in passive.log[mark:] if f.get("ev") == "room.updated"])
    assert 2 <= updates <= 5, updates
    active.fence()
    assert not [f for f in active.log if f.get("ev") == "room.updated"]


def test_read_marks_are_shown(server, pair):
    """`read` to active ones, at most 2 a second, with the last marks."""
    a, b, room = pair
    watcher, reader = server.chat(a, enter={room: 0}), server.chat(b)
    last = max(watcher.send_message(room, f"m{i}")["seq"] for i in range(20))
    mark, begun = watcher.mark(), time.monotonic()
    for seq in range(3, last + 1):
        reader.request("message.read", room=room, seq=seq)
    marks = lambda: [m for f in watcher.log[mark:] if f.get("ev") == "read" and f["room"] == room
                     for m in f["marks"] if m["user"] == b.id]
    until(lambda: marks() and marks()[-1]["read_seq"] == last, 3, pump=[watcher])
    frames = [f for f in watcher.log[mark:] if f.get("ev") == "read"]
    assert len(frames) <= 2 * (time.monotonic() - begun) + 2
    seqs = [m["read_seq"] for m in marks()]
    assert seqs == sorted(seqs)


def test_sync(server, pair):
    """After a while without an event a session is told the last seqs of its entered rooms."""
    a, b, room = pair
    client = server.chat(b, enter={room: 0})
    seq = server.chat(a).send_message(room, "tail")["seq"]
    told = client.event("sync", 6)
    assert {"room": room, "last_seq": seq} in told["rooms"]


def test_profile_changes_are_told(server, pair):
    a, b, room = pair
    watcher = server.chat(a, enter={room: 0})
    stranger = server.chat(server.user())
    assert b.api.patch("/me", {"display_name": "New Name"}).status == 200
    told = watcher.event("user.updated", 4)
    assert told["users"][0]["user"] == b.id and told["users"][0]["display_name"] == "New Name"
    stranger.fence()
    assert not [f for f in stranger.log if f.get("ev") == "user.updated"]


def test_many_online(make_server):
    """Over 200 online nobody is named; joins and leaves come as counts that account for each seq."""
    server = make_server(sets={"timers.name_nobody_above": 5, "limits.in_flight": 500})
    owner = server.user()
    members = server.users(8)
    room = server.room(owner, *members, kind="public")
    clients = [server.chat(m, enter={room: 0}, sample=True) for m in members]
    watcher = clients[0]
    watcher.fence()
    mark = watcher.mark()
    visitor = server.chat(server.user())
    for _ in range(5):
        visitor.request("room.join", room=room)
        last = visitor.request("room.leave", room=room)["seq"]
    watcher.wait_seq(room, last)
    told = [f for f in watcher.log[mark:] if f.get("ev") == "members.changed"]
    assert sum(f["joined"] for f in told) == 5 and sum(f["left"] for f in told) == 5
    assert not [f for f in watcher.log[mark:] if f.get("ev") in ("member.joined", "member.left")]
    seq = clients[1].send_message(room, "flushes")["seq"]
    joined = visitor.request("room.join", room=room)["seq"]
    after = clients[1].send_message(room, "flushes first")["seq"]
    watcher.wait_seq(room, after)
    assert [f["seq"] for f in watcher.log[mark:] if f.get("seq", 0) >= seq] == [seq, joined, after]
    clients[1].request("typing", room=room)
    clients[2].request("message.read", room=room, seq=after)
    clients[3].cut()
    keep(lambda: not [f for f in watcher.log[mark:]
                      if f.get("ev") in ("typing", "read", "presence")], 1.5, clients[:3])
    page = watcher.request("events", room=room, after_seq=9)
    assert [e["ev"] for e in page["events"]][:2] == ["member.joined", "member.left"]


def test_epoch_survives_restart(make_server):
    server = make_server()
    a = server.user()
    first = server.chat(a).welcome["epoch"]
    server.restart("kill9")
    assert server.chat(a).welcome["epoch"] == first
    server.restart("stop")
    assert server.chat(a).welcome["epoch"] == first


def test_counters_after_a_kill(make_server):
    """Promise 5: exact after a crash too."""
    server = make_server()
    a, b = server.users(2)
    room = server.room(a, b)
    source, reader = server.chat(a), server.chat(b)
    seqs = [source.send_message(room, f"m{i}")["seq"] for i in range(20)]
    reader.request("message.read", room=room, seq=seqs[7])
    server.restart()
    line = entry(server.chat(b), room)
    assert line["read_seq"] == seqs[7] and line["unread"] == 12 and line["last_seq"] == seqs[-1]
    assert line["last"]["text"] == "m19"
    own = entry(server.chat(a), room)
    assert own["unread"] == 0 and own["read_seq"] == seqs[-1]


def test_slow_room_wakes_and_sleeps(make_server):
    """A room put away and back keeps everything, and hello wakes none."""
    server = make_server(sets={"storage.room_idle_s": 1})
    a, b = server.users(2)
    room = server.room(a, b)
    client = server.chat(a)
    seq = client.send_message(room, "kept", "kept-1")["seq"]
    client.close()
    awake = lambda: [r["room"] for r in server.admin.get("/admin/rooms").json["rooms"]]
    until(lambda: room not in awake(), 10, "put away when idle", every=0.1)
    reader = server.chat(b)
    line = entry(reader, room)
    assert line["unread"] == 1 and line["last"]["text"] == "kept"
    reader.fence()
    assert room not in awake(), "hello woke the room"
    again = server.chat(a)
    assert again.send_message(room, "kept", "kept-1")["seq"] == seq
    fresh = again.send_message(room, "fresh")["seq"]
    assert fresh == seq + 1
    until(lambda: (unread_told(reader, room) or {}).get("unread") == 2, 5, pump=[reader])


def test_passivate_by_the_administrator(server, pair):
    a, b, room = pair
    client = server.chat(a)
    seq = client.send_message(room, "x", "p1")["seq"]
    client.close()
    until(lambda: server.admin.post(f"/admin/rooms/{room}/passivate").status in (200, 404)
          and room not in [r["room"] for r in server.admin.get("/admin/rooms").json["rooms"]], 5)
    server.chat(b)
    again = server.chat(a)
    assert again.send_message(room, "x", "p1")["seq"] == seq
    assert server.admin.post("/admin/rooms/r_missing/passivate").status == 404


def test_conflict_and_duplicate_names_over_ops(server, pair):
    """The nonce is looked up before every other check: even what would now be refused."""
    a, b, room = pair
    client = server.chat(a)
    nonce = "n" * 64
    seq = client.send_message(room, "x", nonce)["seq"]
    assert client.send_message(room, "x", nonce)["seq"] == seq
    client.refused("message.send", "conflict", room=room, nonce=nonce, text="x" * 4001)
    client.refused("message.send", "conflict", room=room, nonce=nonce, text="   ")
    del b


def test_numbers_beyond_the_head(server, pair):
    a, _, room = pair
    client = server.chat(a)
    assert client.request("events", room=room, after_seq=10**9)["events"] == []
    assert client.request("history", room=room, after_seq=10**9)["messages"] == []
    assert client.request("history", room=room, before_seq=1)["messages"] == []
    client.refused("history", "bad_request", room=room, before_seq=5, after_seq=1)

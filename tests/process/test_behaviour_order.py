"""Order and time, presence and typing (behaviour rows D3 and D4 without 55, 56, 61; row 22)."""

import time

import pytest

from parley.wait import SLOWNESS, keep, until

SETS = {"limits.in_flight": 1000, "presence.grace_ms": 1000, "timers.typing_ms": 1000}
BEATS = {"presence.grace_ms": 1000, "limits.ping_interval_s": 1, "limits.ping_timeout_s": 1}
pytestmark = pytest.mark.quick


@pytest.fixture
def pair(server):
    a, b = server.users(2)
    return a, b, server.room(a, b, name="pair")


def test_pipelined_sends_keep_their_order(server, pair):
    """49: 1,000 on one socket without waiting: in order for everyone and in the history."""
    a, b, room = pair
    source = server.chat(a, sample=True)
    reader = server.chat(b, enter={room: 0}, sample=True)
    ids = source.batch([("message.send", {"room": room, "nonce": f"o{i}", "text": f"{i}"})
                        for i in range(1000)])
    until(lambda: len(reader.texts(room)) == 1000 and all(i in source.answers for i in ids), 30,
          pump=[source, reader])
    assert [source.answers[i]["seq"] for i in ids] == list(range(3, 1003))
    wanted = [str(i) for i in range(1000)]
    assert reader.texts(room) == wanted
    assert source.texts(room) == wanted
    found, after = [], 0
    while len(found) < 1000:
        page = source.request("history", room=room, after_seq=after, limit=200)
        found += [m["text"] for m in page["messages"]]
        after = page["messages"][-1]["seq"]
    assert found == wanted


def test_answers_come_after_questions(server, pair):
    """50: A and B answer each other; all clients see one order."""
    a, b, room = pair
    clients = [server.chat(u, enter={room: 2}, sample=True) for u in (a, b)]
    watcher = server.chat(a, enter={room: 2}, sample=True)
    seqs = []
    for i in range(120):
        turn, other = clients[i % 2], clients[1 - i % 2]
        seq = turn.send_message(room, f"turn {i}")["seq"]
        other.event("message.created", room=room, seq=seq)
        watcher.pump(0)
        seqs.append(seq)
    assert seqs == sorted(seqs) and len(set(seqs)) == len(seqs)
    for client in (*clients, watcher):
        client.wait_seq(room, seqs[-1])
        assert client.seqs(room) == seqs
        times = [f["at"] for f in client.log if f.get("ev") == "message.created"]
        assert times == sorted(times)


def test_answers_of_one_room_in_order(server, pair):
    """Requests that concern one room are answered in the order in which they came."""
    a, b, room = pair
    client = server.chat(a)
    requests = []
    for i in range(30):
        requests += [("message.send", {"room": room, "nonce": f"q{i}", "text": "x"}),
                     ("message.read", {"room": room, "seq": i}), ("room.enter", {"room": room}),
                     ("typing", {"room": room})]
    ids = client.batch(requests)
    until(lambda: all(i in client.answers for i in ids), 20, pump=[client])
    order = [f["re"] for f in client.log if f.get("re") in set(ids)]
    assert order == ids
    del b


def test_clients_clock_means_nothing(server, pair):
    """52, 53: a time sent along is ignored, the server's own is used and never goes back."""
    a, b, room = pair
    client = server.chat(a)
    now = time.time() * 1000
    ten_minutes = 600000
    for i, at in enumerate((now - ten_minutes, now + ten_minutes, 0, 2**52)):
        client.send_message(room, f"t{i}", at=int(at), created_at=int(at), timestamp=int(at))
    page = client.request("history", room=room)["messages"]
    assert [m["text"] for m in page] == ["t0", "t1", "t2", "t3"]
    assert all(abs(m["at"] - now) < 60000 for m in page)
    assert [m["at"] for m in page] == sorted(m["at"] for m in page)
    del b


def test_mark_follows_seqs_not_times(server, pair):
    """22: read(head) is 0 unread, whatever the times."""
    a, b, room = pair
    source, reader = server.chat(a), server.chat(b)
    head = max(source.send_message(room, f"m{i}")["seq"] for i in range(5))
    answer = reader.request("message.read", room=room, seq=head)
    assert answer["unread"] == 0 and answer["read_seq"] == head and answer["mentions"] == 0
    assert next(r for r in server.chat(b).welcome["rooms"] if r["room"] == room)["unread"] == 0


# presence and typing

def online(client, room, user):
    """What that client was last told of the user's presence in the room; None: nothing."""
    state = None
    for frame in client.log:
        if frame.get("ev") == "presence" and frame["room"] == room:
            for entry in frame["users"]:
                if entry["user"] == user.id:
                    state = entry
    return state


def listed(server, watcher, room, user):
    """Whether the members' list of a fresh enter shows the user online."""
    client = server.chat(watcher)
    members = client.request("room.enter", room=room)["members"]
    client.close()
    return next(m["online"] for m in members if m["user"] == user.id)


def test_offline_after_a_crash(make_server):
    """57: B was online when the server died and does not come back: offline within the grace."""
    server = make_server(sets={"presence.grace_ms": 1000})
    a, b = server.users(2)
    room = server.room(a, b)
    server.chat(b)
    watcher = server.chat(a, enter={room: 0})
    watcher.fence()
    server.restart()
    until(lambda: not listed(server, a, room, b), 4, "offline after the restart", every=0.1)
    answer = a.api.get(f"/rooms/{room}/presence").json
    assert b.id not in [u["user"] for u in answer["users"] if u["online"]]


def test_comes_and_goes(server, pair):
    """64: online within 1 s of coming back; offline after the grace, with last_seen."""
    a, b, room = pair
    watcher = server.chat(a, enter={room: 0})
    client = server.chat(b)
    until(lambda: (online(watcher, room, b) or {}).get("online") is True, 3, pump=[watcher])
    gone = time.time()
    client.cut()
    until(lambda: (online(watcher, room, b) or {}).get("online") is False, 5, pump=[watcher])
    seen = online(watcher, room, b)
    assert abs(seen["last_seen"] / 1000 - gone) < 3
    assert time.time() - gone >= 0.8, "offline before the grace was over"
    back = time.time()
    client = server.chat(b)
    until(lambda: online(watcher, room, b)["online"] is True, 3, pump=[watcher, client])
    assert time.time() - back < 2.1 * SLOWNESS
    assert listed(server, a, room, b) is True


def test_short_absence_is_nobodys_business(server, pair):
    """64: gone and back within the grace: no transition at all."""
    a, b, room = pair
    watcher = server.chat(a, enter={room: 0})
    client = server.chat(b)
    until(lambda: (online(watcher, room, b) or {}).get("online"), 3, pump=[watcher])
    mark = watcher.mark()
    for _ in range(3):
        client.cut()
        client = server.chat(b)
    keep(lambda: not [f for f in watcher.log[mark:] if f.get("ev") == "presence"
                      and any(u["user"] == b.id and not u["online"] for u in f["users"])],
         2.5, [watcher, client])


@pytest.fixture(scope="module")
def beating(make_server):
    """A server with a quick heart-beat."""
    return make_server(sets=BEATS)


def test_frozen_client_goes_offline(beating):
    """59: within heart-beat and grace."""
    server = beating
    a, b = server.users(2)
    room = server.room(a, b)
    watcher = server.chat(a, enter={room: 0})
    client = server.chat(b)
    until(lambda: (online(watcher, room, b) or {}).get("online"), 3, pump=[watcher])
    client.auto_pong = False  # never pumped again
    begun = time.time()
    until(lambda: not online(watcher, room, b)["online"], 9, "offline", pump=[watcher])
    assert 1.5 < time.time() - begun < 8 * SLOWNESS


def test_presence_after_restarts(make_server):
    """60: five restarts; the list equals the sessions that live."""
    server = make_server(sets={"presence.grace_ms": 500, "server.drain_ms": 200})
    users = server.users(6)
    room = server.room(*users)
    for round_ in range(5):
        here = [server.chat(u) for u in users[:round_ + 1]]
        live = {s["user"] for s in server.admin.get("/admin/sessions").json["sessions"]}
        assert live == {u.id for u in users[:round_ + 1]}

        def right():
            listed_ = users[0].api.get(f"/rooms/{room}/presence").json["users"]
            return {u["user"] for u in listed_ if u["online"]} == live

        until(right, 4, "presence equals the sessions", pump=here)
        for client in here:
            client.abort()
        server.restart("stop" if round_ % 2 else "kill9")


def test_two_devices(server, pair):
    """63: losing one of two devices is no leaving."""
    a, b, room = pair
    watcher = server.chat(a, enter={room: 0})
    one, two = server.chat(b), server.chat(b)
    until(lambda: (online(watcher, room, b) or {}).get("online"), 3, pump=[watcher])
    mark = watcher.mark()
    one.cut()
    keep(lambda: not [f for f in watcher.log[mark:] if f.get("ev") in ("presence", "member.left")
                      and b.id in str(f)], 2.5, [watcher, two])
    assert listed(server, a, room, b) is True


def test_quiet_but_connected(beating):
    """65, 67: no flicker while silent beyond every interval; a newcomer sees B online."""
    server = beating
    a, b = server.users(2)
    room = server.room(a, b)
    watcher, quiet = server.chat(a, enter={room: 0}), server.chat(b)
    until(lambda: (online(watcher, room, b) or {}).get("online"), 3, pump=[watcher, quiet])
    mark = watcher.mark()
    keep(lambda: not [f for f in watcher.log[mark:] if f.get("ev") == "presence"], 4.0,
         [watcher, quiet])
    assert listed(server, a, room, b) is True


def test_typing(server, pair):
    """Active sessions but the sender's; ended by a send, by time, by leaving."""
    a, b, room = pair
    one, two = server.chat(a, enter={room: 0}), server.chat(b, enter={room: 0})
    passive = server.chat(b)
    one.request("typing", room=room)
    assert two.event("typing", room=room) == {"ev": "typing", "room": room, "user": a.id, "on": True}
    one.send_message(room, "done typing")
    assert two.event("typing", room=room, on=False)["user"] == a.id
    begun = time.monotonic()
    one.raw(f'{{"op":"typing","room":"{room}"}}', hostile=False)  # without id: no answer
    two.event("typing", room=room, on=True)
    two.event("typing", 4, room=room, on=False)
    assert 0.7 < time.monotonic() - begun < 3 * SLOWNESS
    one.request("typing", room=room)
    two.event("typing", room=room, on=True)
    one.cut()
    two.event("typing", room=room, on=False)
    passive.fence()
    assert not [f for f in passive.log if f.get("ev") == "typing"]
    assert not [f for f in one.log if f.get("ev") == "typing"]


def test_typing_needs_no_answer(server, pair):
    a, _, room = pair
    client = server.chat(a, enter={room: 0})
    mark = client.mark()
    client.raw(f'{{"op":"typing","room":"{room}"}}', hostile=False)
    client.fence()
    assert [f for f in client.log[mark:] if "re" in f] == client.log[-1:]

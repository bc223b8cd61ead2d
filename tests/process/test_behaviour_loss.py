"""What got lost, doubled or was passed over elsewhere (behaviour rows D2: 23 to 47; 110).

Sizes are for every commit's run; the kind of load is the row's own.
"""

import json
import os
import threading
import time

import pytest

from parley import metrics
from parley.chat import Chat
from parley.frames import PONG
from parley.wait import SANITIZED, SLOWNESS, keep, until

SETS = {"limits.in_flight": 1000, "presence.grace_ms": 1000}
BEATS = {**SETS, "limits.ping_interval_s": 1, "limits.ping_timeout_s": 1}


@pytest.fixture
def pair(server):
    a, b = server.users(2)
    return a, b, server.room(a, b, name="pair")


def fill(client, room, count, tag="m", text=None):
    """Send `count` messages at once; the last one's seq."""
    seq = 0
    for start in range(0, count, 200):
        part = [("message.send", {"room": room, "nonce": f"{tag}-{os.getpid()}-{i}",
                                  "text": text or f"{tag} {i}"})
                for i in range(start, min(count, start + 200))]
        answers = [client.answer(id, 20) for id in client.batch(part)]
        assert all(a.get("ok") for a in answers), answers[-1]
        seq = answers[-1]["seq"]
    return seq


@pytest.mark.quick
def test_resume_after_more_than_a_page(server, pair):
    """23: exactly the missed ones, once, in order."""
    a, b, room = pair
    source = server.chat(a)
    fill(source, room, 10)
    reader = server.chat(b, enter={room: 0})
    last = 12
    reader.wait_seq(room, last)
    reader.cut()
    head = fill(source, room, 400, "missed")
    again = server.chat(b)
    again.request("room.enter", room=room, after_seq=last)
    again.wait_seq(room, head)
    assert again.seqs(room) == list(range(last + 1, head + 1))
    more = source.send_message(room, "live")["seq"]
    again.wait_seq(room, more)
    assert again.seqs(room) == list(range(last + 1, more + 1))


def test_far_behind(server, pair):
    """33, 38: over 1,000 missed: the gap is told exactly, the last 1,000 come, events fill it."""
    a, b, room = pair
    source = server.chat(a, sample=True)
    head = fill(source, room, 1300)
    reader = server.chat(b, sample=True)
    answer = reader.request("room.enter", room=room, after_seq=5)
    assert answer["last_seq"] == head
    assert answer["gap"] == [{"from": 6, "to": head - 1000, "why": "far"}]
    reader.wait_seq(room, head, 20)
    assert reader.seqs(room) == list(range(head - 999, head + 1))
    after, filled = 5, []
    while after < head - 1000:
        page = reader.request("events", room=room, after_seq=after)
        assert page["events"], after
        filled += [e["seq"] for e in page["events"]]
        after = filled[-1]
        assert page["more"] is True or after == head
    assert filled[:head - 1005] == list(range(6, head - 999))


def test_history_holds_everything(server, pair):
    """25, 29: a thousand messages with joins between them, paged both ways, none left out."""
    a, b, room = pair
    source = server.chat(a, sample=True)
    public = server.room(a, kind="public")
    sent = []
    for i in range(5):
        fill(source, public, 200, f"h{i}")
        other = server.user()
        server.chat(other).request("room.join", room=public)
    head = source.request("room.enter", room=public)["last_seq"]
    assert head == 1 + 1000 + 5
    after = 0
    while True:
        page = source.request("history", room=public, after_seq=after, limit=150)
        seqs = [m["seq"] for m in page["messages"]]
        assert seqs == sorted(seqs) and len(seqs) <= 150 and page["as_of"] == head
        sent += page["messages"]
        if not page["more"]:
            break
        after = seqs[-1]
    assert [m["text"] for m in sent] == [f"h{i // 200} {i % 200}" for i in range(1000)]
    back, before = [], None
    while True:
        fields = {} if before is None else {"before_seq": before}
        page = source.request("history", room=public, limit=130, **fields)
        back = page["messages"] + back
        if not page["more"]:
            break
        before = page["messages"][0]["seq"]
    assert [m["seq"] for m in back] == [m["seq"] for m in sent]
    del b, room


def test_history_limits(server, pair):
    """29: 50 by default, 200 at most, and `more` says so."""
    a, _, room = pair
    client = server.chat(a, sample=True)
    fill(client, room, 250)
    assert len(client.request("history", room=room)["messages"]) == 50
    page = client.request("history", room=room, limit=1000)
    assert len(page["messages"]) == 200 and page["more"] is True
    rest = client.request("history", room=room, limit=1000, before_seq=page["messages"][0]["seq"])
    assert len(rest["messages"]) == 50 and rest["more"] is False


@pytest.mark.quick
def test_system_events_do_not_block_paging(server):
    """28: two messages with 60 joins and leaves between them: both are found, `more` is right."""
    a = server.user()
    room = server.room(a, kind="public")
    client = server.chat(a)
    first = client.send_message(room, "old")["seq"]
    visitor = server.chat(server.user())
    for _ in range(30):
        visitor.request("room.join", room=room)
        visitor.request("room.leave", room=room)
    last = client.send_message(room, "new")["seq"]
    page = client.request("history", room=room, limit=1)
    assert [m["seq"] for m in page["messages"]] == [last] and page["more"] is True
    page = client.request("history", room=room, limit=1, before_seq=last)
    assert [m["seq"] for m in page["messages"]] == [first] and page["more"] is False


def test_read_after_every_ack(server, pair):
    """26: what was acknowledged is in the next read, every time, on both doors."""
    a, b, room = pair
    source, reader = server.chat(a, sample=True), server.chat(b, sample=True)
    previous = 0
    for i in range(400):
        seq = source.send_message(room, f"r{i}")["seq"]
        if i % 10:
            page = reader.request("history", room=room, after_seq=previous)
        else:
            page = b.api.get(f"/rooms/{room}/messages?after_seq={previous}").json
        assert [m["seq"] for m in page["messages"]] == [seq]
        assert page["as_of"] >= seq
        previous = seq


def test_resume_with_nothing_received(server, pair):
    """30, 32: a quiet room, cut, messages meanwhile, delivered on coming back."""
    a, b, room = pair
    reader = server.chat(b, enter={room: 2})
    reader.fence()
    reader.cut()
    source = server.chat(a)
    head = fill(source, room, 3)
    again = server.chat(b, enter={room: 2})
    assert again.welcome["entered"] == [{"room": room, "last_seq": head}]
    again.wait_seq(room, head)
    assert again.seqs(room) == [3, 4, 5]


def test_live_right_after_a_resume(server, pair):
    """35: the first live message after a recovery is delivered, by no second subscription."""
    a, b, room = pair
    source = server.chat(a)
    for i in range(10):
        reader = server.chat(b, enter={room: 0})
        seq = source.send_message(room, f"live {i}")["seq"]
        reader.wait_seq(room, seq)
        assert reader.seqs(room, ev=None) == list(range(1, seq + 1))
        reader.cut()


@pytest.mark.quick
def test_resume_while_others_write(server, pair):
    """35, 40: 60 resumes under 30 writers; replay and live join without hole or repeat."""
    a, b, room = pair
    others = server.users(4)
    public = server.room(a, b, kind="public")
    sources = []
    for other in others:
        client = server.chat(other, sample=True)
        client.request("room.join", room=public)
        sources.append(client)
    last, seen, sent = 0, [], 0
    for round_ in range(40):
        for client in sources:
            client.batch([("message.send", {"room": public, "nonce": f"w{round_}-{i}",
                                            "text": "t"}) for i in range(8)])
            sent += 8
        reader = server.chat(b, sample=True)
        reader.request("room.enter", room=public, after_seq=last)
        goal = last + 10
        reader.wait_seq(public, goal)
        got = reader.seqs(public, ev=None)
        assert got == list(range(last + 1, got[-1] + 1))
        seen += got
        last = got[-1]
        reader.cut()
        for client in sources:
            client.pump(0)
    final = server.chat(b, enter={public: last}, sample=True)
    head = 2 + 4 + sent
    if last < head:
        final.wait_seq(public, head, 20)
    assert seen + final.seqs(public, ev=None) == list(range(1, head + 1))
    del room


@pytest.mark.quick
def test_retries(server, pair):
    """36: one message, one seq, however often, from wherever; another's same nonce is its own."""
    a, b, room = pair
    one, two = server.chat(a), server.chat(a)
    nonce = "retry-" + os.urandom(4).hex()
    first = one.send_message(room, "once", nonce)
    assert "duplicate" not in first
    for client in (one, two):
        again = client.send_message(room, "once", nonce)
        assert again["duplicate"] is True and again["seq"] == first["seq"]
        assert again["at"] == first["at"]
    answer = a.api.post(f"/rooms/{room}/messages", {"text": "once", "nonce": nonce})
    assert answer.json["seq"] == first["seq"] and answer.json["duplicate"] is True
    other = server.chat(b).send_message(room, "mine", nonce)
    assert other["seq"] == first["seq"] + 1 and "duplicate" not in other
    for change in ({"text": "other"}, {"text": "once", "reply_to": first["seq"]}):
        one.refused("message.send", "conflict", room=room, nonce=nonce, **change)
    page = one.request("history", room=room)["messages"]
    assert [m["text"] for m in page] == ["once", "mine"]


@pytest.mark.quick
def test_fifty_retries_at_once(server, pair):
    """36: 50 at the same time, over five connections."""
    a, _, room = pair
    clients = [server.chat(a) for _ in range(5)]
    sent = [(c, c.batch([("message.send", {"room": room, "nonce": "same", "text": "x"})] * 10))
            for c in clients]
    answers = [c.answer(id) for c, ids in sent for id in ids]
    assert len({x["seq"] for x in answers}) == 1
    assert sum("duplicate" not in x for x in answers) == 1
    assert len(clients[0].request("history", room=room)["messages"]) == 1


@pytest.mark.quick
def test_retry_after_a_kill(make_server):
    """36: the nonce outlives the process."""
    server = make_server()
    a, b = server.users(2)
    room = server.room(a, b)
    first = server.chat(a).send_message(room, "durable", "kept")
    server.restart()
    client = server.chat(a)
    again = client.send_message(room, "durable", "kept")
    assert again["seq"] == first["seq"] and again["duplicate"] is True
    client.refused("message.send", "conflict", room=room, nonce="kept", text="else")
    server.restart("stop")
    assert server.chat(a).send_message(room, "durable", "kept")["seq"] == first["seq"]


def test_frozen_client(make_server):
    """38, 59: a half-open client is found by the heart-beat, its messages wait for it."""
    server = make_server(sets=BEATS)
    a, b = server.users(2)
    room = server.room(a, b)
    reader = server.chat(b, enter={room: 0})
    reader.wait_seq(room, 2)
    reader.auto_pong = False  # it neither reads nor answers from here on
    source = server.chat(a)
    sessions = lambda: {s["session"] for s in server.admin.get("/admin/sessions").json["sessions"]}
    head = fill(source, room, 5)
    until(lambda: reader.welcome["session"] not in sessions(), 8, "the frozen session is gone",
          pump=[source], every=0.1)
    again = server.chat(b, enter={room: 2})
    again.wait_seq(room, head)
    assert again.seqs(room) == list(range(3, head + 1))
    assert reader.wait_end(3) in (4009, "reset", "eof")


def test_polling_beside_many_writers(server):
    """40: 32 writers at once; a reader that goes on from what it has misses none."""
    owner = server.user()
    room = server.room(owner, kind="public")
    writers = []
    for user in server.users(16):
        client = server.chat(user, sample=True)
        client.request("room.join", room=room)
        writers.append(client)
    reader = server.chat(owner, sample=True)
    seen, after = [], 0
    for round_ in range(30):
        for client in writers:
            client.batch([("message.send", {"room": room, "nonce": f"p{round_}-{i}", "text": "x"})
                          for i in range(3)])
        page = reader.request("events", room=room, after_seq=after)
        got = [e["seq"] for e in page["events"]]
        assert got == list(range(after + 1, after + 1 + len(got)))
        seen += got
        after = seen[-1] if seen else 0
        for client in writers:
            client.pump(0)
    head = 1 + 16 + 30 * 16 * 3

    def all_read():
        nonlocal after
        page = reader.request("events", room=room, after_seq=after)
        got = [e["seq"] for e in page["events"]]
        seen.extend(got)
        after = seen[-1]
        return after == head

    until(all_read, 20, pump=writers)
    assert seen == list(range(1, head + 1))


def test_everybody_gets_everything(server):
    """43, 44: 50 members, 20 of them here, messages as fast as they go: all to all."""
    owner = server.user()
    members = server.users(20)
    absent = server.users(29)
    room = server.room(owner, *members, *absent)
    clients = [server.chat(m, enter={room: 0}, sample=True) for m in members]
    source = server.chat(owner, sample=True)
    head = fill(source, room, 600)
    until(lambda: all(c.seqs(room)[-1:] == [head] for c in clients), 20, pump=clients)
    for client in clients:
        assert client.seqs(room, ev=None) == list(range(1, head + 1))


def test_a_client_that_reads_nothing(make_server):
    """45: closed with its code or reset, memory bounded, and a resume gives it all."""
    server = make_server(sets={"limits.outgoing_age_ms": 1500, "limits.in_flight": 1000})
    a, b = server.users(2)
    room = server.room(a, b)
    reader = Chat.connect(server, b.token, rcvbuf=4096, enter={room: 0}, sample=True)
    source = server.chat(a, sample=True)
    before = server.rss()
    head = fill(source, room, 3000, text="z" * 2000)
    grown = server.rss() - before
    sessions = lambda: [s for s in server.admin.get("/admin/sessions").json["sessions"]
                        if s["user"] == b.id]
    until(lambda: not sessions(), 15, "the slow session is gone", pump=[source], every=0.1)
    assert grown < 64 * 1024 or SANITIZED, f"{grown} KiB"
    assert reader.wait_end(15) in (4008, "reset")
    if reader.ended == 4008:
        assert reader.parser.closed
    last = max(reader.seqs(room, ev=None), default=0)
    again = server.chat(b, sample=True)
    answer = again.request("room.enter", room=room, after_seq=last)
    again.wait_seq(room, head, 20)
    missing = set(range(last + 1, head + 1)) - set(again.seqs(room, ev=None))
    told = {s for g in answer.get("gap", []) for s in range(g["from"], g["to"] + 1)}
    assert missing == told


def test_one_stalled_client_among_many(server):
    """47: the others do not notice."""
    owner = server.user()
    members = server.users(40)
    room = server.room(owner, *members)
    clients = [server.chat(m, enter={room: 0}, sample=True) for m in members]
    source = server.chat(owner, enter={room: 0}, sample=True)

    def p95():
        times = []
        for i in range(40):
            t0 = time.monotonic()
            seq = source.send_message(room, "x" * 3000)["seq"]
            until(lambda: all(c.seqs(room)[-1:] == [seq] for c in clients[1:3]), 5,
                  pump=clients[1:])
            times.append(time.monotonic() - t0)
        return sorted(times)[37]

    base = p95()
    clients[0].auto_pong = False  # frozen: never pumped from here on
    stalled = p95()
    assert stalled <= base * 2 + 0.1 * SLOWNESS, (base, stalled)


def test_kill_while_nothing_is_lost_on_the_wire(make_server):
    """42 in small (test_crash.py has the rounds): what was acknowledged is there, unread counts."""
    server = make_server(sets={"limits.in_flight": 1000})
    a, b = server.users(2)
    room = server.room(a, b)
    acked = {}
    for round_ in range(3):
        client = server.chat(a, sample=True)
        ids = dict(zip(client.batch([("message.send", {"room": room, "nonce": f"k{round_}-{i}",
                                                       "text": f"k{round_}-{i}"})
                                     for i in range(150)]), range(150)))
        until(lambda: len([i for i in ids if i in client.answers]) > 20, 10, pump=[client])
        server.kill9()
        while client.pump(0.05) and client.ended is None:
            pass
        acked.update({f"k{round_}-{n}": client.answers[id]["seq"] for id, n in ids.items()
                      if id in client.answers})
        client.abort()
        server.start()
    reader = server.chat(b)
    entry = next(r for r in reader.welcome["rooms"] if r["room"] == room)
    found, after = [], 0
    while True:
        page = reader.request("history", room=room, after_seq=after, limit=200)
        found += page["messages"]
        if not page["more"]:
            break
        after = found[-1]["seq"]
    by_text = {m["text"]: m["seq"] for m in found}
    assert len(by_text) == len(found)
    assert {t: by_text.get(t) for t in acked} == acked
    assert entry["unread"] == len(found) and entry["last_seq"] == 2 + len(found)


def statements(server):
    return metrics.total(server.metrics(), "chat_db_statements_total")


@pytest.mark.parametrize("reads", [False, True])
def test_cost_does_not_grow_with_members(server, reads):
    """110: as many statements per message for 1,000 members as for 50."""
    costs = []
    for count in (50, 1000):
        owner, *members = [server.user() for _ in range(20)]
        ids = [m.id for m in members]
        ids += [server.admin.post("/admin/users", {"name": f"x{count}.{i}.{os.urandom(3).hex()}"})
                .json["user"] for i in range(count - 20)]
        room = server.chat(owner).request("room.create", name="big", kind="private", members=ids,
                                          timeout=30)["room"]
        clients = [server.chat(m, enter={room: 0}, sample=True) for m in members]
        source = server.chat(owner, enter={room: 0}, sample=True)
        source.send_message(room, "warm")
        until(lambda: all(c.texts(room) for c in clients), 10, pump=clients)
        keep(lambda: True, 1.2, clients + [source])  # presence and room.updated come to rest
        tries = []  # the least of some: what else goes on in the server costs statements too
        for part in range(4):
            before = statements(server)
            for i in range(20):
                seq = source.send_message(room, f"n{part}.{i}")["seq"]
                if reads:
                    for client in clients[:5]:
                        client.request("message.read", room=room, seq=seq)
            tries.append((statements(server) - before) / 20)
        costs.append(min(tries))
        for client in clients:
            client.close()
    assert costs[0] == costs[1], costs
    if not reads:
        assert costs[0] <= 8, costs


def test_pong_is_no_reading(make_server):
    """A client that answers pings at the socket but reads slowly is alive for the heart-beat."""
    server = make_server(sets=BEATS)
    a, b = server.users(2)
    room = server.room(a, b)
    reader = server.chat(b, enter={room: 0})
    until(lambda: reader.pings >= 3, 8, "three heart-beats", pump=[reader])
    reader.frame(PONG, b"")
    reader.fence()
    assert reader.ended is None
    del a


def test_concurrent_readers_over_http(server, pair):
    """26 over HTTP with threads: never an empty answer behind an acknowledged message."""
    a, b, room = pair
    source = server.chat(a, sample=True)
    bad, stop, heads = [], threading.Event(), [0]

    def read():
        while not stop.is_set():
            head = heads[0]
            page = b.api.get(f"/rooms/{room}/messages?after_seq={max(0, head - 1)}").json
            if page["as_of"] < head or (head and not any(m["seq"] == head for m in page["messages"])
                                        and not page["more"]):
                bad.append((head, json.dumps(page)[:300]))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(150):
        heads[0] = source.send_message(room, f"c{i}")["seq"]
    stop.set()
    for thread in threads:
        thread.join(10)
    assert not bad, bad[:2]

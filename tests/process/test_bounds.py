"""Every bound and its named answer: in-flight window, outgoing queue, paced replay, rates,
heart-beat, reload of the limits (protocol.md, promise 8; what ARCHITECTURE.md lists as queues)."""

import json
import signal
import socket
import threading
import time

import pytest

from parley import metrics, store, ws
from parley.chat import Chat
from parley.frames import PING, PONG, build
from parley.http import HttpConnection
from parley.wait import SANITIZED, SLOWNESS, keep, until


class SlowLink:
    """A proxy that passes what the server sends at a given rate, with tiny buffers."""

    def __init__(self, address, bytes_per_second):
        self.address, self.rate = address, bytes_per_second
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        try:
            near, _ = self.listener.accept()
        except OSError:
            return
        far = ws.connect(self.address, rcvbuf=16384)
        threading.Thread(target=self._copy, args=(near, far, None), daemon=True).start()
        self._copy(far, near, self.rate)

    def _copy(self, source, target, rate):
        try:
            while not self.over.is_set():
                data = source.recv(8192 if rate else 65536)
                if not data:
                    break
                target.sendall(data)
                if rate:
                    self.over.wait(len(data) / rate)  # the link's own pace, not a wait of the test
        except OSError:
            pass
        for sock in (source, target):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.over.set()
        self.listener.close()


def test_replay_over_a_slow_link(make_server):
    """1,000 events of 4,000 code points (16 MB) resume over a slow link without a 4008, and what
    is said meanwhile comes behind them."""
    server = make_server()
    a, b = server.users(2)
    room = server.room(a, b)
    assert server.stop() == 0
    head = store.fill(server, a, 1000, lambda i: "😀" * 3992 + f"{i:08}")
    server.start()
    source = server.chat(a, sample=True)
    link = SlowLink(server.address, 4_000_000)
    host, port = link.host.split(":")
    client = Chat(ws.connect((host, int(port)), rcvbuf=16384), sample=True)
    client.handshake(server.host)
    client.request("hello", token=b.token)
    begun = time.monotonic()
    answer = client.request("room.enter", room=room, after_seq=2)
    assert "gap" not in answer and answer["last_seq"] == head
    live = []
    until(lambda: (live.append(source.send_message(room, "meanwhile")["seq"]) if len(live) < 30
                   else None, client.seqs(room)[-1:] >= [head])[1], 40, pump=[client])
    client.wait_seq(room, live[-1], 20)
    assert client.seqs(room) == list(range(3, live[-1] + 1))
    assert time.monotonic() - begun > 1.5, "the link was not slow"
    assert client.ended is None
    client.abort()
    link.close()


@pytest.mark.quick
def test_in_flight_window(make_server):
    """Over the window the server stops reading; nothing is refused and nothing lost."""
    server = make_server(sets={"limits.in_flight": 4})
    a, b = server.users(2)
    room = server.room(a, b)
    client = server.chat(a)
    assert client.welcome["limits"]["in_flight"] == 4
    ids = client.batch([("message.send", {"room": room, "nonce": f"w{i}", "text": f"{i}"})
                        for i in range(300)])
    seen = []

    def done():
        cards = server.admin.get("/admin/sessions").json["sessions"]
        seen.extend(c["in_flight"] for c in cards)
        return all(i in client.answers for i in ids)

    until(done, 20, pump=[client])
    assert [client.answers[i]["seq"] for i in ids] == list(range(3, 303))
    assert max(seen) <= 4


@pytest.mark.quick
def test_outgoing_bound(make_server):
    """Too much waits for a session: `bye`, 4008, and the others are not kept waiting."""
    server = make_server(sets={"limits.outgoing_bytes": 65536, "limits.in_flight": 500})
    a, b, c = server.users(3)
    room = server.room(a, b, c)
    slow = Chat.connect(server, b.token, rcvbuf=4096, enter={room: 0}, sample=True)
    quick = server.chat(c, enter={room: 0}, sample=True)
    source = server.chat(a, sample=True)
    sessions = lambda: [s for s in server.admin.get("/admin/sessions").json["sessions"]
                        if s["user"] == b.id]
    n = 0
    while n < 2000 and (n % 50 or sessions()):  # few at a time, so that those who read keep up
        ids = source.batch([("message.send", {"room": room, "nonce": f"o{n}-{i}", "text": "y" * 4000})
                            for i in range(8)])
        last = max(source.answer(id)["seq"] for id in ids)
        quick.wait_seq(room, last)
        n += 1
    until(lambda: not sessions(), 10, "the slow session is gone", every=0.1)
    begun = time.monotonic()
    assert slow.wait_end(15) in (4008, "reset")
    assert time.monotonic() - begun < 12 * SLOWNESS
    head = source.send_message(room, "end")["seq"]
    quick.wait_seq(room, head, 20)


def test_outgoing_age(make_server):
    """Nothing waits longer than the age allows, however little it is."""
    server = make_server(sets={"limits.outgoing_age_ms": 1000, "limits.in_flight": 500,
                               "limits.outgoing_bytes": 1 << 28, "limits.outgoing_frames": 1000000})
    a, b = server.users(2)
    room = server.room(a, b)
    slow = Chat.connect(server, b.token, rcvbuf=4096, enter={room: 0}, sample=True)
    source = server.chat(a, sample=True)
    for n in range(30):
        for id in source.batch([("message.send", {"room": room, "nonce": f"g{n}-{i}",
                                                  "text": "z" * 4000}) for i in range(50)]):
            source.answer(id, 20)
    until(lambda: not [s for s in server.admin.get("/admin/sessions").json["sessions"]
                       if s["user"] == b.id], 12, "closed by age", every=0.1)
    assert slow.wait_end(15) in (4008, "reset")


@pytest.mark.quick
def test_message_rate(make_server):
    """Over the burst a user is refused with rate_limited and a time, on every session and door."""
    server = make_server(roomy=False, sets={"limits.messages_per_s": 1, "limits.messages_burst": 10})
    a, b = server.users(2)
    room = server.room(a, b)
    client, second = server.chat(a), server.chat(a)
    begun = time.monotonic()
    ids = client.batch([("message.send", {"room": room, "nonce": f"r{i}", "text": "x"})
                        for i in range(30)])
    answers = [client.answer(i) for i in ids]
    ok = [x for x in answers if x.get("ok")]
    errors = [x["error"] for x in answers if "error" in x]
    assert 10 <= len(ok) <= 11 + (time.monotonic() - begun)
    assert {e["code"] for e in errors} == {"rate_limited"}
    assert all(e["retry_after_ms"] > 0 for e in errors)
    second.refused("message.send", "rate_limited", room=room, nonce="s", text="x")
    answer = a.api.post(f"/rooms/{room}/messages", {"text": "x", "nonce": "h"})
    assert answer.status == 429 and answer.code == "rate_limited"
    assert int(answer.header("retry-after")) >= 1
    # a repeat of what is committed is answered, not refused
    assert client.ask("message.send", room=room, nonce="r0", text="x")["duplicate"] is True
    server.chat(b).send_message(room, "another user is not slowed")
    until(lambda: client.ask("message.send", room=room, nonce=f"z{time.monotonic_ns()}",
                             text="x").get("ok"), 4, every=0.2)


def test_heart_beat(make_server):
    """Pings come at the interval; two unanswered and the time after it end with 4009."""
    server = make_server(sets={"limits.ping_interval_s": 1, "limits.ping_timeout_s": 1})
    a = server.user()
    client = server.chat(a)
    begun = time.monotonic()
    until(lambda: client.pings >= 3, 6, pump=[client])
    assert time.monotonic() - begun > 1.5 and client.ended is None
    client.auto_pong = False
    begun = time.monotonic()
    until(lambda: client.close_frame is not None or client.ended, 8, pump=[client])
    client.wait_closed(4009)
    assert 1.5 < time.monotonic() - begun < 6 * SLOWNESS
    assert any(f.get("ev") == "bye" and f["code"] == 4009 for f in client.log)


def test_heart_beats_are_spread(make_server):
    """Pings to many sessions do not come all at once."""
    server = make_server(sets={"limits.ping_interval_s": 2, "limits.ping_timeout_s": 2})
    clients = [server.chat(u) for u in server.users(20)]
    times = {}

    def all_pinged():
        for i, client in enumerate(clients):
            if client.pings and i not in times:
                times[i] = time.monotonic()
        return len(times) == 20

    until(all_pinged, 8, pump=clients, every=0.05)
    assert max(times.values()) - min(times.values()) > 0.3


def test_pings_of_the_protocol(make_server):
    """`ping` is an op like any other and needs no room."""
    server = make_server()
    client = server.chat(server.user())
    for _ in range(100):
        client.request("ping")


def test_ping_rate_is_configurable(make_server):
    server = make_server(sets={"limits.pings_per_s": 3})
    client = server.chat(server.user())
    client.send(b"".join(build(PING, b"%d" % i) for i in range(30)))
    until(lambda: client.close_frame or client.ended, 3, pump=[client])
    assert len([f for f in client.inbox if f.opcode == PONG]) <= 8
    assert client.wait_end(3) == 1008


@pytest.mark.quick
def test_reload(make_server):
    """HUP: limits of the file count at once, for living sessions too; a bad file changes nothing."""
    base = "[limits]\ntext_code_points = {n}\nmessages_per_s = 100000\nmessages_burst = 100000\n"
    server = make_server(roomy=False, config=base.format(n=10))
    a = server.user()
    room = server.room(a)
    client = server.chat(a)
    client.refused("message.send", "too_large", room=room, nonce="a", text="x" * 11)
    path = server.data / "parley.toml"
    path.write_text(base.format(n=20))
    server.signal(signal.SIGHUP)
    until(lambda: client.ask("message.send", room=room, text="x" * 11,
                             nonce=f"b{time.monotonic_ns()}").get("ok"), 5, every=0.05)
    server.allow("reload|configuration|config")
    path.write_text("[limits]\ntext_code_points = \"many\"\n")
    server.signal(signal.SIGHUP)
    until(lambda: "text_code_points" in server.text(), 5, "the bad file is reported")
    client.send_message(room, "y" * 15)
    path.write_text(base.format(n=30))
    answer = server.admin.post("/admin/reload")
    assert answer.status == 200 and "limits.text_code_points" in answer.json["changed"]
    client.send_message(room, "z" * 25)


def test_connections_in_all(make_server):
    server = make_server(sets={"limits.connections": 10})
    held = []
    with pytest.raises((ws.Refused, OSError, AssertionError)):
        for _ in range(15):
            held.append(ws.WebSocket.open(server.address, timeout=3))
    assert len(held) <= 10
    for client in held:
        client.abort()
    until(lambda: _works(server), 5, every=0.1)


def _works(server):
    try:
        server.chat(server.user()).close()
        return True
    except (ws.Refused, OSError, AssertionError, EOFError):
        return False


def test_descriptors_and_memory_come_back(make_server):
    """After the last close: 0 sessions, the descriptors of the start, memory near it."""
    server = make_server()
    users = server.users(5)
    room = server.room(*users)
    for user in users:
        server.chat(user, enter={room: 0}).close()
    until(lambda: not server.admin.get("/admin/sessions").json["sessions"], 5)
    sockets, rss = server.sockets(), server.rss()
    for _ in range(3):
        clients = [server.chat(users[i % 5], enter={room: 0}, sample=True) for i in range(150)]
        for i, client in enumerate(clients):
            (client.close, client.cut, client.abort)[i % 3]()
    until(lambda: not server.admin.get("/admin/sessions").json["sessions"], 10)
    until(lambda: server.sockets() <= sockets, 10,
          lambda: f"{server.sockets()} sockets, {sockets} before")
    until(lambda: server.rss() <= rss + 16 * 1024 or SANITIZED, 10, lambda: f"{rss} KiB -> {server.rss()} KiB")
    actors = server.admin.get("/admin/actors").json["actors"]
    assert not [x for x in actors if x["kind"] == "session"]


def test_silent_clients_cost_nothing(make_server):
    """An idle server with idle sessions does not work."""
    server = make_server()
    clients = [server.chat(u) for u in server.users(50)]
    keep(lambda: True, 2.0, clients)  # what the logins set off comes to rest
    before, begun = server.cpu(), time.monotonic()
    keep(lambda: True, 3.0, clients)
    used = (server.cpu() - before) / (time.monotonic() - begun)
    assert used <= 0.02, f"{used:.1%} of a CPU"


@pytest.fixture(scope="module")
def hanging(make_server, faults):
    """A server whose storage blocks for 2.5 s on the text !hang, with small queues."""
    return make_server(faults="storage_hang_ms=2500",
                       sets={"limits.room_queue": 20, "limits.writer_queue": 40,
                             "limits.in_flight": 1000, "limits.session_queue": 1000})


def test_room_queue(hanging):
    """A room's queue is full: refused with overloaded and a time, before it is accepted; what was
    accepted is committed, and a retry of the refused works."""
    a, b = hanging.users(2)
    room, calm = hanging.room(a, b), hanging.room(b)
    client = hanging.chat(a)
    stuck = client.post("message.send", room=room, nonce="h", text="!hang")
    ids = client.batch([("message.send", {"room": room, "nonce": f"q{i}", "text": f"{i}"})
                        for i in range(60)])
    answers = [client.answer(i, 20) for i in ids]
    errors = [x["error"] for x in answers if "error" in x]
    assert client.answer(stuck, 20)["ok"]
    assert errors and {e["code"] for e in errors} == {"overloaded"}
    assert all(e["retry_after_ms"] > 0 for e in errors)
    ok = [x["seq"] for x in answers if x.get("ok")]
    assert len(ok) >= 10 and ok == sorted(ok)
    assert client.send_message(room, "59", "q59")["seq"] > max(ok)
    hanging.chat(b).send_message(calm, "another room")


def test_writer_queue(hanging):
    """All rooms together: the writer's queue is full: overloaded, nothing lost of what was taken."""
    a = hanging.user()
    rooms = [hanging.room(a) for _ in range(8)]
    client = hanging.chat(a)
    first = client.post("message.send", room=rooms[0], nonce="h2", text="!hang")
    ids = client.batch([("message.send", {"room": rooms[i % 8], "nonce": f"v{i}", "text": f"{i}"})
                        for i in range(160)])
    answers = [client.answer(i, 20) for i in ids]
    assert client.answer(first, 20)["ok"]
    refused = [x["error"] for x in answers if "error" in x]
    assert refused and {e["code"] for e in refused} == {"overloaded"}
    found = sum(len(client.request("history", room=r, limit=200)["messages"]) for r in rooms)
    assert found == 1 + len(answers) - len(refused)


def test_http_pipelining_bound(make_server):
    """Pipelined requests over the bound wait in the socket, not in memory."""
    server = make_server(sets={"limits.http_in_flight": 2})
    a = server.user()
    room = server.room(a)
    one = (f"GET /api/v1/rooms/{room} HTTP/1.1\r\nHost: {server.host}\r\n"
           f"Authorization: Bearer {a.token}\r\n\r\n").encode()
    with HttpConnection(server.address) as connection:
        connection.send(one * 100)
        for _ in range(100):
            answer = connection.response(10)
            assert answer.status == 200 and json.loads(answer.body)["room"] == room


def test_queue_metrics_exist(make_server):
    """Bounds that nobody can see are half a bound."""
    server = make_server()
    samples = server.metrics()
    names = {n for n, _ in samples}
    for part in ("queue", "mailbox"):
        assert any(part in n for n in names), sorted(names)
    assert metrics.total(samples, "chat_db_statements_total") is not None

"""One output queue: control frames and shared frames on one connection never mix (P1 to P5).

A client that pings in single bytes, with tiny buffers, reads what a busy room sends it; every
byte of the stream goes through the strict parser. Closes come at random moments.
"""

import random
import time

import pytest

from parley import frames
from parley.chat import Chat
from parley.frames import CLOSE, PING, PONG, build
from parley.wait import until

SETS = {"limits.pings_per_s": 1000000, "limits.outgoing_bytes": 8388608,
        "limits.outgoing_frames": 100000, "limits.outgoing_age_ms": 60000,
        "limits.in_flight": 1000}
pytestmark = pytest.mark.quick
TEXTS = ["a", "b" * 125, "c" * 126, "😀" * 3900, "d" * 4000]


class Pinger:
    """Sends pings byte by byte without ever leaving one half sent; remembers their payloads."""

    def __init__(self, client, seed):
        self.client, self.random = client, random.Random(seed)
        self.sent, self.rest, self.done = [], b"", 0

    def step(self):
        if not self.rest:
            payload = self.random.randbytes(self.random.randrange(126))
            self.sent.append(payload)
            self.rest = build(PING, payload)
        n = self.random.choice((1, 1, 3, len(self.rest)))
        try:
            self.client.sock.settimeout(0.5)
            self.client.sock.sendall(self.rest[:n])
        except OSError:
            return False
        self.rest = self.rest[n:]
        if not self.rest:
            self.done += 1
        return True

    def finish(self):
        while self.rest and self.step():
            pass


def pongs(client):
    return [f.payload for f in client.inbox if f.opcode == PONG]


@pytest.fixture(scope="module")
def people(server):
    sender, reader = server.users(2)
    return sender, reader, server.room(sender, reader, name="busy")


def busy(server, people, rcvbuf=4096):
    sender, reader, room = people
    source = server.chat(sender, enter={room: 0}, sample=True)
    client = Chat.connect(server, reader.token, rcvbuf=rcvbuf, sample=True)
    start = client.request("room.enter", room=room)["last_seq"]
    return source, client, room, start


def offer(source, room, count, tag):
    source.batch([("message.send", {"room": room, "nonce": f"{tag}-{i}-{time.monotonic_ns()}",
                                    "text": TEXTS[i % len(TEXTS)]}) for i in range(count)])


def test_pings_under_broadcast(server, people):
    """P1, P2: 0 framing errors, every ping answered in order, every event in order."""
    source, client, room, start = busy(server, people)
    pinger = Pinger(client, 1)
    rounds = 40
    for n in range(rounds):
        offer(source, room, 10, f"p{n}")
        for _ in range(25):
            pinger.step()
            client.pump(0)
        source.pump(0)
    pinger.finish()
    until(lambda: client.log and client.seqs(room)[-1:] == [start + rounds * 10]
          and len(pongs(client)) == len(pinger.sent), 30, pump=[client, source])
    assert pongs(client) == pinger.sent
    assert client.seqs(room) == list(range(start + 1, start + rounds * 10 + 1))
    assert client.parser.count > rounds * 10


@pytest.mark.parametrize("seed", range(8))
def test_client_closes_meanwhile(server, people, seed):
    """P3: exactly one close frame, the last thing that comes."""
    source, client, room, _ = busy(server, people)
    pinger, chance = Pinger(client, seed), random.Random(seed)
    offer(source, room, 60, f"c{seed}")
    for _ in range(chance.randrange(5, 80)):
        pinger.step()
        client.pump(0)
    pinger.finish()
    client.send(build(CLOSE, b"\x03\xe8"))
    assert client.wait_end(8) == 1000
    assert pongs(client) == pinger.sent[:len(pongs(client))]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", ["admin", "too-large", "binary"])
def test_server_closes_meanwhile(server, people, seed, way):
    """P4"""
    source, client, room, _ = busy(server, people)
    pinger, chance = Pinger(client, seed), random.Random(seed)
    offer(source, room, 60, f"s{seed}{way}")
    for _ in range(chance.randrange(5, 80)):
        pinger.step()
        client.pump(0)
    pinger.finish()
    if way == "admin":
        session = client.welcome["session"] if client.welcome else None
        answer = server.admin.delete(f"/admin/sessions/{session}")
        assert answer.status == 200, answer
        code = {1008}
    elif way == "binary":
        client.send(build(frames.BINARY, b"x"))
        code = {1003}
    else:
        client.send(build(frames.TEXT, b"", form=64, length=1 << 20))
        code = {1009}
    assert client.wait_end(8) in code
    assert client.parser.closed


def test_slow_reader_is_closed_in_the_middle(make_server):
    """P4 with 4008: the frame under way comes whole, then `bye` or not, then the close."""
    server = make_server(sets={"limits.pings_per_s": 1000000, "limits.outgoing_bytes": 65536,
                               "limits.outgoing_age_ms": 2000})
    sender, reader = server.users(2)
    room = server.room(sender, reader)
    source = server.chat(sender, enter={room: 0}, sample=True)
    client = Chat.connect(server, reader.token, rcvbuf=4096, sample=True)
    client.request("room.enter", room=room)
    pinger = Pinger(client, 3)
    for n in range(60):
        offer(source, room, 10, f"slow{n}")
        pinger.step()
        source.pump(0.01)
    pinger.finish()
    assert client.wait_end(12) in (4008, "reset")
    if client.ended == "reset":
        assert client.close_frame is None
    seqs = client.seqs(room)
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs))) if seqs else True


def test_heart_beat_during_a_partial_write(make_server):
    """P5: the server's own ping meets a write that has stopped half way."""
    server = make_server(sets={"limits.ping_interval_s": 3, "limits.ping_timeout_s": 3,
                               "limits.outgoing_bytes": 8388608, "limits.outgoing_frames": 100000,
                               "limits.outgoing_age_ms": 60000, "limits.in_flight": 1000})
    sender, reader = server.users(2)
    room = server.room(sender, reader)
    source = server.chat(sender, enter={room: 0}, sample=True)
    client = Chat.connect(server, reader.token, rcvbuf=4096, sample=True)
    start = client.request("room.enter", room=room)["last_seq"]
    for n in range(10):
        offer(source, room, 20, f"h{n}")
        source.pump(0.01)
        client.pump(0)
    paused = time.monotonic()  # in the middle of what waits for it
    until(lambda: time.monotonic() > paused + 3.4, 8, pump=[source])
    until(lambda: client.ended or (client.seqs(room)[-1:] == [start + 200] and client.pings), 30,
          lambda: client.log[-1:], pump=[client, source])
    assert client.ended is None
    assert client.seqs(room) == list(range(start + 1, start + 201))

"""The client library itself, against tiny servers that misbehave on purpose: a client that would
not notice could not test anything."""

import base64
import hashlib
import json
import socket
import struct
import threading

import pytest

from parley import frames, metrics, record, tokens, ws
from parley.chat import Chat, Error
from parley.frames import FramingError
from parley.http import HttpConnection
from parley.wait import TimedOut, keep, until

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def unrecorded(monkeypatch):
    """What these servers say is no traffic of Parley's."""
    monkeypatch.setattr(record, "_DIR", None)


class Tiny:
    """A server of one connection: does the handshake, then sends the given bytes and ends or
    answers each text frame by a function."""

    def __init__(self, data=b"", answer=None, raw=False):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.host = "127.0.0.1:%d" % self.address[1]
        self.data, self.answer, self.raw = data, answer, raw
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        sock, _ = self.listener.accept()
        with sock:
            head = b""
            while b"\r\n\r\n" not in head:
                head += sock.recv(65536)
            if not self.raw:
                fields = dict(ws.parse_head(b"HTTP/1.1 200 x\r\n" + head.split(b"\r\n", 1)[1])[1])
                accept = base64.b64encode(hashlib.sha1(
                    fields["sec-websocket-key"].encode() + ws.GUID).digest()).decode()
                sock.sendall(("HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                              f"Sec-WebSocket-Accept: {accept}\r\n\r\n").encode())
            sock.sendall(self.data)
            if self.answer is None:
                return
            rest = b""
            while True:
                data = sock.recv(65536)
                if not data:
                    return
                rest += data
                while len(rest) > 6:
                    size, at = rest[1] & 127, 2
                    if size == 126:
                        size, at = struct.unpack("!H", rest[2:4])[0], 4
                    if len(rest) < at + 4 + size:
                        break
                    text = frames.mask_bytes(rest[at + 4:at + 4 + size], rest[at:at + 4])
                    rest = rest[at + 4 + size:]
                    sock.sendall(b"".join(server_frame(json.dumps(a).encode())
                                          for a in self.answer(json.loads(text))))

    def chat(self):
        return Chat.connect(self, hello=False)


def server_frame(payload, opcode=frames.TEXT):
    return frames.build(opcode, payload, mask=False)


BAD = {
    "masked": frames.build(frames.TEXT, b"{}", mask=True),
    "RSV": frames.build(frames.TEXT, b"{}", mask=False, rsv=4),
    "reserved opcode": frames.build(5, b"", mask=False),
    "long form": frames.build(frames.TEXT, b"{}", mask=False, form=16),
    "long control": frames.build(frames.PING, b"x" * 126, mask=False),
    "fragmented control": frames.build(frames.PONG, b"x", mask=False, fin=False),
    "orphan": frames.build(frames.CONT, b"x", mask=False),
    "not UTF-8": server_frame(b'{"a":"\xff"}'),
    "one-byte close": frames.build(frames.CLOSE, b"\x03", mask=False),
    "after the close": frames.build(frames.CLOSE, b"\x03\xe8", mask=False) + server_frame(b"{}"),
    "interleaved": server_frame(b"{}")[:2] + frames.build(frames.PONG, b"", mask=False) + b"{}",
}


@pytest.mark.parametrize("name", BAD)
def test_broken_frames_are_noticed(name):
    with pytest.raises((FramingError, AssertionError, ValueError)):
        client = Tiny(BAD[name]).chat()
        while client.ended is None:
            client.pump(1)


@pytest.mark.parametrize("body", ['{"ev":"x","ev":"y"}', "[]x"])
def test_broken_json_is_noticed(body):
    with pytest.raises((AssertionError, ValueError)):
        client = Tiny(server_frame(body.encode())).chat()
        while client.ended is None:
            client.pump(1)


def event(seq, room="r"):
    return server_frame(json.dumps({"ev": "message.created", "room": room, "seq": seq}).encode())


@pytest.mark.parametrize("seqs, faults", [([5, 6, 7], 0), ([5, 7], 1), ([5, 5], 1), ([6, 5], 1),
                                          ([5, 6, 6, 7], 1)])
def test_holes_and_repeats_are_noticed(seqs, faults):
    client = Tiny(b"".join(event(s) for s in seqs)).chat()
    while client.pump(2) and client.ended is None:
        pass
    found, client.faults = client.faults, []
    assert bool(found) == bool(faults), found


def test_enter_sets_what_is_due():
    def answer(request):
        gaps = [{"from": 3, "to": 4, "why": "far"}] if request["after_seq"] == 2 else []
        yield {"re": request["id"], "ok": True, "last_seq": 6, "read_seq": 0, "members": [],
               **({"gap": gaps} if gaps else {})}
        for seq in (5, 6):
            yield {"ev": "message.created", "room": "r", "seq": seq}

    client = Tiny(answer=answer).chat()
    client.request("room.enter", room="r", after_seq=4)
    client.wait_seq("r", 6)
    client.request("room.enter", room="r", after_seq=2)
    until(lambda: client.seqs("r") == [5, 6, 5, 6], 3, pump=[client])
    assert not client.faults
    client.request("room.enter", room="r", after_seq=3)  # 4 is missing now
    until(lambda: len(client.seqs("r")) == 6, 3, pump=[client])
    assert client.faults
    client.faults = []


def test_errors_and_timeouts():
    def answer(request):
        if request["op"] == "bad":
            yield {"re": request["id"], "error": {"code": "not_found", "message": "x"}}
        if request["op"] == "twice":
            yield {"re": request["id"], "ok": True}
            yield {"re": request["id"], "ok": True}

    client = Tiny(answer=answer).chat()
    with pytest.raises(Error):
        client.request("bad")
    client.refused("bad", "not_found")
    with pytest.raises(AssertionError):
        client.refused("bad", "forbidden")
    with pytest.raises(TimedOut):
        client.request("silent", timeout=0.2)
    client.request("twice")
    until(lambda: client.faults, 2, pump=[client])
    client.faults = []


def test_parser_byte_by_byte():
    data = b"".join(server_frame(b'{"n":%d}' % n + b" " * n) for n in (0, 120, 126, 200, 65536))
    parser, found = frames.Parser(), []
    for i in range(len(data)):
        found += parser.feed(data[i:i + 1])
    assert [json.loads(f.payload)["n"] for f in found] == [0, 120, 126, 200, 65536]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536])
def test_masks(size):
    data, key = bytes(i % 251 for i in range(size)), b"\x01\x80\xff\x00"
    masked = frames.mask_bytes(data, key)
    assert frames.mask_bytes(masked, key) == data
    assert all(masked[i] == data[i] ^ key[i % 4] for i in range(0, size, 97))


def test_http_client_sees_everything():
    reply = (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
             b"3\r\nabc\r\n0\r\n\r\nHTTP/1.1 404 x\r\nContent-Length: 2\r\n\r\nno")
    with HttpConnection(Tiny(reply, raw=True).address) as connection:
        connection.send(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.response().body == b"abc"
        assert connection.response().status == 404
        with pytest.raises(EOFError):
            connection.response()


def test_waiting():
    with pytest.raises(TimedOut):
        until(lambda: False, 0.05)
    with pytest.raises(AssertionError):
        keep(lambda: False, 0.05)


def test_tokens_and_metrics():
    token = tokens.sign(tokens.claims("u1"), b"k" * 32)
    assert tokens.decode(token)[1]["sub"] == "u1"
    samples = metrics.parse('# HELP a x\na_total{b="c",d="e"} 3\na_total{b="x",d="e"} 4\nf 1e3\n')
    assert metrics.total(samples, "a_total") == 7 and metrics.total(samples, "a_total", b="c") == 3
    assert metrics.total(samples, "f") == 1000 and metrics.total(samples, "none") is None

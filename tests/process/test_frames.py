"""Frames on the real endpoint: hostile rows S24 to S50 and the groups of the Autobahn suite, with
a room's own event as the echo.

Every violation must end in one close frame with the right code and the end of TCP within 2 s,
and a fresh connection must work afterwards.
"""

import itertools
import json
import os
import time

import pytest

from parley import utf8
from parley.chat import Chat
from parley.frames import BINARY, CLOSE, CONT, PING, PONG, TEXT, build
from parley.wait import SANITIZED, SLOWNESS, until
from parley.ws import WebSocket

SETS = {"limits.message_ms": 1500}
pytestmark = pytest.mark.quick
ids = itertools.count(1)


@pytest.fixture(scope="module")
def echo(server):
    """(user, room): a message sent there comes back as an event."""
    user = server.user()
    return user, server.room(user, name="echo")


@pytest.fixture
def client(server, echo):
    """A session that has entered the room."""
    user, room = echo
    client = server.chat(user)
    client.request("room.enter", room=room)
    return client


def dies(client, code, within=2.0):
    codes = {code} if isinstance(code, int) else set(code)
    begun = time.monotonic()
    got = client.wait_end(within + 1)
    assert got in codes, f"ended with {got}, due was {codes}"
    assert time.monotonic() - begun < within
    assert sum(f.opcode == CLOSE for f in client.inbox) <= 1


def message(room, text, nonce=None):
    return json.dumps({"op": "message.send", "id": f"m{next(ids)}", "room": room, "text": text,
                       "nonce": nonce or f"f{next(ids)}-{os.getpid()}"}, ensure_ascii=False).encode()


def echoed(client, room, text, timeout=5.0):
    return client.event("message.created", timeout, room=room, text=text)


VIOLATIONS = {
    "S24 unmasked": (build(TEXT, b"Hello", mask=False), 1002),
    "S25 RSV1": (build(TEXT, b"{}", rsv=4), 1002),
    "S25 RSV2": (build(TEXT, b"{}", rsv=2), 1002),
    "S25 RSV3": (build(TEXT, b"{}", rsv=1), 1002),
    "S27 long ping": (build(PING, b"x" * 126), 1002),
    "S27 fragmented ping": (build(PING, b"x", fin=False), 1002),
    "S27 long pong": (build(PONG, b"x" * 126), 1002),
    "S27 fragmented pong": (build(PONG, b"x", fin=False), 1002),
    "S27 long close": (build(CLOSE, b"\x03\xe8" + b"x" * 124), 1002),
    "S28 orphan continuation": (build(CONT, b"x"), 1002),
    "S28 orphan fragment": (build(CONT, b"x", fin=False), 1002),
    "S28 text in a fragment": (build(TEXT, b"a", fin=False) + build(TEXT, b"b"), 1002),
    "S28 binary in a fragment": (build(TEXT, b"a", fin=False) + build(BINARY, b"b"), 1002),
    "S29 16-bit form": (build(TEXT, b"Hello", form=16), 1002),
    "S29 64-bit form": (build(TEXT, b"Hello", form=64), 1002),
    "S29 64-bit form of 300": (build(TEXT, b"x" * 300, form=64), 1002),
    "S30 high bit": (build(TEXT, b"", form=64, length=1 << 63), {1002, 1009}),
    "S31 announced over the limit": (build(TEXT, b"", form=64, length=65537), 1009),
    "S31 announced 1 GiB": (build(TEXT, b"", form=64, length=1 << 30), 1009),
    "S43 binary": (build(BINARY, b"{}"), 1003),
    "S43 empty binary": (build(BINARY, b""), 1003),
    "S43 fragmented binary": (build(BINARY, b"{", fin=False), 1003),
    "S46 RSV1 on continuation": (build(TEXT, b"a", fin=False) + build(CONT, b"b", rsv=4), 1002),
    "S46 RSV1 on ping": (build(PING, b"a", rsv=4), 1002),
    "S50 HTTP on an upgraded socket": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1002),
    "S50 HTTP POST": (b"POST /api/v1/login HTTP/1.1\r\n\r\n", 1002),
}
VIOLATIONS.update({f"S26 opcode {o}": (build(o, b"x"), 1002) for o in (3, 4, 5, 6, 7)})
VIOLATIONS.update({f"S26 opcode {o}": (build(o, b""), 1002) for o in range(11, 16)})
VIOLATIONS.update({f"3.{r} on {o}": (build(o, b"", rsv=r), 1002)
                   for r in range(1, 8) for o in (PING, CLOSE)})


@pytest.mark.parametrize("name", VIOLATIONS)
def test_violation(client, name, alive):
    data, code = VIOLATIONS[name]
    client.send(data)
    dies(client, code)
    alive()


@pytest.mark.parametrize("name", ["S25 RSV2", "S27 long ping", "S43 binary", "S30 high bit"])
def test_violation_in_single_bytes(client, name):
    data, code = VIOLATIONS[name]
    try:
        client.send_chopped(data)
    except OSError:
        pass  # the server need not wait for the rest
    dies(client, code)


def test_violation_before_hello(server, alive):
    """The same strictness for those who are nobody yet."""
    for data, code in [VIOLATIONS["S24 unmasked"], VIOLATIONS["S31 announced over the limit"],
                       VIOLATIONS["S43 binary"], VIOLATIONS["S26 opcode 5"]]:
        client = WebSocket.open(server.address)
        client.send(data)
        assert client.wait_end(3) in ({code, 4001} if isinstance(code, int) else code | {4001})
    alive()


def test_message_in_very_many_fragments(client, alive):
    """S32: a message has at most 1,024 fragments."""
    client.send(build(TEXT, b"{", fin=False) + build(CONT, b" ", fin=False) * 1500)
    dies(client, {1008, 1009})
    alive()


def test_message_in_many_fragments(client):
    """S32, its other half: what is allowed is taken."""
    body = b'{"op":"ping","id":77}'
    client.ops[77] = "ping"
    client.send(build(TEXT, body[:1], fin=False)
                + b"".join(build(CONT, b" ", fin=False) for _ in range(900))
                + build(CONT, body[1:]))
    assert client.answer(77)["ok"]


def test_empty_fragments_without_end(server, client, alive):
    """Empty fragments carry nothing and count all the same."""
    cpu = server.cpu()
    client.send(build(TEXT, b"", fin=False))
    try:
        for _ in range(400):
            client.send(build(CONT, b"", fin=False) * 1000)
            client.pump(0)
            if client.ended is not None or client.close_frame is not None:
                break
    except OSError:
        pass
    assert client.wait_end(6) in (1008, 1009, "reset", "eof")
    if client.close_frame is not None:  # by their number, not by the message's deadline
        assert b"fragment" in client.close_frame.payload
    assert server.cpu() - cpu < 2 * SLOWNESS
    alive()


def test_fragment_and_then_silence(client):
    """S34: the message has a deadline; pings in between are answered and do not move it."""
    begun = time.monotonic()
    client.send(build(TEXT, b'{"op":', fin=False))
    pings = 0

    def ended():
        nonlocal pings
        if client.close_frame is None and pings < 8:
            client.frame(PING, b"p%d" % pings)
            assert client.next_frame(2, PONG).payload == b"p%d" % pings
            pings += 1
        client.pump(0.1)
        return client.close_frame is not None

    until(ended, 6, "close of the half message", every=0.05)
    dies(client, 1008)
    assert 1.0 < time.monotonic() - begun < 4 * SLOWNESS


@pytest.mark.parametrize("data", [b"c0 80", b"ed a0 80", b"f4 90 80 80", b"e2 82"],
                         ids=["overlong", "surrogate", "beyond", "truncated"])
def test_invalid_utf8(client, echo, data, alive):
    """S35"""
    body = message(echo[1], "@@").replace(b"@@", bytes.fromhex(data.decode()))
    if data == b"e2 82":
        body = body[:body.index(b"\xe2\x82") + 2]
    client.send(build(TEXT, body))
    dies(client, 1007)
    alive()


def test_invalid_utf8_fails_fast(client):
    """6.4: the first bad byte ends it, also within a frame that is not whole yet."""
    client.send(build(TEXT, b'{"op":"x\xff', length=1000))
    dies(client, 1007)


def test_invalid_utf8_over_a_fragment_border(client):
    client.send(build(TEXT, b'{"op":"\xe2', fin=False) + build(CONT, b"\x28\xa1", fin=False))
    dies(client, 1007)


@pytest.mark.parametrize("payload, code", [
    (b"\x03", 1002), (b"\x03\xe8\xff", {1002, 1007}), (b"\x03\xe8\xc0\x80", {1002, 1007}),
], ids=["one-byte", "bad-reason", "overlong-reason"])
def test_bad_close_payload(client, payload, code):
    """S36"""
    client.frame(CLOSE, payload)
    dies(client, code)


@pytest.mark.parametrize("code", [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000,
                                  65535])
def test_bad_close_code(client, code):
    """S37; codes of 5000 and above are nobody's either."""
    client.frame(CLOSE, code.to_bytes(2, "big"))
    dies(client, 1002)


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999,
                                  4000, 4999])
def test_good_close_code(client, code):
    """7.7: echoed, or 1000."""
    client.frame(CLOSE, code.to_bytes(2, "big") + "gutes Ende ✓".encode())
    dies(client, {code, 1000})


def test_close_without_payload_and_with_the_longest(server, echo):
    for payload in (b"", b"\x03\xe8" + b"r" * 123):
        client = server.chat(echo[0])
        client.frame(CLOSE, payload)
        dies(client, {1000, 1005})


def test_ping_flood(server, echo, client, alive):
    """S39: pings over the rate are not answered without bound; others do not notice."""
    other = server.chat(echo[0], enter={echo[1]: 0})
    begun = time.monotonic()
    try:
        for i in range(100):
            client.send(b"".join(build(PING, b"%d" % (i * 100 + j)) for j in range(100)))
    except OSError:
        pass
    until(lambda: (client.pump(0.05), client.ended or client.close_frame)[1], 5, "end of the flood")
    pongs = [f.payload for f in client.inbox if f.opcode == PONG]
    dies(client, 1008)
    spent = time.monotonic() - begun
    assert 1 <= len(pongs) <= 20 + 20 * spent + 5, f"{len(pongs)} pongs in {spent:.2f} s"
    assert pongs == [b"%d" % i for i in range(len(pongs))]
    t0 = time.monotonic()
    other.send_message(echo[1], "calm")
    assert time.monotonic() - t0 < 0.5 * SLOWNESS
    alive()


def test_pings_without_reading(server, echo):
    """S40"""
    client = Chat.connect(server, echo[0].token, rcvbuf=4096)
    rss = server.rss()
    with pytest.raises(OSError):
        client.sock.settimeout(5)
        for _ in range(3000):
            client.sock.sendall(build(PING, b"x" * 125) * 200)
    assert server.rss() - rss < 8 * 1024 or SANITIZED


def test_unsolicited_pongs(server, client, alive):
    """S41: ignored or ended by the rate, never a crash nor a cost."""
    cpu = server.cpu()
    try:
        for _ in range(100):
            client.send(build(PONG, b"y" * 10) * 1000)
            client.pump(0)
    except OSError:
        pass
    if client.ended is None:
        try:
            client.fence()
        except (EOFError, OSError):
            assert client.ended in (1008, "reset", "eof")
    assert server.cpu() - cpu < 3 * SLOWNESS
    alive()


def test_frames_after_close(server, echo, client):
    """S42, 7.1: nothing after a close frame has any effect."""
    user, room = echo
    client.send(build(CLOSE, b"\x03\xe8") + build(TEXT, message(room, "after the close"))
                + build(PING, b"x") + build(CLOSE, b"\x03\xe9"))
    dies(client, 1000)
    assert not [f for f in client.inbox if f.opcode == PONG]
    again = server.chat(user)
    again.fence()
    texts = [m.get("text") for m in again.request("history", room=room)["messages"]]
    assert "after the close" not in texts


@pytest.mark.parametrize("offer", [
    "permessage-deflate", "permessage-deflate; server_max_window_bits=8",
    "permessage-deflate; server_max_window_bits=16", "permessage-deflate; nonsense=1",
    ", ".join(["permessage-deflate"] * 50), "x-webkit-deflate-frame", "permessage-deflate;;;=",
])
def test_compression_is_declined(server, echo, offer):
    """S44, S47 to S49, groups 12 and 13: no offer is taken, so RSV1 is a violation."""
    client = Chat.connect(server, echo[0].token,
                          headers=[("Sec-WebSocket-Extensions", offer)])
    assert "sec-websocket-extensions" not in dict(client.headers)
    client.fence()
    client.send(build(TEXT, b"\xaa\x56\x4a\x05\x00", rsv=4))
    dies(client, 1002)


# what is right must pass, whatever shape it comes in

@pytest.mark.parametrize("size", [40, 125, 126, 127, 128, 1000, 65535, 65536])
@pytest.mark.parametrize("chop", [None, 997])
def test_lengths_inward(client, size, chop):
    """1.1: every length form, up to the limit; 9: one byte more is 1009 (S31)."""
    id = f"l{next(ids)}"
    body = f'{{"op":"ping","id":"{id}"}}'.encode().ljust(size)
    client.ops[id] = "ping"
    data = build(TEXT, body)
    client.send_chopped(data, chop) if chop else client.send(data)
    assert client.answer(id)["ok"]


def test_one_byte_over_the_limit(client):
    try:
        client.send(build(TEXT, b'{"op":"ping","id":1}'.ljust(65537)))
    except OSError:
        pass
    dies(client, 1009)


def test_fragments_over_the_limit(client):
    try:
        for i in range(80):
            client.send(build(TEXT if i == 0 else CONT, b" " * 1000, fin=False))
    except OSError:
        pass
    dies(client, 1009)


@pytest.mark.parametrize("target", [125, 126, 127, 65535, 65536, 65537])
def test_lengths_outward(server, target):
    """The writer's three length forms at their edges: an answer of exactly that many bytes."""
    user = server.user()
    room = server.room(user, name="edges")
    client = server.chat(user)
    def size(op, id, **fields):
        client.ops[id] = op
        client.text(json.dumps({"op": op, "id": id, **fields}))
        client.answer(id)
        return client.sizes[-1]

    if target < 200:  # an answer's length follows its request's id
        assert size("ping", "i" * (target - len('{"re":"","ok":true}'))) == target
        return
    page = {"room": room, "limit": 200}
    fresh = (f"h{n:04}" for n in itertools.count())  # ids of one length
    client.send_message(room, "x" * 1000)
    one = size("history", next(fresh), room=room, limit=1)
    client.send_message(room, "x" * 1000)
    overhead = size("history", next(fresh), **page) - one - 1000  # of one more message in a page
    now = size("history", next(fresh), **page)
    while target - now > 3000 + 2 * overhead:
        client.send_message(room, "x" * 2500)
        now = size("history", next(fresh), **page)
    client.send_message(room, "x" * (target - now - overhead - 40))
    now = size("history", next(fresh), **page)
    assert 0 < target - now < 100, (now, target)
    assert size("history", next(fresh).ljust(5 + target - now, "i"), **page) == target


def test_pings(client):
    """2: pongs carry the payload, in order, whatever way the pings come."""
    for payload in (b"", b"Hello", bytes(range(125)), b"\xff" * 125):
        client.frame(PING, payload)
        assert client.next_frame(1, PONG).payload == payload
    client.send_chopped(build(PING, b"octets"))
    assert client.next_frame(1, PONG).payload == b"octets"
    client.frame(PONG, b"unsolicited")
    client.frame(PING, b"after it")
    assert client.next_frame(1, PONG).payload == b"after it"
    many = [b"n%d" % i for i in range(10)]
    client.send(b"".join(build(PING, p) for p in many))
    assert [client.next_frame(1, PONG).payload for _ in many] == many


def test_ping_inside_a_message(client, echo):
    """5: a ping between fragments is answered at once, the message comes whole."""
    user, room = echo
    text = f"in pieces {next(ids)}"
    body = message(room, text)
    client.send(build(TEXT, body[:10], fin=False) + build(PING, b"between"))
    assert client.next_frame(1, PONG).payload == b"between"
    client.send(build(CONT, body[10:20], fin=False) + build(CONT, b"", fin=False))
    client.send_chopped(build(PING, b"again"))
    assert client.next_frame(1, PONG).payload == b"again"
    client.send(build(CONT, body[20:]))
    echoed(client, room, text)


def test_fragments_anywhere(client, echo):
    """6.2, 6.3: split at every octet, also inside a character."""
    user, room = echo
    text = f"κόσμε 😀 {next(ids)}"
    body = message(room, text)
    client.send(b"".join(build(TEXT if i == 0 else CONT, body[i:i + 1], fin=i == len(body) - 1)
                         for i in range(len(body))))
    echoed(client, room, text)
    text = f"空 {next(ids)}"
    client.send(build(TEXT, b"", fin=False) + build(CONT, message(room, text), fin=False)
                + build(CONT, b""))
    echoed(client, room, text)


def test_large_message_in_even_pieces(client):
    """10.1: 64 KiB in fragments of 1,300."""
    body = b'{"op":"ping","id":"large"}'.ljust(65536)
    client.ops["large"] = "ping"
    parts = [body[i:i + 1300] for i in range(0, len(body), 1300)]
    for i, part in enumerate(parts):
        client.send(build(CONT if i else TEXT, part, fin=i == len(parts) - 1))
    assert client.answer("large")["ok"]


def test_valid_utf8(client, echo):
    """6.5 to 6.23, the valid ones: byte for byte, within other text since blank is refused."""
    room = echo[1]
    for text in utf8.valid():
        whole = f"<{text}>{next(ids)}"
        client.send(build(TEXT, message(room, whole)))
        assert echoed(client, room, whole)["text"].encode() == whole.encode()


def test_invalid_utf8_of_every_kind(server, echo):
    """6.5 to 6.23, the invalid ones: 1007, and nothing in the store."""
    user, room = echo
    head = server.chat(user).request("room.enter", room=room)["last_seq"]
    for data in utf8.invalid():
        client = server.chat(user)
        client.send(build(TEXT, message(room, "<@@>").replace(b"@@", data)))
        assert client.wait_end(3) == 1007, data
    assert server.chat(user).request("room.enter", room=room)["last_seq"] == head


def test_two_closes_and_message_before_close(server, echo):
    """7.1: what was sent before the close takes effect; one close frame comes back."""
    user, room = echo
    client = server.chat(user)
    text = f"last words {next(ids)}"
    client.send(build(TEXT, message(room, text)))
    client.send(build(CLOSE, b"\x03\xe8") * 2)
    dies(client, 1000)

    def stored():
        found = server.chat(user).request("history", room=room)["messages"]
        return any(m.get("text") == text for m in found)

    until(stored, 3, "the message before the close", every=0.05)


def test_round_trips(client):
    """9.7: a regression figure, not a bar for the machine: 300 round trips of each size."""
    for size in (0, 64, 1024, 4096):
        times = []
        for _ in range(300):
            id = f"r{next(ids)}"
            client.ops[id] = "ping"
            t0 = time.monotonic()
            client.send(build(TEXT, f'{{"op":"ping","id":"{id}"}}'.encode().ljust(size)))
            client.answer(id)
            times.append(time.monotonic() - t0)
        assert sorted(times)[150] < 0.02

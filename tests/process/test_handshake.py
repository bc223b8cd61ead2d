"""The door: what a handshake may say, how long it may take, and how many may stand in it.

Hostile rows S1 to S23 against the real endpoint.
"""

import base64
import json
import statistics
import time

import pytest

from parley import frames, ws
from parley.chat import Chat
from parley.wait import SANITIZED, SLOWNESS, until
from parley.ws import Refused, WebSocket

SETS = {"server.public_url": "https://chat.example", "limits.head_timeout_ms": 1500,
        "limits.hello_timeout_ms": 1500}
pytestmark = pytest.mark.quick


def refused(server, status, **head):
    """The handshake must be answered with that status (or one of them), in whole HTTP."""
    with pytest.raises(Refused) as found:
        WebSocket.open(server.address, **head)
    allowed = {status} if isinstance(status, int) else set(status)
    assert found.value.status in allowed, found.value
    return found.value


@pytest.mark.parametrize("origin", [
    "https://evil.example", "null", "https://chat.example.evil.com", "https://chat.example:444",
    "http://chat.example", "https://xchat.example", "https://chat.example/", "https://CHAT.example@evil",
    "https://chat.example https://evil.example", "", "file://", "https://chat.example\t",
])
def test_foreign_origins(server, origin, alive):
    """S1 to S3: scheme, host and port are compared exactly."""
    if origin.strip() == "https://chat.example":
        WebSocket.open(server.address, headers=[("Origin", origin)]).close()
    else:
        refused(server, 403, headers=[("Origin", origin), ("Cookie", "session=stolen")])
    alive()


def test_two_origins(server):
    refused(server, {400, 403}, headers=[("Origin", "https://chat.example"),
                                         ("Origin", "https://evil.example")])


def test_own_origin_and_configured_ones(server, make_server):
    WebSocket.open(server.address, headers=[("Origin", "https://chat.example")]).close()
    other = make_server(sets={"server.public_url": "https://chat.example",
                              "server.allowed_origins": "https://app.example:8443"})
    WebSocket.open(other.address, headers=[("Origin", "https://app.example:8443")]).close()
    refused(other, 403, headers=[("Origin", "https://app.example")])


def test_cookie_is_no_identity(server):
    """S4: cookies are neither set nor read; without a token there is no session."""
    user = server.user()
    client = Chat.connect(server, hello=False,
                          headers=[("Cookie", f"token={user.token}; session={user.token}")])
    assert "set-cookie" not in dict(client.headers)
    client.post("hello")
    client.wait_closed(4001)


def test_no_host(server, alive):
    refused(server, 400, omit={"host"})  # S6
    alive()


def test_two_hosts(server):
    refused(server, 400, headers=[("Host", "other.example")])  # S7


@pytest.mark.parametrize("version", ["8", "0", "12", "14", "x", ""])
def test_wrong_version(server, version):
    """S8"""
    answer = refused(server, 426 if version == "8" else {400, 426}, version=version)
    if answer.status == 426:
        assert dict(answer.headers).get("sec-websocket-version") == "13"


@pytest.mark.parametrize("key", [
    "zzz", "!!!!!!!!!!!!!!!!!!!!!!==", base64.b64encode(b"x" * 15).decode(),
    base64.b64encode(b"x" * 17).decode(), "dGhlIHNhbXBsZSBub25jZQ", "",
], ids=["short", "no-base64", "15-bytes", "17-bytes", "no-padding", "empty"])
def test_bad_key(server, key, alive):
    """S9"""
    refused(server, 400, omit={"sec-websocket-key"}, headers=[("Sec-WebSocket-Key", key)])
    alive()


def test_no_key_and_two_keys(server):
    refused(server, 400, omit={"sec-websocket-key"})
    key = base64.b64encode(b"y" * 16).decode()
    refused(server, 400, headers=[("Sec-WebSocket-Key", key)])


def test_wrong_method_and_version_of_http(server):
    """S10"""
    refused(server, {400, 405}, method="POST")
    refused(server, {400, 505}, http="1.0")


@pytest.mark.parametrize("drop, add", [
    ({"upgrade"}, []), ({"connection"}, []), ({"upgrade"}, [("Upgrade", "h2c")]),
    ({"connection"}, [("Connection", "keep-alive")]),
], ids=["no-upgrade", "no-connection", "h2c", "keep-alive"])
def test_no_upgrade(server, drop, add):
    refused(server, {400, 426}, omit=drop, headers=add)


def test_many_protocols(server, alive):
    """S11: bounded time, at most one known protocol, none invented."""
    begun = time.monotonic()
    names = ", ".join(f"proto{i}" for i in range(50)) + ", parley.v1, "
    names += ", ".join(f"more{i}" for i in range(49))
    client = WebSocket.open(server.address, protocol=names)
    assert time.monotonic() - begun < 0.5 * SLOWNESS
    assert dict(client.headers)["sec-websocket-protocol"] == "parley.v1"
    client.close()
    try:
        client = WebSocket.open(server.address, protocol="chat.v9, other")
        assert dict(client.headers).get("sec-websocket-protocol") is None
        client.close()
    except Refused as answer:
        assert answer.status == 400
    begun = time.monotonic()
    try:
        client = WebSocket.open(server.address, protocol=" " * 7000 + "x")
        assert dict(client.headers).get("sec-websocket-protocol") is None
        client.close()
    except Refused as answer:
        assert answer.status in (400, 431)
    assert time.monotonic() - begun < 0.5 * SLOWNESS
    alive()


def test_too_many_header_fields(server, alive):
    """S12: 431 in whole, then an orderly close."""
    refused(server, 431, headers=[("a", "b")] * 2000)
    refused(server, 431, headers=[(f"x{i}", "1") for i in range(101)])
    refused(server, 431, headers=[("x", "y" * 9000)])
    WebSocket.open(server.address, headers=[(f"x{i}", "1") for i in range(80)]).close()
    alive()


def test_slow_heads(server):
    """S13: a head that trickles in is ended by its deadline and nobody else notices."""
    slow = [ws.connect(server.address) for _ in range(200)]
    begun = time.monotonic()
    head = ws.request_head(server.host)
    for i, sock in enumerate(slow):
        sock.send(head[:1 + i % 5])
    open_socks = set(slow)
    times = []

    def all_ended():
        for sock in list(open_socks):
            sock.setblocking(False)
            try:
                if sock.recv(4096) == b"":
                    open_socks.discard(sock)
            except BlockingIOError:
                pass
            except OSError:
                open_socks.discard(sock)
        t0 = time.monotonic()
        WebSocket.open(server.address).abort()
        times.append(time.monotonic() - t0)
        return not open_socks

    until(all_ended, 6, lambda: f"{len(open_socks)} slow heads still open", every=0.05)
    assert time.monotonic() - begun < 5 * SLOWNESS
    assert statistics.quantiles(times, n=100)[98] <= 0.5 if len(times) > 1 else times[0] <= 0.5
    for sock in slow:
        sock.close()


def test_trickling_does_not_move_the_deadline(server):
    """One byte at a time, steadily: the deadline is the head's, not each byte's."""
    sock = ws.connect(server.address)
    begun = time.monotonic()
    head = iter(ws.request_head(server.host, headers=[("x", "y" * 4000)]))

    def ended():
        try:
            sock.send(bytes([next(head)]))
            sock.setblocking(False)
            return sock.recv(4096) == b"" or time.monotonic() - begun > 0.5
        except BlockingIOError:
            return False
        except OSError:
            return True

    until(ended, 6, "trickling head ended", every=0.05)
    assert time.monotonic() - begun < 4 * SLOWNESS
    sock.close()


def test_nothing_sent(server):
    """S14"""
    sock = ws.connect(server.address)
    sock.settimeout(5)
    begun = time.monotonic()
    try:
        while sock.recv(4096):  # a 408 may come first
            pass
    except ConnectionError:
        pass
    assert 1.0 < time.monotonic() - begun < 4 * SLOWNESS
    sock.close()


def test_no_hello(server):
    """S15: 4001 after the time, little memory each, and no event before."""
    before = server.rss()
    clients = [Chat.connect(server, hello=False) for _ in range(300)]
    grown = server.rss() - before
    begun = time.monotonic()
    for client in clients:
        assert client.wait_end(5) == 4001
        assert all(f.get("ev") == "bye" for f in client.log), client.log
    assert time.monotonic() - begun < 4 * SLOWNESS
    assert grown / 300 <= 24 or SANITIZED, f"{grown / 300:.1f} KiB per silent connection"


@pytest.mark.parametrize("first", [
    {"op": "ping", "id": 1}, {"op": "room.join", "id": 1, "room": "r"}, {"op": "nonsense", "id": 1},
    {"op": "message.send", "id": 1, "room": "r", "nonce": "n", "text": "x"},
    {"op": "token.renew", "id": 1, "token": "x"},
], ids=lambda f: f["op"])
def test_first_frame_must_be_hello(server, first):
    """S16"""
    client = Chat.connect(server, server.user().token, hello=False, at_handshake=True)
    client.raw(json.dumps(first))
    client.wait_closed(4001)
    assert not any(f.get("ok") for f in client.log)


@pytest.mark.parametrize("first", ["", "hello", "[]", "{", "null", '{"op":"hello"}', '"x"', "{}"])
def test_first_frame_that_is_no_hello(server, first):
    client = Chat.connect(server, hello=False)
    client.raw(first)
    client.wait_closed(4001)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "ü" * 10, "x" * 5000, None, 5, {}, []])
def test_bad_token(server, token):
    client = Chat.connect(server, hello=False)
    client.raw(json.dumps({"op": "hello", "id": 1, "token": token}))
    client.wait_closed(4001)


def test_bad_token_at_the_handshake(server):
    """Refused with 401, or upgraded and then closed with 4001: never a session."""
    try:
        client = Chat.connect(server, "nonsense", hello=False, at_handshake=True)
    except Refused as answer:
        assert answer.status == 401
        return
    client.post("hello")
    client.wait_closed(4001)


def test_second_hello(server):
    """S17: the identity of a connection never changes."""
    a, b = server.users(2)
    client = server.chat(a)
    me = client.welcome["user"]["user"]
    assert me == a.id
    client.refused("hello", "bad_request", token=b.token)
    client.refused("hello", "bad_request")
    client.fence()
    room = client.request("room.create", name="mine", kind="private")["room"]
    client.send_message(room, "still me")
    assert client.event("message.created", room=room)["sender"] == a.id


def test_token_in_the_address(server):
    """S18: never believed, never logged."""
    user = server.user()
    try:
        client = Chat(ws.connect(server.address))
        client.handshake(server.host, path=f"/ws?token={user.token}")
        client.post("hello")
        client.wait_closed(4001)
    except Refused as answer:
        assert answer.status in (400, 401, 404)
    assert user.token not in server.text()


def test_expiry_ends_the_session(server):
    """S19: closed with 4001 at most 5 s after exp, and nothing is delivered after it."""
    a, b = server.users(2)
    room = server.room(a, b)
    exp = int(time.time()) + 2
    client = server.chat(server.forge(b, exp=exp), enter={room: 0})
    other = server.chat(a)
    sent = []

    def ended():
        sent.append((time.time(), other.send_message(room, "tick")["seq"]))
        return client.ended is not None or (client.pump(0.05) and client.ended is not None) \
            or client.close_frame is not None

    until(ended, 9, "close at expiry", every=0.1)
    client.wait_closed(4001)
    assert exp - 1 <= time.time() <= exp + 5.5
    got = client.seqs(room)
    late = [seq for at, seq in sent if at > exp + 5 and seq in got]
    assert not late
    assert client.event("token.expiring")["expires_at"] == exp * 1000


def test_renewal_keeps_the_session(server):
    """S19, its other half: a renewed session goes on beyond the first token's end."""
    user = server.user()
    exp = int(time.time()) + 2
    client = server.chat(server.forge(user, exp=exp))
    answer = client.request("token.renew", token=server.forge(user, exp=exp + 600))
    assert answer["expires_at"] == (exp + 600) * 1000
    until(lambda: time.time() > exp + 6 or client.ended, 15, pump=[client])
    client.fence()


def test_renewal_with_anothers_token(server):
    a, b = server.users(2)
    client = server.chat(a)
    client.refused("token.renew", {"forbidden", "unauthenticated", "bad_request"}, token=b.token)
    client.refused("token.renew", {"unauthenticated", "bad_request"}, token="a.b.c")
    client.fence()


def test_connections_per_address(make_server):
    """S21: over the limit 429 with Retry-After; forwarded addresses only from trusted proxies."""
    server = make_server(sets={"limits.connections_per_address": 5})
    held = [WebSocket.open(server.address) for _ in range(5)]
    answer = refused(server, 429)
    assert int(dict(answer.headers)["retry-after"]) >= 1
    refused(server, 429, headers=[("X-Forwarded-For", "203.0.113.9")])
    held.pop().close()

    def again():
        try:
            held.append(WebSocket.open(server.address))
            return True
        except Refused:
            return False

    until(again, 3, "a place is free again", every=0.05)
    proxied = make_server(sets={"limits.connections_per_address": 5,
                                "server.trusted_proxies": "127.0.0.1"})
    for i in range(12):
        held.append(WebSocket.open(proxied.address,
                                   headers=[("X-Forwarded-For", f"203.0.113.{i}")]))
    for _ in range(4):
        held.append(WebSocket.open(proxied.address, headers=[("X-Forwarded-For", "203.0.113.1")]))
    refused(proxied, 429, headers=[("X-Forwarded-For", "203.0.113.1")])
    refused(proxied, 429, headers=[("X-Forwarded-For", "198.51.100.1, 203.0.113.1")])
    for client in held:
        client.abort()


def test_no_banner(server):
    """S23: no product with version, neither in the 101 nor in errors."""
    client = WebSocket.open(server.address)
    heads = [dict(client.headers)]
    client.close()
    for head in ({"version": "8"}, {"omit": {"host"}}, {"headers": [("a", "b")] * 200}):
        heads.append(dict(refused(server, {400, 426, 431}, **head).headers))
    for head in heads:
        banner = head.get("server", "")
        assert not any(c.isdigit() for c in banner) and "beast" not in banner.lower(), head
        assert "x-powered-by" not in head


def test_frames_in_the_same_segment(server):
    """What a client sends right behind its request is not lost."""
    user = server.user()
    body = f'{{"op":"hello","id":1,"token":"{user.token}"}}'.encode()
    client = Chat(ws.connect(server.address))
    client.ops[1] = "hello"
    client.handshake(server.host, extra=frames.build(frames.TEXT, body)
                     + frames.build(frames.TEXT, b'{"op":"ping","id":2}'))
    assert client.answer(1)["ok"] and client.answer(2)["ok"]


def test_unknown_path(server):
    refused(server, {404, 400}, path="/nowhere")
    refused(server, {404, 400}, path="/ws/x")

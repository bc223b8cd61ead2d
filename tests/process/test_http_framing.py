"""HTTP on a raw socket: framing tricks, slow bodies, strange targets (hostile rows S51 to S72).

What is left over after a refused request must never be served as a second one.
"""

import json
import time

import pytest

from parley import ws
from parley.http import HttpConnection
from parley.wait import SLOWNESS, TimedOut, until

SETS = {"limits.body_timeout_ms": 1500, "limits.head_timeout_ms": 1500}
pytestmark = pytest.mark.quick
SMUGGLED = b"GET /api/v1/me HTTP/1.1\r\nHost: smuggled\r\n\r\n"


def raw(server, data, timeout=4.0):
    """(statuses of all responses, whether the server then closed) of bytes on one connection."""
    with HttpConnection(server.address) as connection:
        try:
            connection.send(data)
        except OSError:
            pass
        statuses = []
        try:
            while True:
                statuses.append(connection.response(timeout if not statuses else 0.7).status)
        except EOFError:
            return statuses, True
        except TimedOut:
            return statuses, False


def head(server, *lines, method="POST", target="/api/v1/login"):
    return (f"{method} {target} HTTP/1.1\r\nHost: {server.host}\r\n"
            + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode("latin-1")


def refused(server, data, statuses, closes=True):
    got, closed = raw(server, data)
    assert len(got) <= 1, f"the rest was served too: {got}"
    assert got and got[0] in statuses, (got, statuses)
    assert closed or not closes


JSON_TYPE = "Content-Type: application/json"
CHUNKED = "Transfer-Encoding: chunked"
BAD_FRAMING = {
    "S51 length then chunked": (["Content-Length: 5", CHUNKED], b"0\r\n\r\n" + SMUGGLED),
    "S51 chunked then length": ([CHUNKED, "Content-Length: 5"], b"0\r\n\r\n" + SMUGGLED),
    "S52 identity": (["Transfer-Encoding: identity"], SMUGGLED),
    "S52 gzip": (["Transfer-Encoding: gzip"], SMUGGLED),
    "S52 unknown": (["Transfer-Encoding: xchunked"], SMUGGLED),
    "S53 chunked, identity": (["Transfer-Encoding: chunked, identity"], SMUGGLED),
    "S53 gzip, chunked": (["Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n" + SMUGGLED),
    "S53 chunked, chunked": (["Transfer-Encoding: chunked, chunked"], b"0\r\n\r\n" + SMUGGLED),
    "S55 two lines": ([CHUNKED, CHUNKED], b"0\r\n\r\n" + SMUGGLED),
    "S55 chunked and identity": ([CHUNKED, "Transfer-Encoding: identity"], b"0\r\n\r\n" + SMUGGLED),
    "S58 +3": (["Content-Length: +3"], b"{} " + SMUGGLED),
    "S58 0x3": (["Content-Length: 0x3"], b"{} " + SMUGGLED),
    "S58 -1": (["Content-Length: -1"], SMUGGLED),
    "S58 20 digits": (["Content-Length: 99999999999999999999"], SMUGGLED),
    "S58 3 4": (["Content-Length: 3 4"], b"{} " + SMUGGLED),
    "S58 empty": (["Content-Length: "], SMUGGLED),
    "S57 two that differ": (["Content-Length: 3", "Content-Length: 4"], b"{}  " + SMUGGLED),
    "S59 space before the colon": (["Content-Length : 3"], b"{} " + SMUGGLED),
    "S59 bare CR in a value": (["X-A: b\rc"], SMUGGLED),
    "S59 NUL in a value": (["X-A: b\0c"], SMUGGLED),
    "S59 folded line": (["X-A: b", " folded: c"], SMUGGLED),
    "S59 name with a space": (["X A: b"], SMUGGLED),
    "S59 no colon": (["nonsense"], SMUGGLED),
    "S61 0x3": ([CHUNKED], b"0x3\r\nabc\r\n0\r\n\r\n" + SMUGGLED),
    "S61 17 digits": ([CHUNKED], b"10000000000000003\r\nabc\r\n0\r\n\r\n" + SMUGGLED),
    "S61 negative": ([CHUNKED], b"-3\r\nabc\r\n0\r\n\r\n" + SMUGGLED),
    "S61 chunk too long": ([CHUNKED], b"3\r\nabcde\r\n0\r\n\r\n" + SMUGGLED),
}


@pytest.mark.parametrize("name", BAD_FRAMING)
def test_bad_framing(server, name, alive):
    lines, body = BAD_FRAMING[name]
    refused(server, head(server, JSON_TYPE, *lines) + body, {400, 411, 413, 501})
    alive()


def test_bare_line_feeds(server):
    """S59"""
    data = f"POST /api/v1/login HTTP/1.1\nHost: {server.host}\nContent-Length: 2\n\n{{}}".encode()
    got, closed = raw(server, data + SMUGGLED)
    assert len(got) <= 1 and closed and (not got or got[0] in (400, 408))


def test_chunk_size_without_cr(server):
    got, closed = raw(server, head(server, JSON_TYPE, CHUNKED) + b"3\nabc\r\n0\r\n\r\n" + SMUGGLED)
    assert len(got) <= 1 and closed and (not got or got[0] in (400, 408, 413))


def test_long_chunk_extension(server):
    data = head(server, JSON_TYPE, CHUNKED) + b"2;" + b"x" * 9216 + b"\r\n{}\r\n0\r\n\r\n"
    got, _ = raw(server, data)
    assert len(got) <= 1 and (not got or got[0] in (400, 401, 413, 422))


def test_chunked_in_http_1_0(server):
    """S56"""
    data = (b"POST /api/v1/login HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    refused(server, data + SMUGGLED, {400, 501, 505})


@pytest.mark.parametrize("lines", [["Content-Length: 2", "Content-Length: 2"],
                                   ["Content-Length: 2, 2"]])
def test_equal_lengths(server, lines):
    """S57: 400, or the one value and then consistently so."""
    got, closed = raw(server, head(server, JSON_TYPE, *lines) + b"{}" + head(
        server, method="GET", target="/livez"))
    assert got[0] == 400 and len(got) == 1 and closed or (len(got) == 2 and got[1] == 200)


def test_trailers(server):
    """S62: a trailer is dropped or refused, never believed."""
    user = server.user()
    trailer = f"Authorization: Bearer {user.token}\r\nContent-Length: 99\r\nHost: evil\r\n"
    data = head(server, JSON_TYPE, CHUNKED, target="/api/v1/rooms")
    body = json.dumps({"name": "x", "kind": "private"}).encode()
    data += b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailer.encode())
    got, closed = raw(server, data + head(server, method="GET", target="/livez"))
    assert got[0] in (400, 401, 421) and (len(got) == 1 and closed or got[1:] == [200])


def test_chunked_body_works(server):
    user = server.user()
    body = json.dumps({"name": "chunks", "kind": "private"}).encode()
    with HttpConnection(server.address) as connection:
        connection.send(head(server, JSON_TYPE, CHUNKED, f"Authorization: Bearer {user.token}",
                             target="/api/v1/rooms"))
        for i in range(len(body)):
            connection.send(b"1\r\n%s\r\n" % body[i:i + 1])
        connection.send(b"0\r\n\r\n")
        answer = connection.response()
        assert answer.status in (200, 201), answer


@pytest.mark.parametrize("expect", [False, True])
def test_body_over_the_limit(server, expect):
    """S63: refused from the head, whether or not the client asks first."""
    lines = [JSON_TYPE, "Content-Length: 65537"] + (["Expect: 100-continue"] if expect else [])
    begun = time.monotonic()
    refused(server, head(server, *lines), {413})
    assert time.monotonic() - begun < 1.4 * SLOWNESS


def test_chunks_over_the_limit(server):
    data = head(server, JSON_TYPE, CHUNKED) + (b"1000\r\n" + b"x" * 4096 + b"\r\n") * 20
    got, closed = raw(server, data)
    assert got in ([413], []) and closed


def test_largest_body(server):
    """Exactly at the limit it is read (and judged by what it says)."""
    user = server.user()
    body = json.dumps({"name": "x", "kind": "private"}).encode().ljust(65536)
    assert user.api.post("/rooms", body).status in (200, 201)


def test_expect_continue(server):
    user = server.user()
    body = json.dumps({"name": "x", "kind": "private"}).encode()
    with HttpConnection(server.address) as connection:
        connection.send(head(server, JSON_TYPE, f"Content-Length: {len(body)}",
                             "Expect: 100-continue", f"Authorization: Bearer {user.token}",
                             target="/api/v1/rooms"))
        connection.sock.settimeout(3)
        first = connection.sock.recv(100)
        assert first.startswith(b"HTTP/1.1 100"), first
        connection.buffer = first.split(b"\r\n\r\n", 1)[1]
        connection.send(body)
        assert connection.response().status in (200, 201)


def test_slow_body(server):
    """S64: 408 by the body's deadline, however steadily it trickles."""
    with HttpConnection(server.address) as connection:
        connection.send(head(server, JSON_TYPE, "Content-Length: 1000"))
        begun = time.monotonic()

        def answered():
            try:
                connection.sock.send(b" ")
                connection.sock.settimeout(0.1)
                connection.buffer += connection.sock.recv(4096)
            except TimeoutError:
                return False
            except OSError:
                return True
            return b"\r\n\r\n" in connection.buffer

        until(answered, 6, "408", every=0.05)
        assert time.monotonic() - begun < 5 * SLOWNESS
        assert connection.response(2).status == 408
        assert connection.closed_within(3)


def test_pipelined_requests(server):
    """S65: 1,000 in one packet, answered in order."""
    one = head(server, method="GET", target="/livez")
    bad = head(server, method="GET", target="/nowhere")
    with HttpConnection(server.address) as connection:
        connection.timeout = 30
        connection.send((one + bad) * 500)
        for _ in range(500):
            assert connection.response(10).status == 200
            assert connection.response(10).status == 404


TARGETS = ["/\xe9", "/%00", "/%2e%2e%2fetc/passwd", "/..%5c..%5cetc", "//etc/passwd",
           "/static/....//....//etc/passwd", "/%c0%ae%c0%ae/", "/../../../etc/passwd",
           "/%252e%252e%252fetc", "/api/v1/rooms/%ff", "/api/v1/rooms/..%2f..%2fme",
           "/api/v1/rooms/%00/messages", "/.git/config", "/app.js%00.html", "*", "nonsense",
           "/" + "a" * 8100, "/?" + "&".join(f"a{i}=b" for i in range(500)), "/%zz", "/%"]


@pytest.mark.parametrize("target", TARGETS, ids=[t[:24] for t in TARGETS])
def test_strange_targets(server, target, alive):
    """S66: never a file, never a 5xx."""
    got, _ = raw(server, head(server, "Connection: close", method="GET", target=target))
    assert got and (got[0] in (400, 401, 404, 405, 414, 431) or
                    (got[0] == 200 and target.startswith("/?"))), got
    alive()


def test_static_root_is_never_left(server):
    for target in TARGETS:
        with HttpConnection(server.address) as connection:
            connection.send(head(server, method="GET", target=target))
            try:
                assert b"root:" not in connection.response(3).body
            except EOFError:
                pass


def test_absolute_targets(server):
    end = "Connection: close"
    own = f"http://{server.host}/livez"
    assert raw(server, head(server, end, method="GET", target=own))[0] == [200]
    got, _ = raw(server, head(server, end, method="GET", target="http://evil.example/livez"))
    assert got == [421]


@pytest.mark.parametrize("method, statuses", [
    ("get", {400, 405, 501}), ("FOO", {400, 405, 501}), ("TRACE", {400, 405, 501}),
    ("CONNECT", {400, 405, 501}), ("PROPFIND", {400, 405, 501}), ("G\x01T", {400}),
])
def test_methods(server, method, statuses):
    """S68"""
    got, _ = raw(server, head(server, "Connection: close", method=method, target="/livez"))
    assert len(got) == 1 and got[0] in statuses


def test_known_path_with_another_method_names_the_right_ones(server):
    answer = server.http(server.user().token).call("DELETE", "/me/../rooms")
    assert answer.status in (400, 404, 405)
    answer = server.http().call("PUT", "/login", {})
    assert answer.status == 405 and "POST" in answer.header("allow")


@pytest.mark.parametrize("data", [
    b"GET /livez HTTP/2.0\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /livez HTTP/0.9\r\n\r\n", b"GET /livez\r\n\r\n", b"GET /livez HTTP/1.1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), b"\r\n" * 5000, b"\0" * 1000,
], ids=["http2", "h2-preface", "0.9", "no-version", "1.1.1", "tls-hello", "empty-lines", "zeros"])
def test_other_protocols(server, data, alive):
    """S69: refused or closed, and the log is not flooded."""
    before = len(server.text().splitlines())
    for _ in range(20):
        got, _ = raw(server, data, timeout=3.0) if _ == 0 else (quick(server, data), None)
        assert not got or all(s in (400, 408, 426, 431, 505) for s in got), got
    assert len(server.text().splitlines()) - before < 20
    alive()


def quick(server, data):
    """Send and go away."""
    sock = ws.connect(server.address)
    try:
        sock.sendall(data)
    except OSError:
        pass
    sock.close()
    return []


def test_method_override(server):
    """S70"""
    user = server.user()
    answer = user.api.call("POST", "/login", {"name": "x", "password": "yyyyyyyyy"},
                           headers=[("X-HTTP-Method-Override", "DELETE"),
                                    ("X-Method-Override", "DELETE")])
    assert answer.status == 401
    answer = user.api.call("GET", "/me", headers=[("X-HTTP-Method-Override", "DELETE")])
    assert answer.status == 200


def test_no_header_injection(server):
    """S71: what is given back never makes a header of its own."""
    user = server.user()
    made = user.api.post("/rooms", {"name": "a\r\nX-Injected: yes\r\n\r\nb", "kind": "private"})
    assert made.status == 400 and made.header("x-injected") is None
    room = server.room(user, name="a: b, X-Injected: yes")
    with HttpConnection(server.address) as connection:
        answer = connection.request("GET", f"/api/v1/rooms/{room}",
                                    headers=[("Authorization", f"Bearer {user.token}")])
        assert answer.header("x-injected") is None
    for target in ("/%0d%0aX-Injected:%20yes", "/api/v1/rooms/%0d%0aX-Injected:yes"):
        answer = server.http(user.token, prefix="").get(target)
        assert answer.header("x-injected") is None and answer.status in (400, 404)


@pytest.mark.parametrize("path", ["/", "/livez", "/readyz", "/openapi.json", "/asyncapi.json",
                                  "/api/v1/me", "/api/v1/rooms", "/nowhere"])
def test_head(server, path):
    """S72: HEAD is GET without a body, and the connection goes on."""
    token = [("Authorization", f"Bearer {server.user().token}")]
    with HttpConnection(server.address) as connection:
        get = connection.request("GET", path, headers=token)
        got = connection.request("HEAD", path, headers=token)
        assert got.status == get.status
        assert got.header("content-length") in (None, str(len(get.body)))
        assert connection.request("GET", "/livez").status == 200


def test_conditional_and_ranges(server):
    """S72"""
    with HttpConnection(server.address) as connection:
        page = connection.request("GET", "/")
        assert page.status == 200
        tag = page.header("etag")
        assert tag
        assert connection.request("GET", "/", headers=[("If-None-Match", tag)]).status == 304
        assert connection.request("GET", "/", headers=[("If-None-Match", '"x"')]).status == 200
        ranges = "bytes=" + ",".join(["0-"] * 1000)
        answer = connection.request("GET", "/", headers=[("Range", ranges)])
        assert answer.status in (200, 416) and len(answer.body) <= len(page.body)


def test_keep_alive_and_close(server):
    with HttpConnection(server.address) as connection:
        for _ in range(3):
            assert connection.request("GET", "/livez").status == 200
        answer = connection.request("GET", "/livez", headers=[("Connection", "close")])
        assert answer.status == 200
        assert connection.closed_within(3)
    with HttpConnection(server.address) as connection:
        connection.send(b"GET /livez HTTP/1.0\r\n\r\n")
        assert connection.response().status == 200
        assert connection.closed_within(3)


def test_head_deadline_between_requests(server):
    """A kept connection may rest; a head begun must come to its end."""
    with HttpConnection(server.address) as connection:
        assert connection.request("GET", "/livez").status == 200
        connection.send(b"GET /live")
        assert connection.closed_within(5)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded",
                                  "multipart/form-data", "", None, "application/jsonx",
                                  "text/json"])
def test_content_type(server, kind):
    """A body that is not application/json is 415 (S114)."""
    user = server.user()
    with HttpConnection(server.address) as connection:
        answer = connection.request("POST", "/api/v1/rooms", b'{"name":"x","kind":"private"}',
                                    [("Authorization", f"Bearer {user.token}")], content_type=kind,
                                    hostile=True)
        assert answer.status == 415, answer


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON",
                                  "application/json;charset=UTF-8"])
def test_content_type_with_parameters(server, kind):
    user = server.user()
    with HttpConnection(server.address) as connection:
        answer = connection.request("POST", "/api/v1/rooms", b'{"name":"x","kind":"private"}',
                                    [("Authorization", f"Bearer {user.token}")], content_type=kind)
        assert answer.status in (200, 201), answer

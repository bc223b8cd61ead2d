"""HTTP/1.1 over a raw socket: whole control of what is sent, strict reading of what comes.

Used by the tests of the HTTP API and of hostile framing. http.client would mend what we break.
"""

import itertools
import json
import select

from . import record, ws
from .chat import no_repeats
from .wait import Deadline, TimedOut


_conns = itertools.count(1)


class Response:
    """status, headers (list of lower-case name and value), body (bytes), closed (by the server)."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def header(self, name):
        values = [v for k, v in self.headers if k == name.lower()]
        assert len(values) <= 1 or name.lower() == "set-cookie", f"header {name} twice: {values}"
        return values[0] if values else None

    @property
    def json(self):
        return json.loads(self.body.decode(), object_pairs_hook=no_repeats)

    @property
    def code(self):
        """The problem's code."""
        kind = self.header("content-type") or ""
        assert kind.startswith("application/problem+json"), (self.status, kind, self.body[:200])
        return self.json["code"]

    def __repr__(self):
        return f"Response({self.status}, {self.body[:200]!r})"


class HttpConnection:
    """A keep-alive connection. `host` is what Host says."""

    def __init__(self, address, host=None, timeout=10.0):
        self.host = host or f"{address[0]}:{address[1]}"
        self.timeout = timeout
        self.sock = ws.connect(address, timeout=timeout)
        self.buffer = b""
        self.name = f"h{next(_conns)}"  # names this connection in the recording

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.settimeout(self.timeout)
        self.sock.sendall(data)

    def _more(self, deadline):
        self.sock.settimeout(max(0.005, deadline.left()))
        try:
            piece = self.sock.recv(262144)
        except TimeoutError:
            raise TimedOut(f"no (whole) response; so far {self.buffer[:200]!r}") from None
        except ConnectionError:
            raise EOFError("reset") from None
        if not piece:
            raise EOFError(f"closed by the server; so far {self.buffer[:200]!r}")
        self.buffer += piece

    def response(self, timeout=None, head_only=False):
        """The next response. TimedOut, or EOFError where the server closed instead."""
        deadline = Deadline(timeout or self.timeout)
        while True:
            while b"\r\n\r\n" not in self.buffer:
                self._more(deadline)
            head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
            status, headers = ws.parse_head(head)
            if status != 100:
                break
        names = dict(headers)
        assert "transfer-encoding" not in names or "content-length" not in names
        if head_only or status in (204, 304):
            return Response(status, headers, b"")
        if names.get("transfer-encoding") == "chunked":
            body = self._chunks(deadline)
        elif "content-length" in names:
            n = int(names["content-length"])
            while len(self.buffer) < n:
                self._more(deadline)
            body, self.buffer = self.buffer[:n], self.buffer[n:]
        else:
            try:
                while True:
                    self._more(deadline)
            except EOFError:
                body, self.buffer = self.buffer, b""
        return Response(status, headers, body)

    def _chunks(self, deadline):
        body = b""
        while True:
            while b"\r\n" not in self.buffer:
                self._more(deadline)
            size, _, self.buffer = self.buffer.partition(b"\r\n")
            n = int(size.split(b";")[0], 16)
            while len(self.buffer) < n + 2:
                self._more(deadline)
            body += self.buffer[:n]
            assert self.buffer[n:n + 2] == b"\r\n"
            self.buffer = self.buffer[n + 2:]
            if n == 0:
                return body

    def request(self, method, path, body=None, headers=(), *, timeout=None, hostile=False,
                content_type="application/json", omit=()):
        """One request and its response. body: a JSON value, bytes, or None."""
        head = [("Host", self.host)]
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            head += [("Content-Type", content_type)] if content_type else []
            head.append(("Content-Length", str(len(data))))
        elif method in ("POST", "PUT", "PATCH"):
            head.append(("Content-Length", "0"))
        head = [(k, v) for k, v in head if k.lower() not in omit] + list(headers)
        out = f"{method} {path} HTTP/1.1\r\n".encode()
        for name, value in head:
            value = value if isinstance(value, bytes) else value.encode("latin-1")
            out += name.encode() + b": " + value + b"\r\n"
        record.write("out", "http", body, method=method, path=path,
                     hostile=True if hostile else None, conn=self.name)
        self.send(out + b"\r\n" + data)
        answer = self.response(timeout, head_only=method == "HEAD")
        note(method, path, answer, self.name)
        return answer

    def closed_within(self, seconds):
        """True where the server ends the connection (bytes before that are dropped)."""
        deadline = Deadline(seconds)
        while not deadline.passed():
            ready, _, _ = select.select([self.sock], [], [], deadline.left())
            if not ready:
                return False
            try:
                piece = self.sock.recv(65536)
            except ConnectionError:
                return True
            if not piece:
                return True
            self.buffer += piece
        return False


def note(method, path, answer, conn):
    """Put a response into the recording."""
    kind = answer.header("content-type") or ""
    body = answer.body
    if "json" in kind and body:
        try:
            body = json.loads(body)
        except ValueError:
            pass
    elif kind.startswith("text/"):
        body = body.decode("utf-8", "replace")[:2000]
    record.write("in", "http", body if body != b"" else None, method=method, path=path,
                 status=answer.status, content_type=kind or None, conn=conn)


class Api:
    """The JSON API as one user: api.get("/rooms"), api.post("/rooms", {...}) under /api/v1."""

    def __init__(self, address, token=None, prefix="/api/v1", headers=()):
        self.address, self.token, self.prefix = address, token, prefix
        self.headers = list(headers)

    def call(self, method, path, body=None, headers=(), **options):
        more = list(headers) + self.headers
        if self.token is not None:
            more.append(("Authorization", f"Bearer {self.token}"))
        with HttpConnection(self.address) as connection:
            return connection.request(method, self.prefix + path, body, more, **options)

    def get(self, path, **options):
        return self.call("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.call("POST", path, body, **options)

    def put(self, path, body=None, **options):
        return self.call("PUT", path, body, **options)

    def patch(self, path, body=None, **options):
        return self.call("PATCH", path, body, **options)

    def delete(self, path, body=None, **options):
        return self.call("DELETE", path, body, **options)

"""A raw WebSocket connection with full control of every byte; knows nothing of Parley's JSON.

Used by chat.Chat and by the hostile tests. Blocking socket, every wait has a deadline.
"""

import base64
import hashlib
import os
import socket
import time

from . import frames
from .wait import Deadline, TimedOut

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Refused(AssertionError):
    """The handshake was answered with something else than 101. Has .status, .headers, .body."""

    def __init__(self, status, headers, body):
        super().__init__(f"handshake refused: {status} {body[:200]!r}")
        self.status, self.headers, self.body = status, headers, body


def connect(address, *, rcvbuf=None, sndbuf=None, timeout=10.0, source=None):
    """A connected TCP socket. rcvbuf/sndbuf in bytes are set before the connect."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if rcvbuf:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if sndbuf:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf)
        if source:
            sock.bind((source, 0))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(timeout)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def request_head(host, *, path="/ws", key=None, headers=(), omit=(), version="13",
                 protocol="parley.v1", method="GET", http="1.1"):
    """The bytes of an upgrade request. `omit` names lower-case headers to leave out."""
    key = key or base64.b64encode(os.urandom(16)).decode()
    lines = [("Host", host), ("Upgrade", "websocket"), ("Connection", "Upgrade"),
             ("Sec-WebSocket-Key", key), ("Sec-WebSocket-Version", version)]
    if protocol:
        lines.append(("Sec-WebSocket-Protocol", protocol))
    lines = [(k, v) for k, v in lines if k.lower() not in omit] + list(headers)
    head = f"{method} {path} HTTP/{http}\r\n".encode()
    for name, value in lines:
        value = value if isinstance(value, bytes) else str(value).encode("latin-1")
        head += name.encode() + b": " + value + b"\r\n"
    return head + b"\r\n"


def parse_head(data):
    """(status, headers with lower-case names as a list of pairs) of a response head."""
    lines = data.split(b"\r\n")
    parts = lines[0].split(b" ", 2)
    assert parts[0] in (b"HTTP/1.1", b"HTTP/1.0"), f"not a response: {data[:100]!r}"
    headers = []
    for line in lines[1:]:
        if line:
            name, _, value = line.partition(b":")
            headers.append((name.decode("latin-1").strip().lower(), value.decode("latin-1").strip()))
    return int(parts[1]), headers


class WebSocket:
    """One connection. ended: None while open, else a close code, "eof" or "reset"."""

    def __init__(self, sock):
        self.sock = sock
        self.parser = frames.Parser()
        self.inbox = []  # frames that nobody has taken yet
        self.ended = None
        self.close_frame = None
        self.auto_pong = True
        self.pings = 0

    @classmethod
    def open(cls, address, *, timeout=10.0, rcvbuf=None, sndbuf=None, source=None, **head):
        """Connect and upgrade; raises Refused with the answer where it is not 101."""
        sock = connect(address, rcvbuf=rcvbuf, sndbuf=sndbuf, timeout=timeout, source=source)
        self = cls(sock)
        try:
            self.handshake(f"{address[0]}:{address[1]}", timeout=timeout, **head)
        except BaseException:
            self.abort()
            raise
        return self

    def handshake(self, host, *, timeout=10.0, extra=b"", **head):
        """Send the upgrade request (with `extra` bytes in the same segment) and read the 101."""
        key = head.pop("key", None) or base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall(request_head(host, key=key, **head) + extra)
        deadline = Deadline(timeout)
        data = b""
        while b"\r\n\r\n" not in data:
            self.sock.settimeout(max(0.01, deadline.left()))
            try:
                piece = self.sock.recv(65536)
            except socket.timeout:
                raise TimedOut(f"no answer to the handshake within {timeout} s") from None
            if not piece:
                raise Refused(0, [], data)
            data += piece
        text, _, rest = data.partition(b"\r\n\r\n")
        status, headers = parse_head(text)
        self.headers = headers
        if status != 101:
            raise Refused(status, headers, rest)
        fields = dict(headers)
        accept = base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()
        assert fields.get("sec-websocket-accept") == accept, "wrong Sec-WebSocket-Accept"
        assert fields.get("upgrade", "").lower() == "websocket"
        assert "upgrade" in fields.get("connection", "").lower()
        self._take(rest)

    # sending

    def send(self, data, timeout=10.0):
        """Send bytes as they are."""
        self.sock.settimeout(timeout)
        self.sock.sendall(data)

    def send_chopped(self, data, size=1):
        """Send bytes in pieces of `size`, one system call each."""
        self.sock.settimeout(10.0)
        for at in range(0, len(data), size):
            self.sock.sendall(data[at:at + size])

    def frame(self, opcode, payload=b"", **options):
        """Build and send one frame (options as frames.build)."""
        self.send(frames.build(opcode, payload, **options))

    def text(self, payload, **options):
        self.frame(frames.TEXT, payload, **options)

    # receiving

    def pump(self, timeout):
        """Read once, waiting at most `timeout` seconds. True where bytes or the end came."""
        if self.ended is not None:
            return False
        self.sock.settimeout(timeout if timeout > 0 else 0.0)
        try:
            data = self.sock.recv(262144)
        except (socket.timeout, BlockingIOError):
            return False
        except OSError:
            self._end("reset")
            return True
        if not data:
            self._end("eof")
            return True
        self._take(data)
        return True

    def _end(self, how):
        self.ended = self.close_frame.code() if self.close_frame is not None else how

    def _take(self, data):
        for frame in self.parser.feed(data):
            if frame.opcode == frames.CLOSE:
                self.close_frame = frame
            elif frame.opcode == frames.PING:
                self.pings += 1
                if self.auto_pong:
                    try:
                        self.frame(frames.PONG, frame.payload)
                    except OSError:
                        pass
            self.inbox.append(frame)

    def next_frame(self, timeout=5.0, opcode=None):
        """The next frame (of that opcode, skipping others). TimedOut, or EOFError at the end."""
        deadline = Deadline(timeout)
        while True:
            while self.inbox:
                frame = self.inbox.pop(0)
                if opcode is None or frame.opcode == opcode:
                    return frame
            if self.ended is not None:
                raise EOFError(f"connection ended: {self.ended}")
            if deadline.passed():
                raise TimedOut(f"no frame within {timeout} s")
            self.pump(max(0.005, deadline.left()))

    def wait_end(self, timeout=5.0):
        """Read until the server has ended the connection; the close code, "eof" or "reset".

        Answers a close frame with one of our own, as a client must.
        """
        deadline = Deadline(timeout)
        answered = False
        while self.ended is None:
            if self.close_frame is not None and not answered:
                answered = True
                try:
                    self.frame(frames.CLOSE, self.close_frame.payload[:2])
                except OSError:
                    pass
            if deadline.passed():
                raise TimedOut(f"still open after {timeout} s (close frame: {self.close_frame})")
            self.pump(max(0.005, min(0.2, deadline.left())))
        return self.ended

    # ending

    def close(self, code=1000, timeout=5.0):
        """An orderly close; returns what the server answered."""
        if self.ended is None:
            try:
                self.frame(frames.CLOSE, code.to_bytes(2, "big"))
                self.wait_end(timeout)
            except (OSError, TimedOut):
                pass
        self.abort()
        return self.ended

    def cut(self):
        """Close TCP without a close frame (FIN)."""
        if self.sock is not None:
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.abort()

    def abort(self):
        """Give the socket back, whatever state it is in."""
        if self.sock is not None:
            self.sock.close()
            self.sock = None
        if self.ended is None:
            self.ended = "cut"

    def rest_is_quiet(self, seconds):
        """Nothing at all comes within `seconds` on a connection that stays open."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.pump(min(0.05, max(0.001, end - time.monotonic())))
            if self.inbox or self.ended is not None:
                return False
        return True

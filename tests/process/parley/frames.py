"""RFC 6455 frames without any socket: building them (also broken ones) and parsing a server's.

Used by the WebSocket clients. The parser is strict: anything a server must not send is an error.
"""

import os
import struct

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class FramingError(AssertionError):
    """The server sent what RFC 6455 forbids."""


def mask_bytes(data, key):
    """XOR of data with the repeated 4-byte key."""
    n = len(data)
    if not n:
        return b""
    pad = (key * (n // 4 + 1))[:n]
    return (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(n, "big")


def build(opcode, payload=b"", *, fin=True, rsv=0, mask=True, form=None, length=None):
    """One client frame as bytes.

    form: 7, 16 or 64 forces that length form; length: announces another length than the payload's
    (the payload is sent as it is). mask: True (random), False, or 4 bytes.
    """
    if isinstance(payload, str):
        payload = payload.encode("utf-8", "surrogatepass")
    n = len(payload) if length is None else length
    if form is None:
        form = 7 if n < 126 else 16 if n < 65536 else 64
    first = (0x80 if fin else 0) | (rsv << 4) | opcode
    bit = 0x80 if mask else 0
    if form == 7:
        head = struct.pack("!BB", first, bit | n)
    elif form == 16:
        head = struct.pack("!BBH", first, bit | 126, n)
    else:
        head = struct.pack("!BBQ", first, bit | 127, n)
    if not mask:
        return head + payload
    key = os.urandom(4) if mask is True else mask
    return head + key + mask_bytes(payload, key)


class Frame:
    """A whole frame from the server: opcode, fin, payload (bytes)."""

    __slots__ = ("opcode", "fin", "payload")

    def __init__(self, opcode, fin, payload):
        self.opcode, self.fin, self.payload = opcode, fin, payload

    def code(self):
        """A close frame's code; 1005 where it has none."""
        return struct.unpack("!H", self.payload[:2])[0] if self.payload else 1005

    def __repr__(self):
        return f"Frame({self.opcode}, fin={self.fin}, {self.payload[:60]!r} of {len(self.payload)})"


class Parser:
    """Feeds on bytes, gives frames. Checks RSV, masks, minimal lengths, fragments and UTF-8."""

    def __init__(self):
        self.buffer = bytearray()
        self.fragment = None  # opcode of the message whose continuation is awaited
        self.parts = bytearray()
        self.closed = False  # a close frame was seen
        self.count = 0

    def feed(self, data):
        """The list of frames completed by `data`."""
        self.buffer += data
        out = []
        while True:
            frame = self._next()
            if frame is None:
                return out
            self.count += 1
            out.append(frame)

    def _next(self):
        b = self.buffer
        if len(b) < 2:
            return None
        if self.closed:
            raise FramingError(f"bytes after the close frame: {bytes(b[:40])!r}")
        fin, rsv, opcode = bool(b[0] & 0x80), b[0] & 0x70, b[0] & 15
        if rsv:
            raise FramingError(f"RSV bits set: {b[0]:#x}")
        if b[1] & 0x80:
            raise FramingError("masked frame from a server")
        if opcode not in (CONT, TEXT, BINARY, CLOSE, PING, PONG):
            raise FramingError(f"reserved opcode {opcode}")
        n, at = b[1] & 127, 2
        if n == 126:
            if len(b) < 4:
                return None
            n, at = struct.unpack_from("!H", b, 2)[0], 4
            if n < 126:
                raise FramingError("length not in its shortest form")
        elif n == 127:
            if len(b) < 10:
                return None
            n, at = struct.unpack_from("!Q", b, 2)[0], 10
            if n < 65536:
                raise FramingError("length not in its shortest form")
            if n > 1 << 26:
                raise FramingError(f"absurd length {n}")
        if opcode >= 8 and (n > 125 or not fin):
            raise FramingError("control frame too long or fragmented")
        if len(b) < at + n:
            return None
        payload = bytes(b[at:at + n])
        del b[:at + n]
        self._check(opcode, fin, payload)
        return Frame(opcode, fin, payload)

    def _check(self, opcode, fin, payload):
        if opcode == CLOSE:
            self.closed = True
            if len(payload) == 1:
                raise FramingError("close payload of one byte")
            self._utf8(payload[2:])
            return
        if opcode >= 8:
            return
        if (opcode == CONT) != (self.fragment is not None):
            raise FramingError("continuation out of place")
        if opcode != CONT:
            self.fragment, self.parts = opcode, bytearray()
        self.parts += payload
        if fin:
            if self.fragment == TEXT:
                self._utf8(bytes(self.parts))
            self.fragment = None

    @staticmethod
    def _utf8(data):
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FramingError(f"not UTF-8: {error}") from None

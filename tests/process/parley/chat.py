"""A client of parley.v1 over one WebSocket: requests, answers, events, and constant checks.

Used by nearly every test. It checks of its own accord, on every frame, that a room's seqs come
without hole or repeat (promise 2 and 4); what it finds stands in `faults` and fails the test.
"""

import itertools
import json
import weakref

from . import frames, record, ws
from .wait import Deadline, TimedOut

_ids = itertools.count(1)
_conns = itertools.count(1)
OPEN = weakref.WeakSet()  # every client made, so that the end of a test can look and close

SEQ_EVENTS = {
    "message.created", "message.updated", "message.deleted", "message.pinned", "message.unpinned",
    "reaction.added", "reaction.removed", "member.joined", "member.left", "member.changed",
    "members.changed", "room.changed", "resource.changed", "hidden",
}


class Error(AssertionError):
    """A request was answered with an error. Has .code and .error (the object)."""

    def __init__(self, op, error):
        super().__init__(f"{op} was refused: {error}")
        self.code, self.error = error.get("code"), error


def no_repeats(pairs):
    """object_pairs_hook: the server must never send a key twice."""
    keys = [k for k, _ in pairs]
    assert len(keys) == len(set(keys)), f"repeated key in a frame: {keys}"
    return dict(pairs)


class Chat(ws.WebSocket):
    """One session. `server` gives .address and .host; token is text or None."""

    def __init__(self, sock, token=None, sample=False):
        super().__init__(sock)
        self.token, self.sample = token, sample
        self.conn = f"w{next(_conns)}"  # names this connection in the recording
        self.log = []  # every JSON frame received, in order
        self.sizes = []  # their lengths in bytes
        self.taken = set()  # indices of events that event() has given out
        self.answers = {}  # id -> answer
        self.ops = {}  # id -> op sent
        self.expected = {}  # room -> the seq that must come next
        self.gaps = {}  # room -> list of (from, to) declared
        self.sent_hello, self.sent_enters, self.sent_exits = {}, {}, {}
        self.faults = []
        self.check_order = True
        self.welcome = None
        OPEN.add(self)

    @classmethod
    def connect(cls, server, token=None, *, hello=True, at_handshake=False, headers=(), rcvbuf=None,
                sample=False, timeout=10.0, source=None, **fields):
        """Connect, and say hello unless told not to; `fields` are hello's."""
        sock = ws.connect(server.address, rcvbuf=rcvbuf, timeout=timeout, source=source)
        self = cls(sock, token, sample)
        try:
            more = list(headers)
            if at_handshake:
                more.append(("Authorization", f"Bearer {token}"))
            self.handshake(server.host, headers=more, timeout=timeout)
            if hello:
                if token is not None and not at_handshake:
                    fields.setdefault("token", token)
                self.welcome = self.request("hello", timeout=timeout, **fields)
        except BaseException:
            self.abort()
            raise
        return self

    # requests

    def post(self, op, *, id=None, **fields):
        """Send a request without waiting for its answer; returns its id."""
        id = next(_ids) if id is None else id
        body = {"op": op, "id": id, **fields}
        self.ops[id] = op
        self._remember(body)
        record.write("out", "ws", body, sample=self.sample, op=op, conn=self.conn)
        self.text(json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        return id

    def batch(self, requests):
        """Send many requests (op, fields) in one write; returns their ids."""
        out, ids = b"", []
        for op, fields in requests:
            id = next(_ids)
            body = {"op": op, "id": id, **fields}
            self.ops[id] = op
            self._remember(body)
            record.write("out", "ws", body, sample=self.sample, op=op, conn=self.conn)
            out += frames.build(frames.TEXT, json.dumps(body, ensure_ascii=False))
            ids.append(id)
        self.send(out, timeout=30)
        return ids

    def raw(self, text, hostile=True):
        """Send text or bytes as one text frame; recorded as hostile unless told otherwise."""
        try:
            body = json.loads(text)
        except (ValueError, UnicodeDecodeError, RecursionError):
            body = text if isinstance(text, (bytes, bytearray)) else text[:65536]
        record.write("out", "ws", body, hostile=True if hostile else None, conn=self.conn)
        self.text(text)

    def hostile(self, op, *, id=None, **fields):
        """Send a request that breaks the schema on purpose and return its answer."""
        id = next(_ids) if id is None else id
        body = {"op": op, "id": id, **fields}
        self.ops[id] = op
        record.write("out", "ws", body, op=op if isinstance(op, str) else None, hostile=True,
                     conn=self.conn)
        self.text(json.dumps(body))
        return self.answer(id)

    def answer(self, id, timeout=10.0):
        """The answer to request `id`, whichever it is."""
        deadline = Deadline(timeout)
        while id not in self.answers:
            if self.ended is not None:
                raise EOFError(f"{self.ops.get(id)}: connection ended: {self.ended} "
                               f"{self.close_frame!r} {self.log[-1:]}")
            if deadline.passed():
                raise TimedOut(f"{self.ops.get(id)}: no answer within {timeout} s; "
                               f"last frames: {self.log[-3:]}")
            self.pump(max(0.005, deadline.left()))
        return self.answers[id]

    def ask(self, op, timeout=10.0, **fields):
        """Send a request and return its answer, be it ok or an error."""
        return self.answer(self.post(op, **fields), timeout)

    def request(self, op, timeout=10.0, **fields):
        """Send a request and return its ok answer; raises Error otherwise."""
        answer = self.ask(op, timeout, **fields)
        if "error" in answer:
            raise Error(op, answer["error"])
        assert answer.get("ok") is True, answer
        return answer

    def refused(self, op, code=None, timeout=10.0, **fields):
        """Send a request that must be refused (with `code` or one of them); returns the error."""
        answer = self.ask(op, timeout, **fields)
        assert "error" in answer, f"{op} should have been refused: {answer}"
        self.check_error(answer["error"], code)
        return answer["error"]

    @staticmethod
    def check_error(error, code=None):
        assert isinstance(error.get("code"), str) and isinstance(error.get("message"), str), error
        if code is not None:
            codes = {code} if isinstance(code, str) else set(code)
            assert error["code"] in codes, f"{error} is not one of {codes}"

    def send_message(self, room, text, nonce=None, **fields):
        """message.send with a fresh nonce; returns the ok answer."""
        return self.request("message.send", room=room, text=text,
                            nonce=nonce or f"n{next(_ids)}", **fields)

    # events

    def event(self, ev, timeout=5.0, **match):
        """The first event of that kind (all `match` fields equal) that was not given out yet."""
        return self.find(lambda f: f.get("ev") == ev
                         and all(f.get(k) == v for k, v in match.items()), timeout,
                         f"event {ev} {match}")

    def find(self, predicate, timeout=5.0, what="frame"):
        """The first frame not given out yet for which predicate holds."""
        deadline = Deadline(timeout)
        at = 0
        while True:
            while at < len(self.log):
                if at not in self.taken and predicate(self.log[at]):
                    self.taken.add(at)
                    return self.log[at]
                at += 1
            if self.ended is not None:
                raise EOFError(f"waiting for {what}: connection ended: {self.ended}")
            if deadline.passed():
                raise TimedOut(f"no {what} within {timeout} s; last frames: {self.log[-5:]}")
            self.pump(max(0.005, min(0.25, deadline.left())))

    def event_seen(self, ev):
        """The last event of that kind among what has come already."""
        found = [f for f in self.log if f.get("ev") == ev]
        assert found, f"no {ev} among {self.log[-5:]}"
        return found[-1]

    def mark(self):
        """The number of frames received; events since then are self.log[mark:]."""
        return len(self.log)

    def answer_since(self, mark, timeout=5.0):
        """The first answer (whatever its `re`) among the frames since `mark`."""
        deadline = Deadline(timeout)
        while True:
            for frame in self.log[mark:]:
                if "re" in frame:
                    return frame
            if self.ended is not None:
                raise EOFError(f"waiting for an answer: connection ended: {self.ended}")
            if deadline.passed():
                raise TimedOut(f"no answer within {timeout} s")
            self.pump(max(0.005, min(0.25, deadline.left())))

    def fence(self, timeout=10.0):
        """A round trip: what the server queued for this connection before it has been read."""
        self.request("ping", timeout=timeout)

    def seqs(self, room, ev="message.created", since=0):
        """The seqs of a room's events received, in order of receipt."""
        return [f["seq"] for f in self.log[since:]
                if f.get("room") == room and (f.get("ev") == ev if ev else f.get("ev") in SEQ_EVENTS)]

    def texts(self, room, since=0):
        return [f.get("text") for f in self.log[since:]
                if f.get("ev") == "message.created" and f.get("room") == room]

    def wait_seq(self, room, seq, timeout=10.0):
        """Wait until an event of `room` with that seq or a higher one has come, taken or not."""
        deadline = Deadline(timeout)
        at = 0
        while True:
            while at < len(self.log):
                frame = self.log[at]
                at += 1
                if frame.get("room") == room and frame.get("ev") in SEQ_EVENTS \
                        and frame["seq"] >= seq:
                    return
            if self.ended is not None:
                raise EOFError(f"waiting for seq {seq}: connection ended: {self.ended}")
            if deadline.passed():
                raise TimedOut(f"no seq {seq} of {room} within {timeout} s: {self.log[-2:]}")
            self.pump(max(0.005, min(0.25, deadline.left())))

    # what is checked on every frame

    def _take(self, data):
        super()._take(data)
        rest = []
        for frame in self.inbox:
            if frame.opcode != frames.TEXT:
                if frame.opcode in (frames.PONG, frames.PING, frames.CLOSE):
                    rest.append(frame)
                else:
                    self.faults.append(f"unexpected frame {frame!r}")
                continue
            if not frame.fin:
                self.faults.append("fragmented frame")
            if len(frame.payload) > 128 * 1024:
                self.faults.append(f"frame of {len(frame.payload)} bytes")
            self.sizes.append(len(frame.payload))
            self._frame(json.loads(frame.payload.decode(), object_pairs_hook=no_repeats))
        self.inbox = rest

    def _frame(self, body):
        id = body.get("re")
        op = self.ops.get(id) if isinstance(id, (str, int)) else None
        record.write("in", "ws", body, sample=self.sample, op=op, ev=body.get("ev"),
                     conn=self.conn)
        self.log.append(body)
        if "re" in body:
            if id is not None:
                if id in self.answers:
                    self.faults.append(f"two answers to {id}: {str(body)[:200]}")
                self.answers[id] = body
            if body.get("ok"):
                self._entered(op, body)
        elif body.get("ev") in SEQ_EVENTS:
            self._ordered(body)

    def _entered(self, op, body):
        if op == "hello":
            for entry in body.get("entered", []):
                if "error" not in entry:
                    self._enter(entry["room"], entry, self.sent_hello.get(entry["room"]))
        elif op == "room.enter":
            room, after = self.sent_enters.pop(body["re"], (None, None))
            if room:
                self._enter(room, body, after)
        elif op == "room.exit":
            self.expected.pop(self.sent_exits.pop(body["re"], None), None)

    def _enter(self, room, body, after):
        self.gaps[room] = [(g["from"], g["to"]) for g in body.get("gap", [])]
        if after is None or body.get("reset"):
            self.expected[room] = body["last_seq"] + 1
        else:
            self.expected[room] = after + 1

    def _remember(self, body):
        """Enters and exits are remembered, since their answers do not name the room."""
        op, room = body.get("op"), body.get("room")
        if op == "hello" and isinstance(body.get("enter"), dict):
            self.sent_hello = body["enter"]
        elif op == "room.enter" and isinstance(room, str):
            self.sent_enters[body["id"]] = (room, body.get("after_seq"))
        elif op == "room.exit" and isinstance(room, str):
            self.sent_exits[body["id"]] = room

    def _ordered(self, body):
        room, seq = body["room"], body["seq"]
        first = body.get("from_seq", seq)
        if self.check_order:
            due = self.expected.get(room, first)
            for low, high in sorted(self.gaps.get(room, [])):
                if low <= due <= high:
                    due = high + 1
            if first != due:
                self.faults.append(f"room {room}: seq {first} came where {due} was due: {str(body)[:200]}")
        self.expected[room] = seq + 1

    def wait_closed(self, code=None, timeout=5.0):
        """Wait for the server's close; checks the code, and that `bye` came before it."""
        got = self.wait_end(timeout)
        if code is not None:
            codes = {code} if isinstance(code, (int, str)) else set(code)
            assert got in codes, f"closed with {got}, not {codes}; last frames: {self.log[-3:]}"
        return got

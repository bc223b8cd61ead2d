"""The load of the crash rounds: people who send, listen, read, join and leave, lose the server at
any moment, come back, retry with the same nonce and resume; all recorded as checks.py wants it.

Used by test_crash.py. One asyncio loop; the server is killed by the caller meanwhile.
"""

import asyncio
import base64
import hashlib
import itertools
import json
import os
import random
import time

from . import frames, record, ws

_conns = itertools.count(1)


def digest(text):
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]


class Lost(Exception):
    """The connection is gone; what was in flight has an unknown outcome."""


class Link:
    """One asyncio WebSocket connection: request() and a callback per event."""

    def __init__(self, on_event):
        self.on_event, self.parser = on_event, frames.Parser()
        self.name = f"c{next(_conns)}"
        self.waiting, self.ops = {}, {}
        self.ids = itertools.count(1)
        self.lost = False
        self.faults = []
        self.writer = self.task = None

    async def open(self, address, host, token):
        self.reader, self.writer = await asyncio.open_connection(*address)
        key = base64.b64encode(os.urandom(16)).decode()
        self.writer.write(ws.request_head(host, key=key,
                                          headers=[("Authorization", f"Bearer {token}")]))
        head = await self.reader.readuntil(b"\r\n\r\n")
        status, _ = ws.parse_head(head[:-4])
        if status != 101:
            raise Lost(f"handshake {status}")
        self.task = asyncio.ensure_future(self._read())

    async def _read(self):
        try:
            while True:
                data = await self.reader.read(262144)
                if not data:
                    break
                for frame in self.parser.feed(data):
                    if frame.opcode == frames.TEXT:
                        self._frame(json.loads(frame.payload))
                    elif frame.opcode == frames.PING:
                        self.writer.write(frames.build(frames.PONG, frame.payload))
        except (OSError, asyncio.IncompleteReadError):
            pass
        except Exception as error:  # a framing error, or a bug of ours: never lose it
            self.faults.append(repr(error))
        self.lost = True
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(Lost())
        self.waiting.clear()

    def _frame(self, body):
        op = self.ops.pop(body["re"], None) if "re" in body else None
        record.write("in", "ws", body, sample=True, op=op, ev=body.get("ev"), conn=self.name)
        if "re" in body:
            future = self.waiting.pop(body["re"], None)
            if op == "room.enter" and body.get("ok"):
                self.on_enter(body)  # before the replay that follows in the same segment
            if future is not None and not future.done():
                future.set_result(body)
        else:
            self.on_event(self, body)

    def post(self, op, **fields):
        """Send a request; a future of its answer (ok or error), or of Lost."""
        if self.lost:
            raise Lost()
        id = next(self.ids)
        body = {"op": op, "id": id, **fields}
        record.write("out", "ws", body, sample=True, op=op, conn=self.name)
        future = asyncio.get_running_loop().create_future()
        self.waiting[id], self.ops[id] = future, op
        self.writer.write(frames.build(frames.TEXT, json.dumps(body)))
        return future

    async def request(self, op, **fields):
        return await self.post(op, **fields)

    async def close(self):
        if self.writer is not None:
            self.writer.close()
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


class World:
    """What all share: the server, the history, whether it is over."""

    def __init__(self, server, seed=0):
        self.server, self.history = server, []
        self.random = random.Random(seed)
        self.over = False  # nothing new is begun any more
        self.stopped = False  # everyone goes home
        self.people = []
        self.faults = []

    def note(self, **line):
        self.history.append(line)


class Person:
    """One user with at most one connection at a time. roles: send, listen, read, visit."""

    def __init__(self, world, user, rooms, *, sends=False, reads=False, visits=None, window=4):
        self.world, self.user, self.rooms = world, user, list(rooms)
        self.sends, self.reads, self.visits, self.window = sends, reads, visits, window
        self.last = {room: 0 for room in rooms}
        self.open = {}  # cid -> (room, text, first t0): neither acknowledged nor refused
        self.count = 0
        self.link = None
        self.inside = False
        self.want = None  # a join or leave under way: (what, t0)
        world.people.append(self)

    # receiving

    def _event(self, link, body):
        ev, room, seq = body.get("ev"), body.get("room"), body.get("seq")
        if seq is None or room is None or ev in ("notification",):
            return
        if ev == "members.changed":
            raise AssertionError("members.changed in a small room")
        self._received(link, room, body, "live")
        if ev == "member.left" and body.get("user") == self.user.id:
            self.world.note(k="exit", conn=link.name, room=room, t=time.monotonic())

    def _received(self, link, room, body, via):
        self.world.note(k="recv", conn=link.name, user=self.user.id, room=room, seq=body["seq"],
                        t=time.monotonic(), via=via, h=digest(body.get("text")),
                        sender=body.get("sender", self.user.id))
        if via == "live" or body["seq"] == self.last.get(room, 0) + 1:
            self.last[room] = max(self.last.get(room, 0), body["seq"])

    # life

    async def run(self):
        try:
            while not self.world.stopped:
                try:
                    await self._session()
                except (Lost, OSError, EOFError, asyncio.IncompleteReadError, ValueError):
                    pass
                finally:
                    if self.link is not None:
                        self.world.faults += self.link.faults
                        await self.link.close()
                    self.link = None
                await asyncio.sleep(self.world.random.uniform(0.005, 0.03))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.world.faults.append(f"{self.user.id}: {error!r}")
            raise

    async def _session(self):
        server = self.world.server
        link = Link(self._event)
        self.link = link
        await asyncio.wait_for(link.open(server.address, server.host, self.user.token), 5)
        answer = await link.request("hello")
        if not answer.get("ok"):
            raise Lost()
        for room in self.rooms:
            await self._enter(link, room)
        await self._retry(link)
        jobs = []
        if self.sends:
            jobs.append(self._send_on(link))
        if self.reads:
            jobs.append(self._read_on(link))
        if self.visits:
            jobs.append(self._visit_on(link))
        if jobs:
            await asyncio.gather(*jobs)
        while not link.lost and not self.world.stopped:
            await self._retry(link)
            await asyncio.wait([link.task], timeout=0.1)

    async def _enter(self, link, room):
        last = self.last[room]

        def entered(body):
            self.world.note(k="resume", conn=link.name, user=self.user.id, room=room, last=last,
                            t=time.monotonic(), head=body["last_seq"],
                            gaps=[[g["from"], g["to"]] for g in body.get("gap", [])],
                            reset=bool(body.get("reset")))

        link.on_enter = entered
        answer = await link.request("room.enter", room=room, after_seq=last)
        if not answer.get("ok"):
            if self.visits == room:
                return
            raise AssertionError(f"enter refused: {answer}")
        for gap in answer.get("gap", []):
            await self._fill(link, room, gap["from"], gap["to"])

    async def _fill(self, link, room, low, high):
        while low <= high:
            page = await link.request("events", room=room, after_seq=low - 1)
            if not page.get("ok"):
                raise Lost()
            for body in page["events"]:
                if body["seq"] <= high:
                    self._received(link, room, body, "events")
                    low = body["seq"] + 1
            if not page["events"]:
                raise AssertionError(f"events after {low - 1} of {room} are empty, up to {high} due")

    # sending

    async def _attempt(self, link, cid):
        """One send and its answer; False where the connection was lost meanwhile."""
        room, text, _ = self.open[cid]
        t0 = time.monotonic()
        line = dict(k="send", p=self.user.id, conn=link.name, user=self.user.id, room=room, cid=cid,
                    h=digest(text), t0=t0)
        try:
            answer = await link.post("message.send", room=room, nonce=cid, text=text)
        except Lost:
            self.world.note(**line, t1=time.monotonic(), res="info")
            return False
        t1 = time.monotonic()
        if answer.get("ok"):
            self.world.note(**line, t1=t1, res="ok", seq=answer["seq"],
                            duplicate=bool(answer.get("duplicate")))
        else:
            self.world.note(**line, t1=t1, res="fail", code=answer["error"]["code"])
        del self.open[cid]
        return True

    async def _retry(self, link):
        for cid in list(self.open):
            if not await self._attempt(link, cid):
                raise Lost()

    async def _send_on(self, link):
        running = set()
        while not self.world.over and not link.lost:
            self.count += 1
            room = self.rooms[self.count % len(self.rooms)]
            cid = f"{self.user.name.replace('.', '_')}-{self.count}"
            self.open[cid] = (room, f"text {self.count} of {self.user.id} " + "x" * (self.count % 90),
                              time.monotonic())
            running.add(asyncio.ensure_future(self._attempt(link, cid)))
            await asyncio.sleep(0.012)
            if len(running) >= self.window:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                if not all([task.result() for task in done]):
                    break
        await asyncio.gather(*running)

    async def _read_on(self, link):
        while not self.world.over and not link.lost:
            for room in self.rooms:
                if self.last[room]:
                    answer = await link.request("message.read", room=room, seq=self.last[room])
                    if answer.get("ok"):
                        self.world.note(k="read", user=self.user.id, room=room, t=time.monotonic(),
                                        read_seq=answer["read_seq"])
            await asyncio.sleep(0.05)

    # coming and going

    async def _visit_on(self, link):
        """Joins and leaves the visited room by turns; what was lost is asked again."""
        room = self.visits
        while not self.world.over and not link.lost:
            if self.want is None:
                self.want = ("leave" if self.inside else "join", time.monotonic())
            await self._move(link, room)
            if self.inside:
                self.last.setdefault(room, 0)
                await self._enter(link, room)
            await asyncio.sleep(self.world.random.uniform(0.02, 0.1))
        if self.want is not None:
            await self._move(link, room)

    async def _move(self, link, room):
        what, t0 = self.want
        line = dict(k="member", user=self.user.id, room=room, what=what, t0=t0)
        answer = await link.request(f"room.{what}", room=room)
        if answer.get("ok"):
            self.world.note(**line, t1=time.monotonic(), res="ok", seq=answer["seq"])
        elif what == "leave" and answer["error"]["code"] in ("not_found", "forbidden"):
            # the leave that was lost with the connection had happened
            self.world.note(**line, t1=time.monotonic(), res="info")
        else:
            raise AssertionError(f"{what} refused: {answer}")
        self.inside, self.want = what == "join", None

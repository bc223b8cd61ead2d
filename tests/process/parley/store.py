"""The SQLite file read directly, past the server: rows for the checkers.

Used by the crash test. Opens read-only; knows the tables of schemas/sql.
"""

import sqlite3
import time

from .load import digest

KINDS = {1: "message", 10: "joined", 11: "left"}


def read(server):
    """(stored rows as checks.py wants them, {room: head}) of the server's data folder."""
    path = next(server.data.glob("*.db"))
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        users = dict(db.execute("SELECT user_key, id FROM users"))
        rooms = {key: (id, head) for key, id, head in
                 db.execute("SELECT room_key, id, head_seq FROM rooms")}
        texts = {(room, seq): (sender, nonce, text, deleted) for
                 room, seq, sender, nonce, text, deleted in
                 db.execute("SELECT room, seq, sender, nonce, text, deleted FROM messages")}
        stored = []
        for room, seq, kind, sender, target in db.execute(
                "SELECT room, seq, kind, sender, target FROM events ORDER BY room, seq"):
            row = {"room": rooms[room][0], "seq": seq, "kind": KINDS.get(kind, "other"),
                   "user": None, "cid": None, "h": None, "deleted": False}
            if row["kind"] == "message":
                author, nonce, text, deleted = texts.pop((room, seq))
                assert author == sender
                row.update(user=users[author], cid=nonce, h=digest(text), deleted=bool(deleted))
            elif row["kind"] in ("joined", "left"):
                row["user"] = users[target]
            stored.append(row)
        assert not texts, f"messages without an event: {list(texts)[:5]}"
    return stored, {id: head for id, head in rooms.values()}


def fill(server, user, count, text):
    """Put `count` messages of `user` into the only room of a stopped server, as if it had sent
    them; text(i) gives each one's text. Returns the room's new head."""
    path = next(server.data.glob("*.db"))
    with sqlite3.connect(path) as db:
        room, head, n = db.execute("SELECT room_key, head_seq, head_n FROM rooms").fetchone()
        key = db.execute("SELECT user_key FROM users WHERE id = ?", (user.id,)).fetchone()[0]
        own = db.execute("SELECT own_n FROM room_members WHERE room = ? AND user = ?",
                         (room, key)).fetchone()[0]
        at, numbers = int(time.time() * 1000), range(1, count + 1)
        db.executemany(
            "INSERT INTO events (room, seq, kind, sender, target, at) VALUES (?,?,1,?,0,?)",
            ((room, head + i, key, at) for i in numbers))
        db.executemany(
            "INSERT INTO messages (room, seq, n, own_n, at, sender, nonce, request_hash, text) "
            "VALUES (?,?,?,?,?,?,?,?,?)",
            ((room, head + i, n + i, own + i, at, key, f"bulk-{i}", "h", text(i))
             for i in numbers))
        db.execute("UPDATE rooms SET head_seq = ?, head_n = ?, last_at = ?",
                   (head + count, n + count, at))
        db.execute("UPDATE room_members SET own_n = ?, read_seq = ?, read_n = ?, read_own = ? "
                   "WHERE room = ? AND user = ?",
                   (own + count, head + count, n + count, own + count, room, key))
    db.close()
    return head + count

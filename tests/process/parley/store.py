"""The SQLite file read directly, past the server: rows for the checkers.

Used by the crash test. Opens read-only; knows the tables of schemas/sql.
"""

import sqlite3

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

"""The checkers K1 to K13 as pure functions over a recorded history and the stored rows.

Used by the crash test on real runs and by test_checks.py on tampered ones. Each function returns
a list of violations in words; an empty list means that the check holds. Nothing here does I/O.

A history is a list of dicts in the order in which they were recorded (t, t0, t1: seconds of one
monotonic clock):
  {"k": "send", "p", "conn", "user", "room", "cid", "h", "t0", "t1", "res": ok|fail|info, "seq"?,
   "duplicate"?}                      one attempt of one message (a retry has the same cid)
  {"k": "recv", "conn", "user", "room", "t", "seq", "h", "sender"?, "via": live|events|history}
  {"k": "resume", "conn", "user", "room", "t", "last", "head", "gaps": [[from, to]], "reset": bool}
  {"k": "member", "user", "room", "what": join|leave, "t0", "t1", "res", "seq"?}
  {"k": "read", "user", "room", "t", "read_seq"}
  {"k": "exit", "conn", "room", "t"}  room.exit or room.leave was answered on that connection
Stored rows:
  events:   {"room", "seq", "kind": message|joined|left|other, "user"?, "cid"?, "h"?, "deleted"}
  (a message's user is its sender; a membership's is whom it concerns)
"""

import collections


def _messages(stored):
    return [r for r in stored if r["kind"] == "message"]


def _attempts(history):
    """{(room, user, cid): its attempts, in order}"""
    out = collections.defaultdict(list)
    for line in history:
        if line["k"] == "send":
            out[line["room"], line["user"], line["cid"]].append(line)
    return out


def k1_durable(history, stored):
    """Every acknowledged send is exactly one stored row, with that seq and that content."""
    rows = collections.defaultdict(list)
    for row in _messages(stored):
        rows[row["room"], row["user"], row["cid"]].append(row)
    bad = []
    for line in history:
        if line["k"] != "send" or line["res"] != "ok":
            continue
        found = rows[line["room"], line["user"], line["cid"]]
        if len(found) != 1:
            bad.append(f"K1: acknowledged {line['cid']} is stored {len(found)} times")
        elif found[0]["seq"] != line["seq"]:
            bad.append(f"K1: {line['cid']} acknowledged as {line['seq']}, stored as {found[0]['seq']}")
        elif found[0]["h"] != line["h"] and not found[0].get("deleted"):
            bad.append(f"K1: {line['cid']} is stored with another content")
    return bad


def k2_no_phantom(history, stored):
    """Every stored message was sent, with this content, and no refusal stands alone for it."""
    attempts = _attempts(history)
    bad = []
    for row in _messages(stored):
        tries = attempts.get((row["room"], row["user"], row["cid"]), [])
        if not any(t["res"] in ("ok", "info") for t in tries):
            bad.append(f"K2: {row['room']} {row['seq']} ({row['cid']}) was "
                       + ("refused" if tries else "never sent"))
        elif not row.get("deleted") and all(t["h"] != row["h"] for t in tries):
            bad.append(f"K2: {row['room']} {row['seq']} has a content that was never sent")
    return bad


def k3_gapless(heads, stored):
    """The stored seqs of each room are exactly 1..head."""
    seqs = collections.defaultdict(list)
    for row in stored:
        seqs[row["room"]].append(row["seq"])
    bad = []
    for room in set(heads) | set(seqs):
        have, head = sorted(seqs[room]), heads.get(room)
        if head is None:
            bad.append(f"K3: events of the unknown room {room}")
        elif have != list(range(1, head + 1)):
            lost = sorted(set(range(1, head + 1)) - set(have))[:5]
            twice = [s for s, n in collections.Counter(have).items() if n > 1][:5]
            bad.append(f"K3: {room} head {head}: missing {lost}, twice {twice}, last {have[-1:]}")
    return bad


def k4_idempotent(history, stored):
    """At most one row per (room, user, cid); all its acknowledgements carry one seq."""
    bad = []
    count = collections.Counter((r["room"], r["user"], r["cid"]) for r in _messages(stored))
    bad += [f"K4: {key} is stored {n} times" for key, n in count.items() if n > 1]
    for key, tries in _attempts(history).items():
        seqs = {t["seq"] for t in tries if t["res"] == "ok"}
        if len(seqs) > 1:
            bad.append(f"K4: {key} was acknowledged as {sorted(seqs)}")
    return bad


def k5_real_time(history):
    """What was acknowledged before another was begun has the smaller seq."""
    rooms = collections.defaultdict(list)
    for (room, _, cid), tries in _attempts(history).items():
        done = [t for t in tries if t["res"] == "ok"]
        if done:
            rooms[room].append((done[0]["seq"], min(t["t0"] for t in tries),
                                min(t["t1"] for t in done), cid))
    bad = []
    for room, items in rooms.items():
        latest, who = float("-inf"), None
        for seq, t0, t1, cid in sorted(items):
            if latest > t1:
                bad.append(f"K5: {room}: {cid} ({seq}) was acknowledged before {who} was begun, "
                           "yet comes after it")
            if t0 > latest:
                latest, who = t0, f"{cid} ({seq})"
    return bad


def k6_sender_order(history):
    """On one connection a room's first-time acknowledged sends have seqs in sending order."""
    conns = collections.defaultdict(list)
    for line in history:
        if line["k"] == "send" and line["res"] == "ok" and not line.get("duplicate"):
            conns[line["conn"], line["room"]].append((line["t0"], line["seq"], line["cid"]))
    bad = []
    for (conn, room), items in conns.items():
        items.sort(key=lambda i: i[0])
        for (_, a, x), (_, b, y) in zip(items, items[1:]):
            if a >= b:
                bad.append(f"K6: {conn} {room}: {x} has {a}, {y} sent later has {b}")
    return bad


def _streams(history):
    """Per connection and room the raw stream: lists of ("resume", line) and ("recv", line)."""
    out = collections.defaultdict(list)
    for line in history:
        if line["k"] in ("resume", "exit") or (line["k"] == "recv" and line["via"] == "live"):
            out[line["conn"], line["room"]].append(line)
    return out


def _skip(due, gaps):
    for low, high in sorted(map(tuple, gaps)):
        if low <= due <= high:
            due = high + 1
    return due


def k7_recipient_order(history):
    """On a connection a room's raw seqs are strictly +1, but for gaps and resets declared."""
    bad = []
    for (conn, room), lines in _streams(history).items():
        due, gaps = None, []
        for line in lines:
            if line["k"] == "exit":
                due = None
            elif line["k"] == "resume":
                gaps = line["gaps"]
                due = line["head"] + 1 if line["reset"] or line["last"] is None else line["last"] + 1
            else:
                if due is not None:
                    due = _skip(due, gaps)
                    if line["seq"] != due:
                        bad.append(f"K7: {conn} {room}: {line['seq']} came where {due} was due")
                due = line["seq"] + 1
    return bad


def k8_view(history, stored, starts):
    """Each user's view of a room (all connections, what was paged included) is one run without a
    hole, and each seq has the stored content. starts: {(user, room): first seq of interest}."""
    rows = {(r["room"], r["seq"]): r for r in stored}
    views = collections.defaultdict(dict)
    bad = []
    for line in history:
        if line["k"] != "recv":
            continue
        key, seq = (line["user"], line["room"]), line["seq"]
        row = rows.get((line["room"], seq))
        if row is None:
            bad.append(f"K8: {key} saw {seq}, which is not stored")
        elif row.get("h") is not None and line.get("h") != row["h"] and not row.get("deleted"):
            bad.append(f"K8: {key} saw another content at {seq}")
        if views[key].setdefault(seq, line.get("h")) != line.get("h"):
            bad.append(f"K8: {key} saw two contents at {seq}")
    for key, start in starts.items():
        seen = sorted(s for s in views.get(key, {}) if s >= start)
        if seen and seen != list(range(start, seen[-1] + 1)):
            lost = sorted(set(range(start, seen[-1] + 1)) - set(seen))[:5]
            bad.append(f"K8: {key} never saw {lost}")
    return bad


def k9_complete(history, heads, online):
    """At the end every online member's view goes up to the head. online: set of (user, room)."""
    last = collections.Counter()
    for line in history:
        if line["k"] == "recv":
            key = line["user"], line["room"]
            last[key] = max(last[key], line["seq"])
        elif line["k"] == "resume":  # a room whose head is what one already has
            key = line["user"], line["room"]
            if line["last"] is not None and line["last"] >= line["head"]:
                last[key] = max(last[key], line["head"])
    return [f"K9: {key} ends at {last[key]}, the head is {heads[key[1]]}"
            for key in sorted(online) if last[key] != heads[key[1]]]


def k10_resume_truth(history, heads, alive):
    """Where a resume was not refused, replay and live together cover all since `last`: up to the
    head on connections that lived to the end (alive: set of conn)."""
    bad = []
    for (conn, room), lines in _streams(history).items():
        at = max((i for i, l in enumerate(lines) if l["k"] == "resume"), default=None)
        if at is None:
            continue
        start = lines[at]
        if start["last"] is None or start["reset"]:
            continue
        rest = lines[at + 1:]
        left = any(l["k"] == "exit" for l in rest)
        seqs = {l["seq"] for l in rest if l["k"] == "recv"}
        end = heads[room] if conn in alive and not left else max(seqs, default=start["last"])
        due = set(range(start["last"] + 1, end + 1))
        for low, high in start["gaps"]:
            due -= set(range(low, high + 1))
        lost = sorted(due - seqs)
        if lost:
            bad.append(f"K10: {conn} {room} resumed after {start['last']}: {lost[:5]} never came")
    return bad


def k11_secrecy(history, stored):
    """Nobody receives a seq beyond the membership that they had (or had begun to ask for)."""
    spans = collections.defaultdict(list)  # (user, room) -> [[from, to]]
    for row in sorted(stored, key=lambda r: (r["room"], r["seq"])):
        key = row.get("user"), row["room"]
        if row["kind"] == "joined":
            spans[key].append([row["seq"], float("inf")])
        elif row["kind"] == "left" and spans[key]:
            spans[key][-1][1] = row["seq"]
    begun = {}
    for line in history:
        if line["k"] == "member" and line["what"] == "join" and line.get("seq"):
            key = line["user"], line["room"], line["seq"]
            begun[key] = min(begun.get(key, float("inf")), line["t0"])
    bad = []
    for line in history:
        if line["k"] != "recv":
            continue
        key = line["user"], line["room"]
        allowed = max((to for start, to in spans.get(key, [])
                       if begun.get((*key, start), float("-inf")) <= line["t"]), default=0)
        if line["seq"] > allowed:
            bad.append(f"K11: {key} got {line['seq']} ({line['via']}), allowed up to {allowed}")
    return bad


def k12_misroute(history, stored):
    """What was received is what is stored in that room under that seq, from that sender."""
    rows = {(r["room"], r["seq"]): r for r in stored}
    bad = []
    for line in history:
        if line["k"] != "recv" or line.get("h") is None:
            continue
        row = rows.get((line["room"], line["seq"]))
        if row is None or row["kind"] != "message":
            bad.append(f"K12: {line['user']} got a message at {line['room']} {line['seq']}")
        elif (not row.get("deleted") and row["h"] != line["h"]) or \
                line.get("sender", row["user"]) != row["user"]:
            bad.append(f"K12: {line['user']} got {line['room']} {line['seq']} of another")
    return bad


def k13_derived(history, stored, heads, counters):
    """Told counters equal a recount; marks never go back and stay within the room.

    counters: [{"user", "room", "unread", "read_seq", "last_seq"}] as told after the last change.
    """
    bad = []
    marks = {}
    for line in history:
        if line["k"] == "read":
            key = line["user"], line["room"]
            if line["read_seq"] < marks.get(key, 0):
                bad.append(f"K13: mark of {key} went from {marks[key]} to {line['read_seq']}")
            marks[key] = line["read_seq"]
    by_room = collections.defaultdict(list)
    for row in _messages(stored):
        by_room[row["room"]].append(row)
    for told in counters:
        room, user = told["room"], told["user"]
        due = sum(1 for r in by_room[room] if r["seq"] > told["read_seq"] and r["user"] != user
                  and not r.get("deleted"))
        if told["unread"] != due:
            bad.append(f"K13: {user} {room}: told {told['unread']} unread, {due} are")
        if told["last_seq"] != heads[room] or told["read_seq"] > heads[room]:
            bad.append(f"K13: {user} {room}: last_seq {told['last_seq']}, read_seq "
                       f"{told['read_seq']}, the head is {heads[room]}")
        if told["read_seq"] < marks.get((user, room), 0):
            bad.append(f"K13: {user} {room}: read_seq {told['read_seq']} is before the answered "
                       f"{marks[user, room]}")
    return bad


def all_checks(history, stored, heads, *, starts, online, alive, counters):
    """Every violation of K1 to K13."""
    return (k1_durable(history, stored) + k2_no_phantom(history, stored)
            + k3_gapless(heads, stored) + k4_idempotent(history, stored) + k5_real_time(history)
            + k6_sender_order(history) + k7_recipient_order(history)
            + k8_view(history, stored, starts) + k9_complete(history, heads, online)
            + k10_resume_truth(history, heads, alive) + k11_secrecy(history, stored)
            + k12_misroute(history, stored) + k13_derived(history, stored, heads, counters))

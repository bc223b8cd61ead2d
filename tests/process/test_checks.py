"""The checkers themselves: silent on a good history, red on each kind of tampering (K16).

A checker that cannot fail proves nothing; every kind of damage is done to a good history, one
after another, and must be found by the check that is there for it.
"""

import copy
import random

import pytest

from parley import checks, trace

pytestmark = pytest.mark.quick


class Run:
    """A small good run: two rooms, three members, a visitor who leaves and comes back."""

    def __init__(self, seed=1):
        self.random = random.Random(seed)
        self.now = 0.0
        self.history, self.stored = [], []
        self.heads = {"r1": 0, "r2": 0}
        self.members = {"r1": {"a", "b", "c"}, "r2": {"a", "b"}}
        self.conn = {u: f"{u}#1" for u in "abcv"}
        self.last = {}
        for room in self.heads:
            for user in sorted(self.members[room]):
                self.store(room, "joined", user)
        for room in self.heads:
            for user in sorted(self.members[room]):
                self.enter(user, room)
        self.play()
        self.starts = {(u, r): 1 for r in self.heads for u in self.members[r]}
        self.online = {(u, r) for r in self.heads for u in self.members[r]}
        self.alive = set(self.conn.values())
        self.counters = [self.counter(u, r) for u, r in sorted(self.online)]

    def tick(self):
        self.now += 0.01
        return self.now

    def store(self, room, kind, user, cid=None):
        self.heads[room] += 1
        row = {"room": room, "seq": self.heads[room], "kind": kind, "user": user, "cid": cid,
               "h": f"h{cid}" if cid else None, "deleted": False}
        self.stored.append(row)
        for member in sorted(self.members[room] | ({user} if kind == "left" else set())):
            if (member, room) in self.last:
                self.receive(member, room, row)
        return row["seq"]

    def receive(self, user, room, row):
        self.history.append({"k": "recv", "conn": self.conn[user], "user": user, "room": room,
                             "t": self.tick(), "seq": row["seq"], "h": row["h"],
                             "sender": row["user"], "via": "live"})
        self.last[user, room] = row["seq"]

    def enter(self, user, room):
        last = self.last.get((user, room), 0)
        self.history.append({"k": "resume", "conn": self.conn[user], "user": user, "room": room,
                             "t": self.tick(), "last": last, "head": self.heads[room], "gaps": [],
                             "reset": False})
        self.last[user, room] = last
        for row in self.stored:
            if row["room"] == room and row["seq"] > last:
                self.receive(user, room, row)

    def send(self, user, room, cid, lost=False):
        t0 = self.tick()
        seq = self.store(room, "message", user, cid)
        line = {"k": "send", "p": user, "conn": self.conn[user], "user": user, "room": room,
                "cid": cid, "h": f"h{cid}", "t0": t0, "t1": self.tick()}
        if lost:
            self.history.append({**line, "res": "info"})
            self.reconnect(user)
            line.update(conn=self.conn[user], t0=self.tick(), t1=self.tick(), duplicate=True)
        self.history.append({**line, "res": "ok", "seq": seq})

    def reconnect(self, user):
        self.conn[user] = self.conn[user].split("#")[0] + f"#{self.random.random():.9f}"
        for who, room in list(self.last):
            if who == user:
                self.enter(user, room)

    def play(self):
        for i in range(40):
            room = self.random.choice(["r1", "r2"])
            user = self.random.choice(sorted(self.members[room] & {"a", "b", "c"}))
            self.send(user, room, f"m{i}", lost=i % 13 == 5)
            if i == 3:
                self.refused = {"k": "send", "p": "a", "conn": self.conn["a"], "user": "a",
                                "room": "r1", "cid": "no", "h": "hno", "t0": self.tick(),
                                "t1": self.tick(), "res": "fail", "code": "overloaded"}
                self.history.append(self.refused)
            if i in (10, 30):
                self.join("v", "r1")
            if i == 20:
                self.leave("v", "r1")
            if i % 9 == 4:
                self.history.append({"k": "read", "user": "b", "room": "r1", "t": self.tick(),
                                     "read_seq": self.last["b", "r1"]})

    def join(self, user, room):
        t0 = self.tick()
        self.members[room].add(user)
        self.last.setdefault((user, room), self.last.get((user, room), 0))
        seq = self.heads[room] + 1
        self.history.append({"k": "member", "user": user, "room": room, "what": "join", "t0": t0,
                             "t1": self.tick(), "res": "ok", "seq": seq})
        last = self.last.pop((user, room))
        self.store(room, "joined", user)
        self.last[user, room] = last
        self.enter(user, room)

    def leave(self, user, room):
        t0 = self.tick()
        seq = self.store(room, "left", user)
        self.members[room].discard(user)
        self.history.append({"k": "exit", "conn": self.conn[user], "room": room, "t": self.tick()})
        self.history.append({"k": "member", "user": user, "room": room, "what": "leave", "t0": t0,
                             "t1": self.tick(), "res": "ok", "seq": seq})

    def counter(self, user, room):
        marks = [l["read_seq"] for l in self.history
                 if l["k"] == "read" and l["user"] == user and l["room"] == room]
        mark = max(marks, default=0)
        unread = sum(1 for r in self.stored if r["room"] == room and r["kind"] == "message"
                     and r["seq"] > mark and r["user"] != user)
        return {"user": user, "room": room, "unread": unread, "read_seq": mark,
                "last_seq": self.heads[room]}

    def check(self):
        return checks.all_checks(self.history, self.stored, self.heads, starts=self.starts,
                                 online=self.online, alive=self.alive, counters=self.counters)

    # choosing what to damage

    def lines(self, **match):
        return [l for l in self.history if all(l.get(k) == v for k, v in match.items())]

    def rows(self, **match):
        return [r for r in self.stored if all(r.get(k) == v for k, v in match.items())]

    def live(self, room="r1", user="b"):
        """A message received in the middle of that user's stream."""
        found = [l for l in self.lines(k="recv", user=user, room=room) if l["h"]]
        return found[len(found) // 2]


@pytest.mark.parametrize("seed", range(8))
def test_a_good_history_is_clean(seed):
    assert Run(seed).check() == []


def lose_acknowledged(run):
    ok = run.lines(k="send", res="ok", duplicate=None)[7]
    row = run.rows(room=ok["room"], cid=ok["cid"])[0]
    row.update(kind="other", user=None, cid=None, h=None)


def ack_with_wrong_seq(run):
    run.lines(k="send", res="ok")[5]["seq"] += 1


def store_other_content(run):
    run.rows(kind="message")[9]["h"] = "hx"


def store_refused(run):
    row = run.rows(kind="message", room="r1")[2]
    row.update(user=run.refused["user"], cid="no", h="hno")


def store_never_sent(run):
    run.rows(kind="message", room="r1")[2]["cid"] = "phantom"


def drop_stored(run):
    run.stored.remove(run.rows(kind="message", room="r1")[4])


def double_seq(run):
    run.rows(kind="message", room="r1")[4]["seq"] += 1


def lose_the_tail(run):
    run.stored.remove(max(run.rows(room="r1"), key=lambda r: r["seq"]))


def store_twice(run):
    row = copy.deepcopy(run.rows(kind="message", room="r1")[3])
    run.heads["r1"] += 1
    row["seq"] = run.heads["r1"]
    run.stored.append(row)


def two_seqs_for_one_nonce(run):
    first = run.lines(k="send", res="ok", duplicate=True)[0]
    second = dict(first, seq=first["seq"] + 1, t0=first["t1"] + 1, t1=first["t1"] + 2)
    run.history.append(second)


def swap_stored_order(run):
    """Two messages, the second begun after the first was acknowledged, stored the wrong way."""
    a, b = run.lines(k="send", res="ok", room="r1")[2:4]
    a["seq"], b["seq"] = b["seq"], a["seq"]


def swap_on_one_connection(run):
    one = run.lines(k="send", res="ok", room="r1", duplicate=None)
    a, b = next((x, y) for x in one for y in one
                if x["conn"] == y["conn"] and x["t0"] < y["t0"])
    a["seq"], b["seq"] = b["seq"], a["seq"]


def drop_received(run):
    run.history.remove(run.live())


def repeat_received(run):
    line = run.live()
    run.history.insert(run.history.index(line) + 1, dict(line))


def swap_received(run):
    a = run.live()
    b = next(l for l in run.history[run.history.index(a) + 1:]
             if l["k"] == "recv" and l["conn"] == a["conn"] and l["room"] == a["room"])
    i, j = run.history.index(a), run.history.index(b)
    run.history[i], run.history[j] = b, a


def undeclared_gap(run):
    """A resume that skips what was missed and says nothing."""
    resume = run.lines(k="resume", user="b", room="r1")[-1]
    resume["last"] -= 2


def false_gap(run):
    """A gap declared over what was then sent all the same."""
    line = run.live()
    resume = [l for l in run.lines(k="resume", conn=line["conn"], room="r1")
              if l["t"] < line["t"]][-1]
    resume["gaps"] = [[line["seq"], line["seq"]]]


def hole_filled_by_nobody(run):
    line = run.live()
    for other in run.lines(k="recv", user="b", room="r1", seq=line["seq"]):
        run.history.remove(other)


def other_content_seen(run):
    run.live()["h"] = "hx"


def last_never_delivered(run):
    head = run.heads["r1"]
    for line in run.lines(k="recv", user="c", room="r1", seq=head):
        run.history.remove(line)


def resumed_but_cut_short(run):
    line = run.lines(k="resume", user="a")[-1]
    conn, room = line["conn"], line["room"]
    rest = run.history[run.history.index(line):]
    victims = [l for l in rest if l["k"] == "recv" and l["conn"] == conn and l["room"] == room]
    if not victims:  # resumed at the head: claim that it was asked from earlier
        line["last"] -= 1
        return
    run.history.remove(victims[0])


def leak_to_stranger(run):
    run.history.append(dict(run.live(), user="z", conn="z#1"))


def leak_after_leaving(run):
    left = run.rows(kind="left", user="v")[0]
    later = next(r for r in run.rows(room="r1", kind="message") if r["seq"] > left["seq"])
    leave = run.lines(k="member", user="v", what="leave")[0]
    run.history.insert(run.history.index(leave) + 1,
                       {"k": "recv", "conn": "v#9", "user": "v", "room": "r1",
                        "t": leave["t1"], "seq": later["seq"], "h": later["h"],
                        "sender": later["user"], "via": "history"})


def misroute(run):
    line = run.live(room="r2")
    line["room"] = "r1"
    row = next(r for r in run.rows(room="r2", seq=line["seq"]))
    assert any(r["h"] != row["h"] for r in run.rows(room="r1", seq=line["seq"]))


def wrong_sender(run):
    run.live()["sender"] = "nobody"


def mark_goes_back(run):
    run.lines(k="read")[-1]["read_seq"] = 1


def unread_off_by_one(run):
    run.counters[0]["unread"] += 1


def stale_last_seq(run):
    run.counters[0]["last_seq"] -= 1


def mark_lost(run):
    entry = next(c for c in run.counters if c["user"] == "b" and c["room"] == "r1")
    entry["read_seq"] = 1
    entry["unread"] = sum(1 for r in run.rows(room="r1", kind="message")
                          if r["seq"] > 1 and r["user"] != "b")


DAMAGE = [
    (lose_acknowledged, "K1"), (ack_with_wrong_seq, "K1"), (store_other_content, "K1"),
    (store_refused, "K2"), (store_never_sent, "K2"), (store_other_content, "K2"),
    (drop_stored, "K3"), (double_seq, "K3"), (lose_the_tail, "K3"),
    (store_twice, "K4"), (two_seqs_for_one_nonce, "K4"),
    (swap_stored_order, "K5"), (swap_on_one_connection, "K6"),
    (drop_received, "K7"), (repeat_received, "K7"), (swap_received, "K7"), (false_gap, "K7"),
    (undeclared_gap, "K7"),
    (hole_filled_by_nobody, "K8"), (other_content_seen, "K8"),
    (last_never_delivered, "K9"),
    (resumed_but_cut_short, "K10"), (drop_received, "K10"), (undeclared_gap, "K10"),
    (leak_to_stranger, "K11"), (leak_after_leaving, "K11"),
    (misroute, "K12"), (wrong_sender, "K12"), (other_content_seen, "K12"),
    (mark_goes_back, "K13"), (unread_off_by_one, "K13"), (stale_last_seq, "K13"),
    (mark_lost, "K13"),
]


@pytest.mark.parametrize("damage, check", DAMAGE, ids=[f"{c}-{d.__name__}" for d, c in DAMAGE])
def test_damage_is_found(damage, check):
    """For one damage at least one seed must show it; where it can be done it must be found."""
    run = Run(1)
    damage(run)
    found = run.check()
    assert any(v.startswith(check + ":") for v in found), found


# K14 on traces made by hand

GOOD = r"""
10 pwrite64(5</d/parley.db-wal>, "mark-1", 4096, 56) = 4096
10 fdatasync(5</d/parley.db-wal> <unfinished ...>
11 sendto(9<socket:[1]>, "{\"ev\":\"typing\"}", 100, MSG_NOSIGNAL, NULL, 0) = 100
10 <... fdatasync resumed>) = 0
11 sendto(9<socket:[1]>, "\201{\"re\":\"k1\",\"ok\":true}", 100, MSG_NOSIGNAL, NULL, 0) = 100
11 sendmsg(8<socket:[2]>, {msg_iov=[{iov_base="{\"ev\":\"message.created\",\"text\":\"mark-1\"}", iov_len=90}]}, 0) = 90
""".strip()
MARKS = [("mark-1", "k1")]


def swap(text, first, second):
    lines = text.splitlines()
    lines[first], lines[second] = lines[second], lines[first]
    return "\n".join(lines)


def without(text, word):
    return "\n".join(l for l in text.splitlines() if word not in l)


def test_k14_good_trace():
    assert trace.k14_ack_after_sync(GOOD, MARKS) == []


@pytest.mark.parametrize("text", [
    swap(GOOD, 3, 4),  # the ok leaves while the sync is under way
    swap(swap(GOOD, 4, 5), 3, 4),  # an event does
    swap(GOOD, 0, 4),  # acknowledged, then written
    without(GOOD, "fdatasync"),  # synchronous=OFF
    without(GOOD, "pwrite64"),  # no commit at all
    without(without(GOOD, "sendmsg"), "k1"),  # nobody was told: the trace shows nothing
    swap(GOOD, 0, 1),  # the sync began before the write: it is another commit's
    GOOD.replace("fdatasync resumed>) = 0", "fdatasync resumed>) = -1 EIO"),
], ids=["early-ok", "early-event", "ok-before-write", "no-sync", "no-write", "nobody-told",
        "sync-of-another", "sync-failed"])
def test_k14_bad_trace(text):
    assert trace.k14_ack_after_sync(text, MARKS) != []

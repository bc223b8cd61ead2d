"""Seen from the start: the admin listener answers within 50 ms while an actor is stuck, a room's
queue is full or the database does not answer; metrics by Prometheus' rules.
"""

import shutil
import subprocess
import time

import pytest

from parley import metrics
from parley.http import HttpConnection
from parley.wait import SLOWNESS, until

PATHS = ["/admin/actors", "/admin/rooms", "/admin/sessions", "/admin/storage", "/metrics", "/livez"]


class Probe:
    """Asks the admin listener again and again over one connection each and keeps the times."""

    def __init__(self, server):
        self.server, self.times = server, {path: [] for path in PATHS}
        self.connection = HttpConnection(server.admin_address)
        self.headers = [("Authorization", f"Bearer {server.admin_token}")]
        self.last = {}

    def round(self):
        for path in PATHS:
            t0 = time.perf_counter()
            answer = self.connection.request("GET", path, headers=self.headers)
            self.times[path].append(time.perf_counter() - t0)
            assert answer.status == 200, answer
            self.last[path] = answer

    def check(self, rounds, bar=0.05):
        for path, times in self.times.items():
            assert len(times) >= rounds, f"only {len(times)} rounds"
            p95 = sorted(times)[int(len(times) * 0.95)]
            assert p95 <= bar * SLOWNESS, f"{path}: p95 {p95 * 1000:.1f} ms"


@pytest.fixture(scope="module")
def faulty(make_server, faults):
    return make_server(faults="stuck_room_ms=2500,storage_hang_ms=2500",
                       sets={"limits.in_flight": 1000, "limits.room_queue": 50,
                             "limits.writer_queue": 500, "limits.session_queue": 1000})


def test_while_an_actor_is_stuck(faulty):
    """The stuck one is shown, with how long and with what."""
    a, b = faulty.users(2)
    room, calm = faulty.room(a), faulty.room(b)
    client, other = faulty.chat(a), faulty.chat(b)
    client.send_message(room, "warm")
    other.send_message(calm, "warm")
    id = client.post("message.send", room=room, nonce="stuck", text="!stuck")
    probe, shown, calm_times = Probe(faulty), [], []
    until(lambda: [x for x in faulty.admin.get("/admin/actors").json["actors"]
                   if x["kind"] == "room" and x["state"] != "idle"], 2, "the room is busy")
    while id not in client.answers:
        probe.round()
        shown += [x for x in probe.last["/admin/actors"].json["actors"]
                  if x["kind"] == "room" and x["state"] in ("busy", "stuck")]
        t0 = time.monotonic()
        other.send_message(calm, "not stuck")
        calm_times.append(time.monotonic() - t0)
        client.pump(0.01)
    assert client.answers[id]["ok"]
    probe.check(10)
    assert shown and any(x["state"] == "stuck" for x in shown)
    assert max(x["busy_for_ms"] for x in shown) > 1000 and all(x["busy_with"] for x in shown)
    assert sorted(calm_times)[len(calm_times) // 2] < 0.25 * SLOWNESS
    slow = [e for e in faulty.log() if e.get("level") in ("warn", "warning")
            and "room" in str(e).lower()]
    assert slow, "a handler over 1 s is a warning that names the actor"


def test_while_the_database_does_not_answer(faulty):
    """And while that room's queue is full."""
    a, b = faulty.users(2)
    room, calm = faulty.room(a), faulty.room(b)
    client = faulty.chat(a)
    other = faulty.chat(b, enter={calm: 0})
    id = client.post("message.send", room=room, nonce="hang", text="!hang")
    ids = client.batch([("message.send", {"room": room, "nonce": f"q{i}", "text": "x"})
                        for i in range(200)])
    probe, queued, states = Probe(faulty), [], []
    while id not in client.answers:
        probe.round()
        line = [r for r in probe.last["/admin/rooms"].json["rooms"] if r["room"] == room]
        queued += [r["queued"] for r in line]
        states.append(probe.last["/admin/storage"].json["writer"]["state"])
        t0 = time.monotonic()
        other.request("ping")
        other.request("typing", room=calm)
        assert time.monotonic() - t0 < 0.5 * SLOWNESS  # what needs no database goes on
        client.pump(0.01)
    probe.check(10)
    assert max(queued) >= 40, "the room's queue was not full"
    assert set(states) != {"idle"}
    answers = [client.answer(i, 20) for i in ids]
    assert {x["error"]["code"] for x in answers if "error" in x} == {"overloaded"}
    assert faulty.probe("/livez") == 200


def test_livez_without_the_database(faulty):
    a = faulty.user()
    room = faulty.room(a)
    client = faulty.chat(a)
    id = client.post("message.send", room=room, nonce="hang2", text="!hang")
    until(lambda: faulty.admin.get("/admin/storage").json["writer"]["state"] != "idle", 2, pump=[client])
    t0 = time.monotonic()
    assert faulty.probe("/livez") == 200
    assert time.monotonic() - t0 < 0.1 * SLOWNESS
    assert client.answer(id, 10)["ok"]


@pytest.fixture(scope="module")
def used(server):
    """A server on which something has happened."""
    a, b = server.users(2)
    room = server.room(a, b)
    source, reader = server.chat(a), server.chat(b, enter={room: 0})
    for i in range(5):
        seq = source.send_message(room, f"m{i}")["seq"]
    reader.request("message.read", room=room, seq=seq)
    reader.wait_seq(room, seq)
    a.api.get(f"/rooms/{room}/messages")
    return a, b, room


@pytest.mark.quick
def test_promtool(server, used):
    if not shutil.which("promtool"):
        pytest.skip("promtool (package prometheus) is not installed")
    answer = server.admin.get("/metrics")
    assert answer.header("content-type").startswith("text/plain")
    done = subprocess.run(["promtool", "check", "metrics"], input=answer.body, capture_output=True)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert not done.stderr.strip(), done.stderr.decode()


NAMES = ["chat_ws_send_seconds", "chat_message_send_seconds", "chat_message_read_seconds",
         "chat_message_response_build_seconds", "chat_event_message_sent_seconds",
         "chat_broadcast_room_seconds"]


@pytest.mark.parametrize("name", NAMES)
def test_timers_of_the_record(server, used, name):
    samples = server.metrics()
    count = metrics.total(samples, f"{name}_count")
    assert count and count >= 1, f"{name} counted nothing"
    assert metrics.total(samples, f"{name}_sum") > 0


def test_statements_are_counted(server, used):
    samples = server.metrics()
    assert metrics.total(samples, "chat_db_statements_total") > 0
    total = server.admin.get("/admin/storage").json["statements"]
    assert total >= metrics.total(samples, "chat_db_statements_total")


def test_lone_message_costs_few_statements(server, used):
    """At most 8 a message, BEGIN and COMMIT counted."""
    a, _, room = used
    client = server.chat(a)
    client.send_message(room, "warm")
    before = metrics.total(server.metrics(), "chat_db_statements_total")
    for i in range(20):
        client.send_message(room, f"alone {i}")
    spent = metrics.total(server.metrics(), "chat_db_statements_total") - before
    assert spent / 20 <= 8, spent / 20


def test_burst_shares_its_commits(server, used):
    a, _, room = used
    client = server.chat(a)
    before = server.admin.get("/admin/storage").json["writer"]["batches"]
    for id in client.batch([("message.send", {"room": room, "nonce": f"bb{i}", "text": "x"})
                            for i in range(60)]):
        client.answer(id)
    after = server.admin.get("/admin/storage").json["writer"]["batches"]
    assert (after - before) / 60 <= 0.5


@pytest.mark.quick
def test_single_forms(server, used):
    """Each list's single form tells the same thing; what is not there is 404."""
    a, b, room = used
    client = server.chat(a)
    client.request("room.enter", room=room)
    card = server.admin.get(f"/admin/rooms/{room}").json
    listed = next(r for r in server.admin.get("/admin/rooms").json["rooms"] if r["room"] == room)
    assert card["room"] == room and card["members"] == listed["members"] == 2
    assert card["last_seq"] == listed["last_seq"]
    session = client.welcome["session"]
    card = server.admin.get(f"/admin/sessions/{session}").json
    assert card["session"] == session and card["user"] == a.id and card["address"].startswith("127.")
    actors = server.admin.get("/admin/actors").json["actors"]
    kinds = {x["kind"] for x in actors}
    assert {"room", "session"} <= kinds and len(kinds) >= 5, kinds
    one = server.admin.get(f"/admin/actors/{actors[0]['id']}").json
    assert one["kind"] == actors[0]["kind"]
    for path in ("/admin/rooms/r_none", "/admin/sessions/s_none", "/admin/actors/none",
                 "/admin/nothing"):
        assert server.admin.get(path).status == 404, path
    del b


@pytest.mark.quick
def test_end_a_session(server, used):
    client = server.chat(used[0])
    session = client.welcome["session"]
    assert server.admin.delete(f"/admin/sessions/{session}").status == 200
    client.wait_closed(1008, 2)
    assert server.admin.delete(f"/admin/sessions/{session}").status == 404


def test_admin_answers_under_load(server, used):
    """While many send, with them and the servers on the same cores."""
    a, b, room = used
    clients = [server.chat(u, sample=True) for u in (a, b) for _ in range(3)]
    probe = Probe(server)
    for n in range(25):
        for i, client in enumerate(clients):
            client.batch([("message.send", {"room": room, "nonce": f"l{n}-{i}-{k}", "text": "x"})
                          for k in range(10)])
            client.pump(0)
        probe.round()
    probe.check(25, 0.25)
    for client in clients:
        client.fence(30)


@pytest.mark.quick
def test_a_session_tells_how_many_rooms_it_has_entered(server):
    user = server.user()
    first, second = server.room(user), server.room(user)
    client = server.chat(user)
    path = f"/admin/sessions/{client.welcome['session']}"
    rooms = lambda: server.admin.get(path).json["rooms"]
    assert rooms() == 0
    client.request("room.enter", room=first)
    client.request("room.enter", room=second)
    until(lambda: rooms() == 2, 2)
    client.request("room.enter", room=second)
    until(lambda: rooms() == 2, 2)
    client.request("room.exit", room=first)
    until(lambda: rooms() == 1, 2)

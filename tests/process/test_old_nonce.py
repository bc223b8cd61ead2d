"""An old nonce, its room put away since, repeated inside a burst of 1,000 messages by 50 users:
its first seq, and no error for anyone."""

import pytest

from parley.wait import until

pytestmark = pytest.mark.quick
SETS = {"limits.in_flight": 100}


@pytest.mark.parametrize("repeats", [1, 10])
def test_old_nonce_inside_a_burst(server, repeats):
    owner = server.user()
    users = server.users(50)
    room = server.room(owner, *users)
    client = server.chat(owner, sample=True)
    old = [client.send_message(room, f"old {i}", f"old-{i}") for i in range(repeats)]
    for i in range(300):  # so that it is no longer among the recent ones
        client.post("message.send", room=room, nonce=f"fill-{i}", text="x")
    until(lambda: len(client.answers) >= 301 + repeats, 20, pump=[client])
    client.close()
    until(lambda: server.admin.post(f"/admin/rooms/{room}/passivate").status in (200, 404)
          and room not in [r["room"] for r in server.admin.get("/admin/rooms").json["rooms"]], 10)
    clients = [server.chat(u, sample=True) for u in users]
    again = server.chat(owner, sample=True)
    waiting = []
    for i, sender in enumerate(clients):
        waiting.append((sender, sender.batch([
            ("message.send", {"room": room, "nonce": f"b{n}", "text": f"burst {i} {n}"})
            for n in range(20)])))
        if i in range(20, 20 + repeats):
            n = i - 20
            id = again.post("message.send", room=room, nonce=f"old-{n}", text=f"old {n}")
            waiting.append((again, [id]))
    until(lambda: all(i in c.answers for c, ids in waiting for i in ids), 30,
          pump=[*clients, again])
    errors = [c.answers[i] for c, ids in waiting for i in ids if "error" in c.answers[i]]
    assert not errors, errors[:3]
    repeated = [c.answers[i] for c, ids in waiting for i in ids if c is again]
    assert [r["seq"] for r in repeated] == [o["seq"] for o in old]
    assert all(r["duplicate"] is True for r in repeated)
    seqs = sorted(c.answers[i]["seq"] for c, ids in waiting for i in ids if c is not again)
    head = 51 + 300 + repeats
    assert seqs == list(range(head + 1, head + 1001))
    for sender, ids in waiting:
        if sender is not again:
            own = [sender.answers[i]["seq"] for i in ids]
            assert own == sorted(own)

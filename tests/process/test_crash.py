"""SIGKILL at random under load, round after round, and K1 to K13 on what everybody saw.

PARLEY_CRASH_ROUNDS sets the rounds (25), PARLEY_CRASH_SEED the seed. People send with their own
nonces and retry, resume after every loss, read, join and leave; at the end the history API and the
database file are compared with what they recorded.
"""

import asyncio
import os
import time

import pytest

from parley import checks, load, store
from parley.chat import Chat
from parley.wait import SLOWNESS

pytestmark = pytest.mark.slow
ROUNDS = int(os.environ.get("PARLEY_CRASH_ROUNDS", "25"))
SEED = int(os.environ.get("PARLEY_CRASH_SEED", "0")) or int.from_bytes(os.urandom(3), "big")


class Scene:
    """Four rooms, three senders and two listeners in each, a reader, two visitors of a fifth."""

    def __init__(self, server, world):
        self.world, self.server = world, server
        owner = server.user("owner")
        senders, listeners = server.users(6, "s"), server.users(4, "l")
        visitors = server.users(2, "v")
        members = [*senders, *listeners]
        self.rooms = [server.room(owner, *members, name=f"room {i}") for i in range(3)]
        self.hall = server.room(owner, *members, name="hall", kind="public")
        everywhere = [*self.rooms, self.hall]
        for i, user in enumerate(senders):
            load.Person(world, user, everywhere, sends=True, reads=i == 0)
        for i, user in enumerate(listeners):
            load.Person(world, user, everywhere, reads=i < 2)
        for user in visitors:
            load.Person(world, user, [], visits=self.hall)
        self.owner, self.members, self.everywhere = owner, members, everywhere

    def caught_up(self, heads):
        """Whether every member's person has all events, and nothing is open."""
        for person in self.world.people:
            if person.open or person.want:
                return False
            if any(person.last[room] < heads[room] for room in person.rooms):
                return False
        return True


async def kills(scene, rounds):
    world, server = scene.world, scene.server
    tasks = [asyncio.ensure_future(p.run()) for p in world.people]
    starts, loop = [], asyncio.get_running_loop()
    try:
        for _ in range(rounds):
            await asyncio.sleep(world.random.uniform(0.05, 1.5))  # the moment of death: random
            await loop.run_in_executor(None, server.kill9)
            begun = time.monotonic()
            await loop.run_in_executor(None, server.start)
            starts.append(time.monotonic() - begun)
            for task in tasks:
                if task.done():
                    task.result()
        world.over = True
        end = time.monotonic() + 30 * SLOWNESS
        while True:
            heads = (await loop.run_in_executor(None, store.read, server))[1]
            if scene.caught_up(heads):
                break
            assert time.monotonic() < end, [
                (p.user.name, len(p.open), p.want, {r: (p.last[r], heads[r]) for r in p.rooms
                                                    if p.last[r] != heads[r]})
                for p in world.people if not (not p.open and not p.want and
                                              all(p.last[r] >= heads[r] for r in p.rooms))][:4]
            await asyncio.sleep(0.1)  # the next look at a condition with a deadline
        alive = {p.link.name for p in world.people if p.link and not p.link.lost}
        return starts, alive
    finally:
        world.stopped = True
        await asyncio.wait(tasks, timeout=10)
        for task in tasks:
            if not task.done():
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def page_history(scene, world):
    """Reads every room through the public API, as the owner, into the history."""
    client = Chat.connect(scene.server, scene.owner.token, sample=True)
    for room in scene.everywhere:
        after = 0
        while True:
            page = client.request("history", room=room, after_seq=after, limit=200)
            for m in page["messages"]:
                world.note(k="recv", conn="pages", user=scene.owner.id, room=room, seq=m["seq"],
                           t=time.monotonic(), h=load.digest(m["text"]), sender=m["sender"],
                           via="history")
            if not page["more"]:
                break
            after = page["messages"][-1]["seq"]
    client.close()


def counters(scene):
    out = []
    for user in scene.members:
        client = Chat.connect(scene.server, user.token, sample=True)
        for line in client.welcome["rooms"]:
            out.append({"user": user.id, "room": line["room"], "unread": line["unread"],
                        "read_seq": line["read_seq"], "last_seq": line["last_seq"]})
        client.close()
    return out


def test_sigkill_under_load(make_server):
    """0 acknowledged and lost, 0 doubled, 0 reordered, over all rounds; ready again in time."""
    server = make_server()
    world = load.World(server, SEED)
    scene = Scene(server, world)
    starts, alive = asyncio.run(kills(scene, ROUNDS))
    assert not world.faults, world.faults[:5]
    page_history(scene, world)
    stored, heads = store.read(server)
    by_api = {(l["room"], l["seq"]) for l in world.history if l.get("via") == "history"}
    in_file = {(r["room"], r["seq"]) for r in stored if r["kind"] == "message"}
    assert by_api == in_file
    online = {(u.id, room) for u in scene.members for room in scene.everywhere}
    found = checks.all_checks(world.history, stored, heads, starts=dict.fromkeys(online, 1),
                              online=online, alive=alive, counters=counters(scene))
    acknowledged = sum(1 for l in world.history if l["k"] == "send" and l["res"] == "ok")
    unknown = sum(1 for l in world.history if l["k"] == "send" and l["res"] == "info")
    moves = sum(1 for l in world.history if l["k"] == "member" and l["res"] == "ok")
    print(f"\nseed {SEED}: {ROUNDS} kills, {acknowledged} acknowledged, {unknown} unknown, "
          f"{moves} joins and leaves, {sum(1 for l in world.history if l['k'] == 'recv')} received, "
          f"ready after {max(starts, default=0):.2f} s at most")
    assert not found, f"seed {SEED}: {len(found)} violations:\n" + "\n".join(found[:20])
    # a run in which nothing happened proves nothing
    assert acknowledged >= 5 * ROUNDS and unknown >= ROUNDS // 3 and moves >= ROUNDS // 2
    assert sorted(starts)[len(starts) // 2] <= 1.0 * SLOWNESS
    done = server.cli("check")
    assert done.returncode == 0, done
    assert server.stop() == 0
    done = server.cli("check")
    assert done.returncode == 0, done


def test_retry_is_not_refused_by_its_own_commit(make_server):
    """The same nonce on two connections around a kill: one row, one seq, no conflict."""
    server = make_server()
    a, b = server.users(2)
    room = server.room(a, b)
    for round_ in range(3):
        client = server.chat(a, sample=True)
        client.batch([("message.send", {"room": room, "nonce": f"z{round_}-{i}", "text": f"z{i}"})
                      for i in range(40)])
        client.pump(0.02)
        server.restart()
        again = [server.chat(a, sample=True) for _ in range(2)]
        ids = [c.batch([("message.send", {"room": room, "nonce": f"z{round_}-{i}", "text": f"z{i}"})
                        for i in range(40)]) for c in again]
        first, second = ([c.answer(i)["seq"] for i in part] for c, part in zip(again, ids))
        assert first == second and len(set(first)) == 40
    stored, heads = store.read(server)
    assert not checks.k3_gapless(heads, stored)
    assert sum(r["kind"] == "message" for r in stored) == 120


@pytest.mark.usefixtures("faults")
@pytest.mark.parametrize("seed", [1])
def test_checks_go_red_on_a_build_that_lies(make_server, seed):
    """K16: acknowledging before the commit must be found by K1 (or K2, K8) under SIGKILL."""
    server = make_server(faults="ack_before_commit=1,commit_delay_ms=60")
    world = load.World(server, seed)
    Scene(server, world)

    async def kill_until_red():
        tasks = [asyncio.ensure_future(p.run()) for p in world.people]
        loop = asyncio.get_running_loop()
        try:
            for _ in range(10):
                await asyncio.sleep(world.random.uniform(0.3, 0.9))  # the moment of death: random
                await loop.run_in_executor(None, server.kill9)
                stored, _ = await loop.run_in_executor(None, store.read, server)
                red = checks.k1_durable(list(world.history), stored)
                red += checks.k8_view(list(world.history), stored, {})
                if red:
                    return red
                await loop.run_in_executor(None, server.start)
            return []
        finally:
            world.stopped = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    red = asyncio.run(kill_until_red())
    assert red, "ten kills of a server that lies and the checkers saw nothing"

"""K14 on the real process: under strace, every write that carries an `ok` or an event follows the
sync of its commit; and red where the build acknowledges early or does not sync (K16)."""

import shutil

import pytest

from parley import trace
from parley.wait import until

pytestmark = pytest.mark.slow


def traced(make_server, tmp_path, faults=None):
    """Sends alone and in bursts under strace: (the trace, the marks)."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    path = tmp_path / "trace"
    server = make_server(wrapper=[*trace.ARGS, str(path), "-e", trace.CALLS], faults=faults,
                         start=False)
    server.start(60)
    a, b = server.users(2)
    room = server.room(a, b)
    reader, source = server.chat(b, enter={room: 0}), server.chat(a, enter={room: 0})
    marks = []
    for n in range(30):  # alone, each for itself
        marks.append((f"mark-one-{n:04}-end", f"ack-one-{n:04}"))
    for marker, id in marks[:]:
        source.ops[id] = "message.send"
        source.post("message.send", id=id, room=room, nonce=id, text=marker)
        assert source.answer(id, 30)["ok"]
    burst = [(f"mark-many-{n:04}-end", f"ack-many-{n:04}") for n in range(60)]
    for marker, id in burst:
        source.post("message.send", id=id, room=room, nonce=id, text=marker)
    for _, id in burst:
        assert source.answer(id, 30)["ok"]
    marks += burst
    until(lambda: len(reader.texts(room)) == len(marks), 30, pump=[reader, source])
    reader.close()
    source.close()
    if faults:
        server.kill9()
    else:
        assert server.stop(30) == 0
    return path.read_text(errors="replace"), marks


def test_acks_follow_syncs(make_server, tmp_path):
    text, marks = traced(make_server, tmp_path)
    found = trace.k14_ack_after_sync(text, marks)
    assert not found, found[:10]


@pytest.mark.usefixtures("faults")
def test_red_without_sync(make_server, tmp_path):
    """K16: synchronous=OFF."""
    text, marks = traced(make_server, tmp_path, "sync_off=1")
    assert len(trace.k14_ack_after_sync(text, marks)) >= len(marks) // 2


@pytest.mark.usefixtures("faults")
def test_red_on_early_acks(make_server, tmp_path):
    """K16: acknowledged before committed."""
    text, marks = traced(make_server, tmp_path, "ack_before_commit=1,commit_delay_ms=5")
    assert len(trace.k14_ack_after_sync(text, marks)) >= len(marks) // 2

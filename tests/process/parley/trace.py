"""Reading an strace log for K14: what tells of a commit leaves only after that commit's sync.

Used by test_trace.py. Takes text, returns violations; starts nothing.

A message is followed by a marker in its text. Its commit is the write to the write-ahead log that
carries the marker, and the first sync of that log which begins after that write has returned. A
socket write that carries the marker's event, or the `ok` of its request id, must begin later than
that sync has returned.
"""

import re

ARGS = ["strace", "-f", "-y", "-s", "70000", "-o"]
CALLS = "trace=fdatasync,fsync,pwrite64,write,writev,sendmsg,sendto"

_START = re.compile(r"^(\d+)\s+(\w+)\((.*)$", re.S)
_RESUMED = re.compile(r"^(\d+)\s+<\.\.\. (\w+) resumed>(.*)$", re.S)
_FD = re.compile(r"^(-?\d+)<([^>]*)>")
SYNCS = ("fdatasync", "fsync")
SOCKETS = ("sendmsg", "sendto", "writev", "write")


class Call:
    """One system call: pid, name, fd's target, args (text), begun and ended as line numbers."""

    __slots__ = ("pid", "name", "target", "args", "begun", "ended", "failed")

    def __init__(self, pid, name, args, begun):
        self.pid, self.name, self.args, self.begun, self.ended = pid, name, args, begun, None
        match = _FD.match(args)
        self.target = match.group(2) if match else ""
        self.failed = False


def parse(text):
    """The calls of an strace -f -y log, in the order in which they began."""
    calls, pending = [], {}
    for number, line in enumerate(text.splitlines()):
        match = _RESUMED.match(line)
        if match:
            call = pending.pop((match.group(1), match.group(2)), None)
            if call is not None:
                call.ended, call.failed = number, "= -1 " in match.group(3)
            continue
        match = _START.match(line)
        if not match:
            continue
        call = Call(match.group(1), match.group(2), match.group(3), number)
        calls.append(call)
        if line.rstrip().endswith("<unfinished ...>"):
            pending[call.pid, call.name] = call
        else:
            call.ended, call.failed = number, "= -1 " in line[-60:]
    return calls


def k14_ack_after_sync(text, marks):
    """Violations. marks: [(marker in the message's text, id of its request)].

    A marker without any stored write or without any socket write is a violation too: a trace
    that shows nothing proves nothing.
    """
    calls = parse(text)
    logs = [c for c in calls if c.name in ("pwrite64", "write", "writev") and "-wal" in c.target]
    syncs = [c for c in calls if c.name in SYNCS and "-wal" in c.target and not c.failed]
    sends = [c for c in calls
             if c.name in SOCKETS and ("socket:" in c.target or "TCP" in c.target)]
    bad = []
    for marker, id in marks:
        stored = next((c for c in logs if marker in c.args and c.ended is not None), None)
        told = [c for c in sends if marker in c.args or f'\\"re\\":\\"{id}\\"' in c.args]
        if not told:
            bad.append(f"K14: {marker} was told to nobody in this trace")
            continue
        if stored is None:
            bad.append(f"K14: {marker} was told, its commit is not in the trace")
            continue
        sync = next((c for c in syncs if c.begun > stored.ended and c.ended is not None), None)
        if sync is None:
            bad.append(f"K14: {marker} was told, its commit was never synced")
            continue
        early = [c for c in told if c.begun < sync.ended]
        if early:
            what = "ok" if f'\\"re\\":\\"{id}\\"' in early[0].args else "event"
            bad.append(f"K14: {marker}: its {what} left (line {early[0].begun}) before its sync "
                       f"returned (line {sync.ended})")
    return bad

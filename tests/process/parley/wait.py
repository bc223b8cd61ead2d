"""Waiting with deadlines. Every wait of the process tests goes through here or a socket time-out.

A condition is polled, never slept for: the tests stay as quick as the server lets them be.
"""

import os
import selectors
import time



def _sanitized():
    """Whether the program under test is built with a sanitizer (it links its library)."""
    try:
        with open(os.environ.get("PARLEYD", ""), "rb") as file:
            head = file.read(1 << 20)
        return b"libasan.so" in head or b"libtsan.so" in head
    except OSError:
        return False


# Sanitized builds are several times slower and keep what was freed: deadlines are stretched, and
# bars on memory do not hold.
SANITIZED = _sanitized()
SLOWNESS = float(os.environ.get("PARLEY_SLOWNESS") or (4 if SANITIZED else 1))


class TimedOut(AssertionError):
    """A deadline passed before its condition held."""


class Deadline:
    """A point in monotonic time, `seconds` from now (stretched by PARLEY_SLOWNESS)."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds * SLOWNESS

    def left(self):
        """Seconds left, never below 0."""
        return max(0.0, self.end - time.monotonic())

    def passed(self):
        return time.monotonic() >= self.end


def until(condition, timeout=10.0, what="", every=0.01, pump=()):
    """Return the first true value of condition(), polled until `timeout` seconds have passed.

    `pump` lists clients whose sockets are read meanwhile. Raises TimedOut naming `what`.
    """
    deadline = Deadline(timeout)
    while True:
        value = condition()
        if value:
            return value
        if deadline.passed():
            text = what() if callable(what) else what
            raise TimedOut(f"not within {timeout} s: {text or condition}")
        if pump:
            pump_all(pump, min(max(every, 0.05), deadline.left() or 0.001))
        else:
            time.sleep(min(every, deadline.left() or 0.001))


def pump_all(clients, timeout):
    """Read once from whichever of the clients has something; wait at most `timeout` seconds."""
    with selectors.DefaultSelector() as selector:
        live = 0
        for client in clients:
            if client.sock is not None and client.ended is None:
                selector.register(client.sock, selectors.EVENT_READ, client)
                live += 1
        if not live:
            time.sleep(min(timeout, 0.02))
            return
        for key, _ in selector.select(timeout):
            key.data.pump(0)


def keep(condition, seconds, pump=(), what=""):
    """Assert that condition() stays true for `seconds`, reading the clients in `pump` meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"did not stay true: {what or condition}"
        if pump:
            pump_all(pump, min(0.05, max(0.0, end - time.monotonic())))
        else:
            time.sleep(0.01)
    assert condition(), f"did not stay true: {what or condition}"

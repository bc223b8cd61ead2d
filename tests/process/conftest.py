"""Fixtures of the process tests: servers, one per module where possible, and what is looked at
after every test: the clients' own findings, and that a fresh connection still works.

Settings by environment: PARLEYD (the program), PARLEYD_FAULTS (one with fault injection, where
PARLEYD has none; build/debug/parleyd else), PARLEY_RECORD (a folder for every frame),
PARLEY_KEEP (keep data folders), PARLEY_SLOWNESS (stretch deadlines), CI.
"""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True

from parley import chat as chat_module  # noqa: E402
from parley import server as server_module  # noqa: E402
from parley.server import BINARY, Server  # noqa: E402
from parley.wait import SANITIZED, until  # noqa: E402

# Limits out of the way of tests that are not about them.
ROOMY = {"limits.messages_per_s": 100000, "limits.messages_burst": 100000}


def need_binary():
    if not os.access(BINARY, os.X_OK):
        message = f"{BINARY} is missing: build it or set PARLEYD"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="session")
def binary():
    """The path of parleyd; skips (under CI: fails) where it is not built."""
    need_binary()
    return BINARY


@pytest.fixture(scope="session")
def faults(binary):
    """Skips (under CI: fails) where the binary has no fault injection."""
    if server_module.faulty_binary() is None:
        message = f"neither {BINARY} nor build/debug/parleyd was built with -DPARLEY_FAULTS=ON"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="module")
def make_server(binary):
    """make_server(sets={...}, ...) -> a started Server; all are stopped and checked at the end."""
    made = []

    def make(start=True, roomy=True, **options):
        sets = dict(ROOMY if roomy else {})
        sets.update(options.pop("sets", None) or {})
        server = Server(sets=sets, **options)
        made.append(server)
        return server.start() if start else server

    yield make
    close_clients()
    errors = []
    for server in made:
        try:
            if server.process is not None:
                server.finish()
        except AssertionError as error:
            errors.append(str(error))
    assert not errors, "\n".join(errors)


@pytest.fixture(scope="module")
def server(make_server, request):
    """The module's server, made with the module's SETS. At the end its sessions are gone and its
    memory is back near where it began."""
    server = make_server(sets=getattr(request.module, "SETS", None))
    base = server.rss()
    yield server
    close_clients()
    if not server.alive():
        return
    until(lambda: not server.admin.get("/admin/sessions").json["sessions"], 10,
          "the last sessions are gone")
    if not SANITIZED:
        until(lambda: server.rss() <= base + 64 * 1024, 10,
              lambda: f"memory is back: {base} KiB at the start, {server.rss()} KiB now")


def close_clients():
    for client in list(chat_module.OPEN):
        client.abort()


@pytest.fixture(autouse=True)
def clients_are_clean():
    """After each test: no client saw a hole, a repeat or a broken frame; all are closed."""
    chat_module.OPEN.clear()
    yield
    faults = [f for client in list(chat_module.OPEN) for f in client.faults]
    close_clients()
    chat_module.OPEN.clear()
    assert not faults, "\n".join(faults)


@pytest.fixture
def alive(server):
    """Call it after a hostile case: a fresh connection must work on both doors."""
    def check(which=server):
        user = which.user()
        client = which.chat(user)
        client.fence()
        client.close()
        assert which.probe("/livez") == 200
    return check

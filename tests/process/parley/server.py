"""A parleyd process of a test: start, kill, restart, its ports, secrets, log and memory.

Used by the fixtures of conftest.py and by the crash rounds. At the end it looks into the log:
an error line that no test allowed, or a sanitizer's report, fails the test.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

from . import metrics, tokens
from .chat import Chat
from .http import Api
from .wait import Deadline, TimedOut, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = os.environ.get("PARLEYD") or str(ROOT / "build" / "release" / "parleyd")
SANITIZED = re.compile(r"(Address|Thread|Leak|Memory|UndefinedBehavior)Sanitizer|runtime error:")
CLK = os.sysconf("SC_CLK_TCK")

# A child must not talk to a proxy, nor take settings from the developer's own environment.
_ENV = {k: v for k, v in os.environ.items()
        if not k.startswith("PARLEY_") and "proxy" not in k.lower()}


def run(*args, timeout=30.0, env=None, input=None, binary=None):
    """Run `parleyd ARGS` to its end; a CompletedProcess with text output."""
    return subprocess.run([binary or BINARY, *args], capture_output=True, text=True, input=input,
                          timeout=timeout, env={**_ENV, **(env or {})})


_faulty = None


def faulty_binary():
    """A parleyd with fault injection (its `version` says so): PARLEYD itself, PARLEYD_FAULTS, or
    the one of build/debug. None where there is none."""
    global _faulty
    if _faulty is None:
        named = [BINARY, os.environ.get("PARLEYD_FAULTS"), str(ROOT / "build" / "debug" / "parleyd")]
        _faulty = next((b for b in named if b and os.access(b, os.X_OK)
                        and "faults: on" in run("version", binary=b).stdout), "")
    return _faulty or None


class User:
    """A user of a test: id, name, token."""

    def __init__(self, server, id, token, name):
        self.server, self.id, self.token, self.name = server, id, token, name

    def chat(self, **hello):
        """A session of this user."""
        return self.server.chat(self, **hello)

    @property
    def api(self):
        return Api(self.server.address, self.token)

    def __repr__(self):
        return self.id


class Server:
    """One parleyd on random ports and a data folder.

    sets: {key: value} given as --set. faults: text for PARLEY_FAULTS (of a binary that has them). wrapper: words put before
    the command (strace). config: text of a TOML file.
    """

    def __init__(self, data=None, *, sets=None, args=(), env=None, faults=None, wrapper=(),
                 config=None, binary=None):
        self.owned = data is None
        self.data = pathlib.Path(data or tempfile.mkdtemp(prefix="parley-test-"))
        self.sets, self.args = dict(sets or {}), list(args)
        self.env = dict(env or {})
        if faults:
            self.env["PARLEY_FAULTS"] = faults
        self.wrapper = list(wrapper)
        self.binary = binary or (faulty_binary() if faults else None) or BINARY
        self.errors = self.data.parent / (self.data.name + ".log")
        self.stdout = self.data.parent / (self.data.name + ".out")
        self.allowed = []
        self.process = None
        self.address = self.admin_address = None
        self.count = 0
        self.config = config

    # life

    def command(self):
        words = [*self.wrapper, self.binary, "serve", "--data", str(self.data),
                 "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        if self.config is not None:
            path = self.data / "parley.toml"
            path.write_text(self.config)
            words += ["--config", str(path)]
        for key, value in self.sets.items():
            words += ["--set", f"{key}={value}"]
        return words + self.args

    def spawn(self):
        """Start the process without waiting for it."""
        assert self.process is None or self.process.poll() is not None
        self.data.mkdir(parents=True, exist_ok=True)
        self.ports = self.data / "parleyd.ports"
        self.ports.unlink(missing_ok=True)
        with open(self.errors, "ab") as err, open(self.stdout, "ab") as out:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, env={**_ENV, **self.env})
        return self

    def start(self, timeout=20.0):
        """Start, and wait until /readyz says that it is ready."""
        self.spawn()
        return self.wait_ready(timeout)

    def wait_ready(self, timeout=20.0):
        deadline = Deadline(timeout)

        def ports():
            if self.process.poll() is not None:
                raise AssertionError(f"parleyd ended with {self.process.returncode}: {self.tail()}")
            try:
                text = self.ports.read_text()
            except OSError:
                return None
            found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            return found if {"listen", "admin"} <= set(found) and text.endswith("\n") else None

        found = until(ports, timeout, lambda: f"parleyd.ports; log: {self.tail()}", every=0.002)
        self.host, self.admin_host = found["listen"], found["admin"]
        self.address = self._split(self.host)
        self.admin_address = self._split(self.admin_host)
        until(lambda: self.probe("/readyz") == 200, max(1.0, deadline.left()), "readyz", every=0.002)
        return self

    @staticmethod
    def _split(text):
        host, _, port = text.rpartition(":")
        return host.strip("[]"), int(port)

    def probe(self, path):
        """The status of an unauthenticated GET on the main port; 0 where none came."""
        try:
            with urllib.request.urlopen(f"http://{self.host}{path}", timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    @property
    def pid(self):
        """The server's own pid, also under a wrapper."""
        if not self.wrapper:
            return self.process.pid
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(children.read_text().split()[0])

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill9(self):
        """SIGKILL, and wait for the end."""
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
            self.process.wait(10)

    def signal(self, number):
        os.kill(self.pid, number)

    def stop(self, timeout=12.0):
        """SIGTERM and wait; returns the exit code."""
        if self.alive():
            self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout=12.0):
        try:
            return self.process.wait(Deadline(timeout).left())
        except subprocess.TimeoutExpired:
            raise TimedOut(f"parleyd still runs {timeout} s later: {self.tail()}") from None

    def restart(self, how="kill9", timeout=20.0):
        """End it ("kill9" or "stop") and start it again on the same data."""
        if how == "kill9":
            self.kill9()
        else:
            assert self.stop() == 0
        return self.start(timeout)

    def finish(self):
        """Stop, check the log, give the files back. For fixtures."""
        try:
            if self.alive():
                code = self.stop(15.0)
                assert code == 0, f"exit code {code} on SIGTERM: {self.tail()}"
            self.check_log()
        finally:
            if self.alive():
                self.process.kill()
                self.process.wait(10)
            if self.owned and not os.environ.get("PARLEY_KEEP"):
                shutil.rmtree(self.data, ignore_errors=True)
                self.errors.unlink(missing_ok=True)
                self.stdout.unlink(missing_ok=True)

    # log

    def text(self):
        try:
            return self.errors.read_text(errors="replace")
        except OSError:
            return ""

    def tail(self, lines=12):
        return "\n".join(self.text().splitlines()[-lines:])

    def log(self):
        """Every log line as a dict; a line that is no JSON as {"text": line}."""
        out = []
        for line in self.text().splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                value = {"text": line}
            out.append(value if isinstance(value, dict) else {"text": line})
        return out

    def allow(self, pattern):
        """Error lines that match this pattern are expected by the test."""
        self.allowed.append(re.compile(pattern))

    def check_log(self):
        for line in self.text().splitlines():
            assert not SANITIZED.search(line), f"sanitizer report:\n{self.text()[-6000:]}"
            if any(p.search(line) for p in self.allowed):
                continue
            try:
                entry = json.loads(line)
            except ValueError:
                raise AssertionError(f"log line is not JSON: {line!r}") from None
            assert {"level", "at", "component"} <= set(entry), f"log line lacks fields: {line}"
            assert str(entry["level"]).lower() not in ("error", "critical", "fatal"), line

    # the process from outside

    def rss(self):
        """Resident memory in KiB."""
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1))

    def sockets(self):
        """How many sockets it holds."""
        count = 0
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                count += os.readlink(f"/proc/{self.pid}/fd/{name}").startswith("socket:")
            except OSError:  # closed meanwhile
                pass
        return count

    def cpu(self):
        """CPU seconds used so far."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLK

    # people

    @property
    def key(self):
        """The signing key of its own tokens."""
        return bytes.fromhex((self.data / "secret.key").read_text().strip())

    @property
    def admin_token(self):
        return (self.data / "admin.token").read_text().strip()

    def cli_token(self, user):
        """What `parleyd token USER` prints."""
        done = run("token", user, "--data", str(self.data), env=self.env)
        assert done.returncode == 0, done
        assert done.stdout.count("\n") == 1, done.stdout
        return done.stdout.strip()

    def user(self, name=None, ttl_s=None):
        """A user (made where missing) with a token of its own, through the admin listener."""
        self.count += 1
        name = name or f"u{self.count}.{os.urandom(3).hex()}"
        body = {"user": name} if ttl_s is None else {"user": name, "ttl_s": ttl_s}
        answer = self.admin.post("/admin/tokens", body)
        assert answer.status in (200, 201), answer
        return User(self, answer.json["user"], answer.json["token"], name)

    def users(self, count, prefix="u"):
        return [self.user(f"{prefix}{i}.{os.urandom(3).hex()}") for i in range(count)]

    def forge(self, user, **claims):
        """A token for `user` signed with the server's key; `claims` override a good one's."""
        good = dict(tokens.decode(user.token)[1], jti=os.urandom(12).hex())
        good.update(claims)
        return tokens.sign({k: v for k, v in good.items() if v is not None}, self.key)

    def chat(self, user=None, **hello):
        """A WebSocket session; `user` is a User, a token, or None."""
        token = user.token if isinstance(user, User) else user
        return Chat.connect(self, token, **hello)

    def http(self, token=None, **options):
        return Api(self.address, token, **options)

    @property
    def admin(self):
        """The admin listener with the admin token; paths as they are."""
        return Api(self.admin_address, self.admin_token, prefix="")

    def metrics(self):
        answer = self.admin.get("/metrics")
        assert answer.status == 200, answer
        return metrics.parse(answer.body.decode())

    def cli(self, *args, **options):
        """parleyd ARGS --data DIR beside this server."""
        return run(*args, "--data", str(self.data), **options)

    # rooms

    def room(self, owner, *members, kind="private", name="room", **fields):
        """Make a room by HTTP; returns its id."""
        body = {"name": name, "kind": kind, **fields}
        if members:
            body["members"] = [m.id for m in members]
        answer = owner.api.post("/rooms", body)
        assert answer.status in (200, 201), answer
        return answer.json["room"]

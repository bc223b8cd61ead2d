"""Accounts, passwords, tokens, the administrator's door, secrets (hostile rows S115 to S132, S20;
behaviour row 105)."""

import json
import os
import shutil
import sqlite3
import statistics
import stat
import subprocess
import threading
import time
import unicodedata

import pytest

from parley import tokens
from parley.http import Api, HttpConnection
from parley.server import run
from parley.wait import SLOWNESS, keep, until
from parley.ws import Refused

SETS = {"limits.login_failures_per_address": 100000}
pytestmark = pytest.mark.quick
PASSWORD = "correct horse 9"


def register(server, name=None, password=PASSWORD, **more):
    name = name or "p" + os.urandom(5).hex()
    answer = server.http().post("/users", {"name": name, "password": password, **more})
    assert answer.status in (200, 201), answer
    return name, answer.json["user"]


def login(server, name, password=PASSWORD):
    return server.http().post("/login", {"name": name, "password": password})


def token_of(server, name, password=PASSWORD):
    answer = login(server, name, password)
    assert answer.status == 200, answer
    return answer.json["token"]


def test_register_login_me(server):
    name, user = register(server, display_name="Someone Ω")
    answer = login(server, name)
    assert set(answer.json) == {"user", "token", "expires_at"} and answer.json["user"] == user
    assert answer.json["expires_at"] > time.time() * 1000
    api = server.http(answer.json["token"])
    assert api.get("/me").json == {"user": user, "name": name, "display_name": "Someone Ω"}
    assert api.patch("/me", {"display_name": "Other"}).json["display_name"] == "Other"
    assert api.get("/me").json["display_name"] == "Other"
    client = server.chat(answer.json["token"])
    assert client.welcome["user"]["display_name"] == "Other"


def test_password_record(server):
    """S115"""
    name, _ = register(server)
    path = next(server.data.glob("*.db"))
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        dump = "\n".join(str(row) for row in db.execute("SELECT * FROM credentials"))
    found = dump[dump.index("$argon2id$"):].split("'")[0]
    parts = found.split("$")
    assert parts[2] == "v=19"
    cost = dict(p.split("=") for p in parts[3].split(","))
    assert int(cost["m"]) >= 19456 and int(cost["t"]) >= 2 and cost["p"] == "1"
    assert PASSWORD not in dump
    del name


def test_many_logins_at_once(make_server):
    """S116: hashing is bounded, the rest is refused at once, chat does not notice."""
    server = make_server(sets={"limits.hash_queue": 8, "limits.login_failures_per_account": 10000,
                               "limits.login_failures_per_address": 10000})
    name, _ = register(server)
    user = server.user()
    room = server.room(user)
    client = server.chat(user)
    client.send_message(room, "warm")
    statuses, lock = [], threading.Lock()

    def one():
        try:
            answer = login(server, name)
            with lock:
                statuses.append((answer.status, answer.header("retry-after")))
        except (OSError, EOFError, AssertionError) as error:
            with lock:
                statuses.append((repr(error), None))

    threads = [threading.Thread(target=one) for _ in range(120)]
    for thread in threads:
        thread.start()
    times = []
    while any(t.is_alive() for t in threads):
        t0 = time.monotonic()
        client.send_message(room, "meanwhile")
        times.append(time.monotonic() - t0)
    for thread in threads:
        thread.join(30)
    got = [s for s, _ in statuses]
    assert set(got) <= {200, 429, 503}, got
    assert got.count(200) >= 8 and got.count(503) + got.count(429) > 0
    assert all(int(after) >= 1 for s, after in statuses if s != 200)
    assert statistics.median(times) < 0.25 * SLOWNESS
    assert login(server, name).status == 200


def test_unknown_user_looks_like_a_wrong_password(make_server):
    """S118: the same body and the same time."""
    server = make_server(sets={"limits.login_failures_per_account": 10000,
                               "limits.login_failures_per_address": 10000})
    name, _ = register(server)

    def probe(who):
        t0 = time.perf_counter()
        answer = login(server, who, "wrong password")
        assert answer.status == 401
        return time.perf_counter() - t0, answer.body, sorted(k for k, _ in answer.headers)

    pairs = [(probe(name), probe("nobody" + os.urandom(4).hex())) for _ in range(15)]
    known = statistics.median(a[0] for a, _ in pairs)
    unknown = statistics.median(b[0] for _, b in pairs)
    assert all(a[1] == b[1] and a[2] == b[2] for a, b in pairs)
    assert 0.6 < known / unknown < 1.6, (known, unknown)


def test_guessing_is_slowed(make_server):
    """S119: ten per account, then 429 with Retry-After, also for the right one elsewhere."""
    server = make_server()
    name, _ = register(server)
    other, _ = register(server)
    for _ in range(10):
        assert login(server, name, "wrong password").status == 401
    answer = login(server, name, "wrong password")
    assert answer.status == 429 and answer.code == "rate_limited"
    assert int(answer.header("retry-after")) >= 1 and answer.json["retry_after_ms"] > 0
    assert login(server, name).status == 429
    assert login(server, other).status == 200
    assert login(server, name.upper(), "wrong password").status == 429


def test_guessing_over_many_accounts(make_server):
    """S119: a hundred (here six) per address."""
    server = make_server(sets={"limits.login_failures_per_address": 6})
    name, _ = register(server)
    for i in range(6):
        assert login(server, f"someone{i}", "wrong password").status == 401
    assert login(server, name).status == 429


def test_known_device_is_let_in(make_server):
    """S119: who has logged in from a device before is not locked out by others' guesses."""
    server = make_server(sets={"server.trusted_proxies": "127.0.0.1"})
    name, _ = register(server)
    with HttpConnection(server.address) as device:
        body = {"name": name, "password": PASSWORD}
        mine, theirs = [("X-Forwarded-For", "203.0.113.5")], [("X-Forwarded-For", "198.51.100.7")]
        first = device.request("POST", "/api/v1/login", body, mine)
        assert first.status == 200
        kept = [(k, v) for k, v in first.headers if k.startswith("parley-device")]
        for _ in range(12):
            device.request("POST", "/api/v1/login", {**body, "password": "wrong password"}, theirs)
        assert device.request("POST", "/api/v1/login", body, theirs).status == 429
        assert kept
        forged = [(kept[0][0], kept[0][1][::-1])]
        assert device.request("POST", "/api/v1/login", body, theirs + forged).status == 429
        assert device.request("POST", "/api/v1/login", body, theirs + kept).status == 200


# tokens

def dead(server, token):
    """The token opens nothing: neither HTTP nor a session."""
    answer = server.http(token).get("/me")
    if len(token) < 8000:
        assert answer.status == 401 and answer.code == "unauthenticated", answer
    else:
        assert answer.status == 431, answer
    try:
        client = server.chat(token, hello=False)
        client.post("hello", token=token)
        client.wait_closed(4001)
        assert not any(f.get("ok") for f in client.log)
    except Refused as answer:
        assert answer.status == 401


def good(server, token):
    assert server.http(token).get("/me").status == 200


FORGED = {
    "S120 none": dict(header={"alg": "none"}, signature=b""),
    "S120 None": dict(header={"alg": "None"}, signature=b""),
    "S120 nOnE": dict(header={"alg": "nOnE", "typ": "JWT"}, signature=b""),
    "S120 empty signature": dict(signature=b""),
    "S120 short signature": dict(signature=b"x"),
    "S120 zeros": dict(signature=bytes(32)),
    "other alg": dict(alg="HS512"),
    "no alg": dict(header={"typ": "JWT"}),
    "alg a number": dict(header={"alg": 5}),
    "alg RS256": dict(header={"alg": "RS256"}),
    "alg EdDSA": dict(header={"alg": "EdDSA"}),
    "crit": dict(header={"alg": "HS256", "crit": ["x"], "x": 1}),
    "jwk of its own": dict(header={"alg": "none", "jwk": {"kty": "oct", "k": "AA"}}, signature=b""),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_headers(server, name, alive):
    user = server.user()
    claims = tokens.decode(user.token)[1]
    dead(server, tokens.sign(claims, server.key, **FORGED[name]))
    alive()


@pytest.mark.parametrize("key", [b"", b"\0" * 32, b"secret", b"parley"])
def test_guessed_keys(server, key):
    user = server.user()
    claims = tokens.decode(user.token)[1]
    for kid in (None, "../../dev/null", "' OR 1=1", "/dev/null"):  # S122
        header = {"alg": "HS256"} if kid is None else {"alg": "HS256", "kid": kid}
        dead(server, tokens.sign(claims, key, header=header))
    hex_key = (server.data / "secret.key").read_text().strip().encode()
    assert hex_key != server.key
    dead(server, tokens.sign(claims, hex_key))


def test_absurd_kid(server):
    user = server.user()
    dead(server, tokens.sign(tokens.decode(user.token)[1], b"",
                             header={"alg": "HS256", "kid": "k" * 10000}))


NOW = time.time
CLAIMS = {
    "S124 expired": lambda: {"exp": int(NOW()) - 1},
    "S124 expires now": lambda: {"exp": int(NOW())},
    "S124 no exp": lambda: {"exp": None},
    "S124 exp a string": lambda: {"exp": str(int(NOW()) + 600)},
    "S124 exp 1e300": lambda: {"exp": 1e300},
    "S124 exp negative": lambda: {"exp": -5},
    "S124 nbf ahead": lambda: {"nbf": int(NOW()) + 120},
    "S124 iat ahead": lambda: {"iat": int(NOW()) + 120},
    "S124 nbf a string": lambda: {"nbf": "x"},
    "S125 other iss": lambda: {"iss": "evil"},
    "S125 no iss": lambda: {"iss": None},
    "no sub": lambda: {"sub": None},
    "empty sub": lambda: {"sub": ""},
    "sub a number": lambda: {"sub": 5},
    "strange sub": lambda: {"sub": "a b/../c"},
    "other generation": lambda: {"gen": 99},
    "no generation": lambda: {"gen": None},
    "no jti": lambda: {"jti": None},
}


@pytest.mark.parametrize("name", CLAIMS)
def test_bad_claims(server, name):
    user = server.user()
    dead(server, server.forge(user, **CLAIMS[name]()))


def test_skew_that_is_allowed(server):
    user = server.user()
    good(server, server.forge(user, nbf=int(NOW()) + 40, iat=int(NOW()) + 40))
    good(server, server.forge(user, unknown={"x": [1]}))


def test_tampered_payload(server):
    a, b = server.users(2)
    head, _, signature = a.token.split(".")
    dead(server, f"{head}.{b.token.split('.')[1]}.{signature}")
    dead(server, a.token + "x")
    dead(server, a.token[:-2])
    dead(server, "." + a.token)
    claims = json.dumps(tokens.decode(a.token)[1])
    twice = claims[:-1] + f', "sub": "{b.id}"}}'
    dead(server, tokens.sign(None, server.key, raw_claims=twice.encode()))


@pytest.fixture(scope="module")
def issuer(tmp_path_factory):
    """An RSA key pair of another application: (folder, sign(claims) -> RS256 token)."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("issuer")
    for words in (["genrsa", "-out", "private.pem", "2048"],
                  ["rsa", "-in", "private.pem", "-pubout", "-out", "public.pem"]):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    def sign(claims, header=None):
        head = tokens.b64(json.dumps(header or {"alg": "RS256"}).encode())
        text = f"{head}.{tokens.b64(json.dumps(claims).encode())}"
        done = subprocess.run(["openssl", "dgst", "-sha256", "-sign", "private.pem"], cwd=folder,
                              input=text.encode(), capture_output=True, check=True)
        return f"{text}.{tokens.b64(done.stdout)}"

    return folder, sign


def test_foreign_issuer(make_server, issuer):
    """S121, S125: an application's tokens count, with the algorithm pinned to its key."""
    folder, sign = issuer
    server = make_server(sets={"tokens.issuer": "https://app.example", "tokens.audience": "chat",
                               "tokens.key_file": str(folder / "public.pem")})
    base = {"iss": "https://app.example", "aud": "chat", "sub": "app-user-1",
            "exp": int(NOW()) + 600, "iat": int(NOW())}
    token = sign(base)
    good(server, token)
    assert server.http(token).get("/me").json["user"] == "app-user-1"
    client = server.chat(token)
    assert client.welcome["user"]["user"] == "app-user-1"
    good(server, sign({**base, "aud": ["other", "chat"]}))
    good(server, server.user().token)
    for change in ({"aud": "other"}, {"aud": ["a", "b"]}, {"aud": None}, {"aud": []},
                   {"iss": "https://evil.example"}, {"iss": "parley"}, {"exp": int(NOW()) - 1},
                   {"exp": None}, {"nbf": int(NOW()) + 120}, {"sub": None}):
        claims = {k: v for k, v in {**base, **change}.items() if v is not None}
        dead(server, sign(claims))
    public = (folder / "public.pem").read_bytes()
    dead(server, tokens.sign(base, public))  # S121
    dead(server, tokens.sign(base, public.strip()))
    dead(server, tokens.sign(base, server.key))  # its issuer, our key
    own = tokens.decode(server.user().token)[1]
    dead(server, sign(own))  # our issuer, its key


def test_tokens_are_not_stored_nor_guessable(server):
    """S127"""
    name, _ = register(server)
    made = [token_of(server, name) for _ in range(3)]
    ids = {tokens.decode(t)[1]["jti"] for t in made}
    assert len(ids) == 3 and all(len(i) >= 16 for i in ids)
    path = next(server.data.glob("*.db"))
    for file in server.data.glob(path.name + "*"):
        data = file.read_bytes()
        assert not any(t.split(".")[2].encode() in data for t in made)
        assert server.key not in data and server.key.hex().encode() not in data


def test_logout(server):
    """S128: gone everywhere before it is answered; other tokens of the user go on."""
    name, _ = register(server)
    token, other = token_of(server, name), token_of(server, name)
    a, b = server.chat(token), server.chat(other)
    assert server.http(token).post("/logout").status in (200, 204)
    a.wait_closed(4001, 1.0)
    dead(server, token)
    b.fence()
    good(server, other)


def test_renew(server):
    name, user = register(server)
    token = token_of(server, name)
    answer = server.http(token).post("/token")
    assert answer.status == 200 and answer.json["token"] != token
    good(server, answer.json["token"])
    client = server.chat(token)
    assert client.request("token.renew", token=answer.json["token"])["expires_at"] == \
        answer.json["expires_at"]


def test_events_end_with_the_logout(server):
    """105, S20: no event committed after the answer reaches the closed sockets."""
    name, user = register(server)
    token = token_of(server, name)
    me = Api(server.address, token)
    other = server.user()
    room = server.room(other, kind="public")
    me.put(f"/rooms/{room}/members/{user}", {})
    clients = [server.chat(token, enter={room: 0}) for _ in range(3)]
    source = server.chat(other)
    first = source.send_message(room, "before")["seq"]
    for client in clients:
        client.wait_seq(room, first)
    assert me.post("/logout").status in (200, 204)
    after = source.send_message(room, "after")["seq"]
    for client in clients:
        assert client.wait_closed(4001, 1.0)
        assert after not in client.seqs(room)


def test_change_password(server):
    """S20: ends the other sessions; the answer's token goes on."""
    name, _ = register(server)
    token, other = token_of(server, name), token_of(server, name)
    client = server.chat(other)
    api = server.http(token)
    assert api.put("/password", {"password": "wrong one 1",
                                 "new_password": "another 123"}).status in (401, 403)
    client.fence()
    answer = api.put("/password", {"password": PASSWORD, "new_password": "another 123"})
    assert answer.status == 200, answer
    client.wait_closed(4001, 1.0)
    dead(server, other)
    good(server, answer.json["token"])
    assert login(server, name).status == 401
    assert login(server, name, "another 123").status == 200


@pytest.mark.parametrize("password", ["", "short", "x" * 1025, "1234567", "ü" * 513, 5, None])
def test_bad_passwords(server, password):
    body = {"name": "q" + os.urandom(4).hex(), "password": password}
    answer = server.http().post("/users", body, hostile=True)
    assert answer.status in (400, 413), answer
    assert answer.code in ("bad_request", "too_large")
    assert str(password) not in answer.body.decode() or password in ("", None, 5)


def test_passwords_are_nfc(server):
    name, _ = register(server, password=unicodedata.normalize("NFD", "pässwörd é 1"))
    assert login(server, name, unicodedata.normalize("NFC", "pässwörd é 1")).status == 200
    name, _ = register(server, password="x" * 1024)
    assert login(server, name, "x" * 1024).status == 200
    assert login(server, name, "x" * 1023).status == 401


def test_names_are_unique_after_folding(server):
    name = "Straße" + os.urandom(3).hex()
    register(server, name=name)
    for same in (name, name.upper(), name.replace("ß", "ss"), name.replace("S", "ｓ", 1)):
        answer = server.http().post("/users", {"name": same, "password": PASSWORD})
        assert answer.status == 409 and answer.code == "conflict", (same, answer)
    assert login(server, name.lower()).status == 200


@pytest.mark.parametrize("name", ["admin", "Admin", "ALL", "here", "system", "ａｄｍｉｎ", "x" * 300])
def test_reserved_names(server, name):
    answer = server.http().post("/users", {"name": name, "password": PASSWORD}, hostile=True)
    assert answer.status in (400, 403, 409, 413), answer


def test_registration_modes(make_server):
    closed = make_server(sets={"accounts.registration": "closed"})
    answer = closed.http().post("/users", {"name": "someone", "password": PASSWORD})
    assert answer.status == 403 and answer.code == "forbidden"
    server = make_server(sets={"accounts.registration": "invitation"})
    for invitation in (None, "", "nonsense", "' OR 1=1"):
        body = {"name": "someone", "password": PASSWORD, "invitation": invitation}
        answer = server.http().post("/users", {k: v for k, v in body.items() if v is not None},
                                    hostile=True)
        assert answer.status in (400, 403), answer
    code = server.admin.post("/admin/invitations", {}).json["invitation"]
    register(server, "someone", invitation=code)
    answer = server.http().post("/users", {"name": "second", "password": PASSWORD,
                                           "invitation": code})  # S112: used up
    assert answer.status == 403, answer
    done = server.cli("user", "invite")
    assert done.returncode == 0, done
    register(server, "second", invitation=done.stdout.split()[-1])


def test_suspension(server):
    """105: sockets closed with 4003 before the answer, nothing after; 403 until it is lifted."""
    user, other = server.users(2)
    room = server.room(other, user)
    clients = [server.chat(user, enter={room: 0}) for _ in range(2)]
    source = server.chat(other)
    source.send_message(room, "before")
    answer = server.admin.post(f"/admin/users/{user.id}/suspend", {"reason": "noise"})
    assert answer.status == 200, answer
    after = source.send_message(room, "after")["seq"]
    for client in clients:
        client.wait_closed(4003, 1.0)
        assert after not in client.seqs(room)
    answer = user.api.get("/me")
    assert answer.status == 403 and answer.code == "suspended", answer
    client = server.chat(user, hello=False)
    client.post("hello", token=user.token)
    client.wait_closed(4003)
    assert server.admin.post(f"/admin/users/{user.id}/unsuspend", {}).status == 200
    assert user.api.get("/me").status == 200
    server.chat(user).fence()


def test_admin_sets_a_password(server):
    name, user = register(server)
    token = token_of(server, name)
    client = server.chat(token)
    assert server.admin.post(f"/admin/users/{user}/password",
                             {"password": "set by admin"}).status == 200
    client.wait_closed(4001, 1.0)
    dead(server, token)
    assert login(server, name, "set by admin").status == 200


def test_admin_users(server):
    made = server.admin.post("/admin/users", {"name": "made" + os.urandom(3).hex(),
                                              "user": "id." + os.urandom(4).hex()})
    assert made.status in (200, 201), made
    found = server.admin.get(f"/admin/users?q={made.json['name']}").json["users"]
    assert [u["user"] for u in found] == [made.json["user"]]
    answer = server.admin.post("/admin/users/u_nobody/suspend", {})
    assert answer.status == 404


# the administrator's door

ADMIN = ["/metrics", "/admin/actors", "/admin/rooms", "/admin/sessions", "/admin/storage",
         "/admin/users"]


@pytest.mark.parametrize("path", ADMIN)
def test_admin_needs_its_token(server, path):
    """S129"""
    user = server.user()
    for token in (None, "x", user.token, server.admin_token + "x", server.admin_token[:-1], ""):
        answer = Api(server.admin_address, token, prefix="").get(path)
        assert answer.status == 401, (token, answer)
    assert server.admin.get(path).status == 200
    answer = Api(server.address, server.admin_token, prefix="").get(path)
    assert answer.status == 404, "the main port serves it too"


@pytest.mark.parametrize("headers, status", [
    ([("Host", "evil.example")], {403, 421}), ([("Host", "evil.example:8081")], {403, 421}),
    ([("Origin", "https://evil.example")], {403}), ([("Origin", "null")], {403}),
])
def test_admin_host_and_origin(server, headers, status):
    """S129: neither rebinding nor a page in the administrator's browser gets in."""
    with HttpConnection(server.admin_address) as connection:
        answer = connection.request(
            "GET", "/admin/storage", headers=headers + [
                ("Authorization", f"Bearer {server.admin_token}")],
            omit={"host"} if headers[0][0] == "Host" else ())
        assert answer.status in status, answer


def test_admin_action_needs_json(server):
    with HttpConnection(server.admin_address) as connection:
        answer = connection.request("POST", "/admin/tokens", b'{"user":"x"}',
                                    [("Authorization", f"Bearer {server.admin_token}")],
                                    content_type="text/plain", hostile=True)
        assert answer.status == 415


def test_metrics_name_nobody(server):
    """S130: no ids, names or addresses as labels."""
    user = server.user()
    room = server.room(user, name="very special name")
    server.chat(user).send_message(room, "counted words")
    text = server.admin.get("/metrics").body.decode()
    for word in (user.id, room, "very special name", "counted words", user.token, "127.0.0.1",
                 server.admin_token, server.key.hex()):
        assert word not in text


def test_error_pages_tell_nothing(server):
    """S130"""
    for answer in (server.http(prefix="").get("/nowhere"), server.http().get("/debug"),
                   server.http().post("/login", b"{", hostile=True), server.admin.get("/debug"),
                   server.http(server.user().token).get("/rooms/x")):
        text = answer.body.decode()
        assert 400 <= answer.status < 500
        for word in (".cpp", ".hpp", "std::", "boost", "/build/", "0x", "SELECT ", "sqlite"):
            assert word not in text, text


def test_secret_files(server):
    """Mode 600, never in the log, neither what was told to it."""
    for name in ("secret.key", "admin.token"):
        mode = stat.S_IMODE(os.stat(server.data / name).st_mode)
        assert mode == 0o600, (name, oct(mode))
    assert len(server.key) == 32
    name, _ = register(server, password="never in the log 1")
    token = token_of(server, name, "never in the log 1")
    login(server, name, "nor a wrong one 1")
    server.chat(token)
    for text in (server.text(), server.stdout.read_text()):
        for word in (server.key.hex(), server.admin_token, token, "never in the log",
                     "nor a wrong one"):
            assert word not in text


def test_secrets_that_others_can_read(make_server):
    """S132: a warning, or no start; never silence."""
    server = make_server()
    server.stop()
    (server.data / "secret.key").chmod(0o644)
    before = len(server.text())
    server.allow(r"secret\.key")
    server.spawn()
    until(lambda: server.process.poll() is not None or (server.data / "parleyd.ports").exists(), 10)
    said = server.text()[before:]
    assert "secret.key" in said, said
    if server.alive():
        server.wait_ready()
        assert any(e.get("level") in ("warn", "warning") and "secret.key" in str(e)
                   for e in server.log())
    (server.data / "secret.key").chmod(0o600)


def test_password_of_the_database_is_masked(tmp_path):
    """S132: a secret in an address is not printed back."""
    done = run("config", "--data", str(tmp_path), "--db", "mysql://u:hunter2@127.0.0.1:1/x")
    assert "hunter2" not in done.stdout + done.stderr


def test_tokens_survive_restart_and_revocations_too(make_server):
    server = make_server()
    name, _ = register(server)
    kept, gone = token_of(server, name), token_of(server, name)
    server.http(gone).post("/logout")
    server.restart()
    good(server, kept)
    dead(server, gone)


def test_sessions_of_a_user_end_on_every_thread(server):
    """S20: many sockets of one user, all closed within a second."""
    name, user = register(server)
    token = token_of(server, name)
    clients = [server.chat(token) for _ in range(40)]
    begun = time.monotonic()
    assert server.http(token).post("/logout").status in (200, 204)
    for client in clients:
        client.wait_closed(4001, 2.0)
    assert time.monotonic() - begun < 2 * SLOWNESS
    keep(lambda: all(c.ended == 4001 for c in clients), 0.1)

"""JSON and text, on both doors: what is no JSON, what no text, what no name (hostile rows S73 to
S85, S90; behaviour rows 88, 90 to 92, 95)."""

import json
import sqlite3
import time
from urllib.parse import quote

import pytest

from parley import utf8
from parley.http import HttpConnection
from parley.wait import SLOWNESS, until

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def home(server):
    user = server.user()
    return user, server.room(user, name="home")


@pytest.fixture
def client(server, home):
    return server.chat(home[0], enter={home[1]: 0})


def both(server, home, client, text, code="bad_request"):
    """The JSON text is refused on the socket and over HTTP; both stay usable."""
    codes = {code} if isinstance(code, str) else set(code)
    mark = client.mark()
    client.raw(text)
    answer = client.answer_since(mark)
    assert "error" in answer and answer["error"]["code"] in codes, answer
    client.fence()
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    answer = post_raw(server, home, data)
    assert answer.status == 400 and answer.code in codes, answer


def post_raw(server, home, data):
    with HttpConnection(server.address) as connection:
        return connection.request("POST", f"/api/v1/rooms/{home[1]}/messages", data,
                                  [("Authorization", f"Bearer {home[0].token}")], hostile=True)


def send(room, text='"x"', **more):
    parts = [f'"op":"message.send","id":"s7","room":"{room}","nonce":"n","text":{text}']
    return "{" + ",".join(parts + [f'"{k}":{v}' for k, v in more.items()]) + "}"


def test_repeated_keys(server, home, client):
    """S73: never two readings."""
    other = server.room(home[0], name="other")
    both(server, home, client, f'{{"op":"message.send","id":"k1","room":"{other}","room":"{home[1]}",'
                               f'"nonce":"n","text":"x"}}', {"duplicate_key", "bad_request"})
    both(server, home, client, '{"op":"ping","id":"k2","x":{"a":1,"a":2},"text":"x","nonce":"n"}',
         {"duplicate_key", "bad_request"})
    both(server, home, client, '{"op":"ping","id":"k3","t\\u0065xt":"a","text":"x","nonce":"n"}',
         {"duplicate_key", "bad_request"})


def test_nesting(server, home, client):
    """S74: refused in little time; 32 levels are allowed, 33 are not (the outermost is 1)."""
    for text in ("[" * 32000, '{"a":' * 10000, "[" * 30000 + "]" * 30000):
        begun = time.monotonic()
        both(server, home, client, text)
        assert time.monotonic() - begun < 0.5 * SLOWNESS
    deep = lambda n: f'{{"op":"ping","id":"deep{n}","x":' + "[" * (n - 1) + "]" * (n - 1) + "}"
    client.ops["deep32"] = "ping"
    client.raw(deep(32), hostile=False)
    assert client.answer("deep32")["ok"]
    both(server, home, client, deep(33))


@pytest.mark.parametrize("text", [
    "NaN", "Infinity", "-Infinity", "{}x", "01", "'x'", '{"op":"ping","id":1,}', "{,}", "[1,]",
    '/* c */{"op":"ping","id":1}', '{"op":"ping","id":1}// c', '\ufeff{"op":"ping","id":1}',
    "{'op':'ping','id':1}", '{"op":"ping","id":01}', '{"op":"ping","id":1}{"op":"ping","id":2}',
    '{"op":"ping","id":.5}', '{"op":"ping","id":+1}', '{"op":"ping" "id":1}', '{"op":"pi\nng"}',
    '{"op":"ping","id":1', '{"op":"\\x41","id":1}', '{op:"ping","id":1}', "", " ", "true", "5",
    '"text"', "[]", "null", '{"op":"ping","id":1e999}', '{"op":"ping","id":NaN}', "\x00",
    '{"op":"ping","id":"\t"}', "[{}]",
])
def test_no_json_object(server, home, client, text):
    """S78, and whatever is JSON but no object: answered with re null, connection stays."""
    mark = client.mark()
    client.raw(text)
    answer = client.answer_since(mark)
    assert answer["re"] is None and answer["error"]["code"] == "bad_request", answer
    client.fence()
    answer = post_raw(server, home, text.encode())
    assert answer.status == 400 and answer.code == "bad_request", answer


@pytest.mark.parametrize("id", [None, 1.5, True, {}, [], 1e3, 10**30])
def test_unusable_id(client, id):
    mark = client.mark()
    client.raw(json.dumps({"op": "ping", "id": id}))
    answer = client.answer_since(mark)
    if answer.get("ok"):  # 1e3 and a very long integer may count as integers; then they come back
        assert id in (1e3, 10**30) and answer["re"] == id
    else:
        assert answer["re"] is None and answer["error"]["code"] == "bad_request"
    mark = client.mark()
    client.raw('{"op":"ping"}')
    assert client.answer_since(mark)["re"] is None


@pytest.mark.parametrize("id", ["", "x" * 200, "ü😀", 0, -5, 2**53 - 1, 'q"\\\n'])
def test_ids_come_back(client, id):
    client.ops[id] = "ping"
    client.raw(json.dumps({"op": "ping", "id": id}), hostile=False)
    answer = client.answer(id)
    assert answer["re"] == id and type(answer["re"]) is type(id)


WRONG = [
    ("message.send", "room", [None, 5, {}, [], True, ""]), ("message.send", "text", [None, 5, {}, []]),
    ("message.send", "nonce", [None, 5, {}, "", "x" * 65, "a b", "ä", "a.b", "a\0"]),
    ("message.send", "reply_to", ["1", -1, 0, 1.5, {}, 10**20]),
    ("message.read", "seq", [None, "1", -1, 1.5, {}, 10**20]),
    ("history", "limit", [0, -1, "x", 1.5, {}]), ("history", "before_seq", ["x", -1, 1.5, {}]),
    ("events", "after_seq", [None, "x", -1, 1.5]), ("room.enter", "after_seq", ["x", -1, 1.5, {}]),
    ("room.create", "kind", [None, "secret", 5, {}]), ("room.create", "members", [5, "x", [5], {}]),
    ("room.create", "name", [None, 5, {}, []]), ("users", "users", [None, "x", [5], {}]),
    ("room.invite", "user", [None, 5, {}, ""]),
]


@pytest.mark.parametrize("op, field, values", WRONG, ids=[f"{o}-{f}" for o, f, _ in WRONG])
def test_wrong_types(client, home, op, field, values):
    """S79: an error that names the field, and the connection stays."""
    good = {
        "message.send": {"room": home[1], "text": "x", "nonce": "w"},
        "message.read": {"room": home[1], "seq": 1}, "history": {"room": home[1]},
        "events": {"room": home[1], "after_seq": 0}, "room.enter": {"room": home[1]},
        "room.create": {"name": "x", "kind": "private"}, "users": {"users": []},
        "room.invite": {"room": home[1], "user": "u"},
    }[op]
    for value in values:
        answer = client.hostile(op, **{**good, field: value})
        assert "error" in answer, (value, answer)
        assert answer["error"]["code"] in ("bad_request", "not_found", "too_large"), answer
        if answer["error"]["code"] == "bad_request":
            assert field in answer["error"]["message"], answer
    if field not in ("reply_to", "limit", "before_seq", "members"):
        if (op, field) != ("room.enter", "after_seq"):
            missing = {k: v for k, v in good.items() if k != field}
            answer = client.hostile(op, **missing)
            assert answer["error"]["code"] == "bad_request" and field in answer["error"]["message"]
    client.fence()


def test_unknown_fields_and_ops(client, home):
    """S79, S80: unknown fields are ignored, also those that would bite a script."""
    client.request("ping", extra=1, __proto__={"x": 1}, constructor={}, nested={"deep": [1, 2]})
    for op in ("nonsense", "", "message.edit", "__proto__", "x" * 1000, 5, None, {}):
        assert client.hostile(op)["error"]["code"] == "bad_request"
    client.fence()


def test_many_keys_and_long_strings(server, home, client, alive):
    """S81: O(n), whatever the keys hash to."""
    keys = "{" + ",".join(f'"{i}":0' for i in range(6500)) + ',"op":"ping","id":"many"}'
    client.ops["many"] = "ping"
    begun = time.monotonic()
    client.raw(keys[:65536], hostile=False)
    assert client.answer("many")["ok"] and time.monotonic() - begun < 0.5 * SLOWNESS
    assert post_raw(server, home, b'{"text":"' + b"x" * 65000 + b'","nonce":"k"}').status in (400, 413)
    assert post_raw(server, home, b"{" + b'"a":0,' * 100000 + b"}").status == 413
    alive()


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u3164", "\u200b", "\u200c\u200d", "\u2060",
                                  "\u115f\u1160", "\u2800", "\uffa0", "\u00a0\u3000", "\ufeff",
                                  "\u202e\u202c", "\u3164 \u200b\n", "\u00ad", "\U000e0001"])
def test_blank_text(server, home, client, text):
    """S82: what shows nothing is refused."""
    answer = client.hostile("message.send", room=home[1], nonce="blank", text=text)
    assert answer["error"]["code"] == "bad_request", answer
    answer = home[0].api.post(f"/rooms/{home[1]}/messages", {"text": text, "nonce": "blank"},
                              hostile=True)
    assert answer.status == 400 and answer.code == "bad_request"


TEXTS = ["😀", "𠮷野家", "👨‍👩‍👧‍👦", "🇯🇵", "a\u202eb", "Z" + "\u0301" * 3000, "  spaces kept  ", "e\u0301 é",
         "<img src=x onerror=alert(1)>", "'; DROP TABLE messages;--", "' OR 1=1--", "%_\\", "\\n",
         "\"><script>alert(1)</script>", "{{7*7}} ${7*7}", "line\nline\r\nline", "\x7f\x01",
         "a\u2028\u2029b", "𓀀" * 4000, "\ufffe\uffff", "0\u3164", "ｱｲｳ ①"]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_text_is_kept(server, home, client, text):
    """88, S85, S90: byte for byte, in the event, the history, over HTTP and in the store."""
    user, room = home
    seq = client.send_message(room, text)["seq"]
    assert client.event("message.created", room=room, seq=seq)["text"] == text
    found = client.request("history", room=room, limit=1)["messages"][0]
    assert found["text"] == text and found["seq"] == seq
    answer = user.api.get(f"/rooms/{room}/messages?limit=1").json["messages"][0]
    assert answer["text"].encode() == text.encode()


def test_names_are_kept(server, home):
    """88, S85: room name, topic, display name."""
    user = server.user()
    client = server.chat(user)
    for name in ("😀 𠮷野家 🇯🇵", "<script>alert(1)</script>", "'; DROP TABLE rooms;--", "%", "👨‍👩‍👧‍👦",
                 "മലയാളം ന്\u200dറെ"):
        room = client.request("room.create", name=name, kind="private")["room"]
        assert user.api.get(f"/rooms/{room}").json["name"] == name
        client.request("room.change", room=room, topic=name)
        assert user.api.get(f"/rooms/{room}").json["topic"] == name
        assert user.api.patch("/me", {"display_name": name}).status == 200
        assert user.api.get("/me").json["display_name"] == name


def test_nul(server, home, client):
    """S76, 90: a fixed 4xx in text, names and ids; never a 5xx, never stored."""
    user, room = home
    text = 'a\\u0000b'
    client.raw(send(room, f'"{text}"'))
    assert client.answer("s7")["error"]["code"] == "bad_request"
    del client.answers["s7"]
    for field in ("name", "topic"):
        answer = client.hostile("room.change", room=room, **{field: "a\0b"})
        assert answer["error"]["code"] == "bad_request"
    answer = client.hostile("room.create", name="a\0b", kind="private")
    assert answer["error"]["code"] == "bad_request"
    answer = server.http().post("/users", {"name": "a\0b", "password": "long enough"}, hostile=True)
    assert answer.status == 400 and answer.code == "bad_request"
    answer = user.api.patch("/me", {"display_name": "a\0b"}, hostile=True)
    assert answer.status == 400
    answer = user.api.post(f"/rooms/{room}/messages", {"text": "a\0b", "nonce": "nul"}, hostile=True)
    assert answer.status == 400


@pytest.mark.parametrize("escape", ["\\ud800", "\\udc00", "\\ud800x", "\\udc00\\ud800", "\\ud83d"])
def test_lone_surrogates(server, home, client, escape):
    """91"""
    for body in (send(home[1], f'"{escape}"'), f'{{"op":"ping","id":"s7","{escape}":1,"text":"x"}}'):
        mark = client.mark()
        client.raw(body)
        answer = client.answer_since(mark)
        assert answer["error"]["code"] == "bad_request", answer
        client.answers.pop("s7", None)
    assert post_raw(server, home, f'{{"text":"{escape}","nonce":"s"}}'.encode()).status == 400


def test_bad_bytes_over_http(server, home):
    """91: the validator of bodies knows as much UTF-8 as that of frames."""
    for data in utf8.invalid():
        answer = post_raw(server, home, b'{"nonce":"b","text":"<' + data + b'>"}')
        assert answer.status == 400 and answer.code == "bad_request", data


def test_length_counts_code_points(make_server):
    """92, S83: one unit, said in the error; no cut in the middle of a character."""
    server = make_server(sets={"limits.text_code_points": 10})
    user = server.user()
    room = server.room(user)
    client = server.chat(user)
    assert client.welcome["limits"]["text_code_points"] == 10
    for text in ("😀" * 10, "1234567890", "e\u0301" * 5, "𠮷" * 10):
        client.send_message(room, text)
    for text in ("😀" * 11, "12345678901", "123456789👨‍👩‍👧‍👦", "e\u0301" * 5 + "x"):
        error = client.refused("message.send", "too_large", room=room, nonce="long", text=text)
        assert "10" in error["message"] and "code point" in error["message"]
    answer = user.api.post(f"/rooms/{room}/messages", {"text": "😀" * 11, "nonce": "x"})
    assert answer.status == 413 and answer.code == "too_large"


def test_default_length(server, home, client):
    client.send_message(home[1], "👨‍👩‍👧‍👦" * 571 + "x")  # 3,998
    client.send_message(home[1], "😀" * 4000)
    client.refused("message.send", "too_large", room=home[1], nonce="t4001", text="😀" * 4001)


def test_preview_is_cut_at_a_character(server):
    """6: a preview never ends in half a character."""
    a, b = server.users(2)
    room = server.room(a, b)
    client = server.chat(b)
    server.chat(a).send_message(room, "x" * 99 + "😀😀")
    told = client.event("room.updated", room=room)
    assert told["last"]["text"] == "x" * 99 + "😀"
    listed = next(r for r in server.chat(b).welcome["rooms"] if r["room"] == room)
    assert listed["last"]["text"] == "x" * 99 + "😀"


@pytest.mark.parametrize("name", ["\u200c", "\u202e", "\u200b\u200d", "\u3164", " ", "\u2800", "",
                                  "\t", "\u115f"])
def test_invisible_names(server, home, client, name):
    """95: a name of nothing visible is refused."""
    assert client.hostile("room.create", name=name,
                          kind="private")["error"]["code"] == "bad_request"
    assert client.hostile("room.change", room=home[1],
                          name=name)["error"]["code"] == "bad_request"
    answer = server.http().post("/users", {"name": name, "password": "long enough"}, hostile=True)
    assert answer.status == 400
    assert home[0].api.patch("/me", {"display_name": name}, hostile=True).status == 400


def test_bidi_in_a_name(server, home, client):
    """95: U+202E and text: refused as a name, or kept as it is; in messages kept."""
    answer = client.ask("room.create", name="\u202eabc", kind="private")
    if answer.get("ok"):
        assert home[0].api.get(f"/rooms/{answer['room']}").json["name"] == "\u202eabc"
    else:
        assert answer["error"]["code"] == "bad_request"
    seq = client.send_message(home[1], "\u202eabc")["seq"]
    assert client.event("message.created", room=home[1], seq=seq)["text"] == "\u202eabc"


NASTY = ["'; DROP TABLE messages;--", "' OR 1=1--", "%", "_", "\\", "\"", "a' UNION SELECT 1--",
         "../..", "0x41", "1;SELECT 1", "\u0027", "*"]


@pytest.mark.parametrize("value", NASTY, ids=range(len(NASTY)))
def test_injection(server, home, client, value):
    """S90: literal everywhere, and never a 5xx."""
    user, room = home
    for op, fields in [("room.enter", {"room": value}), ("history", {"room": value}),
                       ("room.join", {"room": value}), ("room.invite", {"room": room, "user": value}),
                       ("rooms", {"cursor": value}), ("message.send", {"room": room, "nonce": value,
                                                                      "text": "x"})]:
        answer = client.hostile(op, **fields)
        if op == "message.send" and value in ("_", "0x41"):
            assert answer["ok"]
            continue
        assert answer["error"]["code"] in ("bad_request", "not_found"), (op, answer)
    assert client.request("users", users=["a"])["users"] == []
    for path in (f"/rooms/{quote(value, safe='')}", f"/rooms?cursor={quote(value, safe='')}",
                 f"/rooms/{room}/messages?limit={quote(value, safe='')}",
                 f"/rooms/{room}/messages?before_seq={quote(value, safe='')}",
                 f"/rooms/{room}/members?cursor={quote(value, safe='')}",
                 f"/users?id={quote(value, safe='')}"):
        answer = user.api.get(path)
        assert answer.status in (200, 400, 404) and (answer.status != 200 or "users?" in path), (path, answer)
    answer = server.http().post("/login", {"name": value, "password": value + "xxxxxxxxx"})
    assert answer.status in (400, 401)


def test_cursors_are_opaque(server):
    """S90: another's cursor, or one that was changed, is refused or harmless."""
    a, b = server.users(2)
    for i in range(5):
        server.room(a, name=f"secret {i}")
    page = server.chat(a).request("rooms", limit=2)
    cursor = page["rooms_next"]
    client = server.chat(b)
    answer = client.ask("rooms", cursor=cursor)
    assert answer.get("rooms", []) == []
    for changed in (cursor[:-1], cursor + "x", cursor[::-1], cursor.swapcase()):
        answer = server.chat(a).ask("rooms", cursor=changed)
        if "error" in answer:
            assert answer["error"]["code"] == "bad_request"
        else:
            assert all(r["name"].startswith("secret") for r in answer["rooms"])


def test_store_is_whole_afterwards(server):
    """The tables still stand, and what is in them is sound."""
    path = next(server.data.glob("*.db"))
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    done = server.cli("check")
    assert done.returncode == 0, done
    until(lambda: server.probe("/readyz") == 200, 2)

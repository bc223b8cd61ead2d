// The page's modules that need no browser: words, links, the room log, the connection's rules.

import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';

// A copy beside a package.json that says what the browser knows anyway: these are ES modules (node 18).
const source = fileURLToPath(new URL('../../net/web/chat/', import.meta.url));
const copy = mkdtempSync(path.join(tmpdir(), 'parley-modules-'));
cpSync(source, copy, { recursive: true });
writeFileSync(path.join(copy, 'package.json'), '{"type":"module"}');
process.on('exit', () => rmSync(copy, { recursive: true, force: true }));
const web = pathToFileURL(`${copy}/`);
const { RoomLog } = await import(new URL('log.js', web));
const { Client, backoff, closeAction } = await import(new URL('client.js', web));
const { splitLinks, safeHref, isBlank, roomIdOf, codePoints } = await import(new URL('text.js', web));
const { WORDS, setLanguage, t, pickLanguage } = await import(new URL('i18n.js', web));

test('every language has every key, with the same values', () => {
  const keys = Object.keys(WORDS.en).sort();
  assert.ok(keys.length > 100);
  for (const [tag, words] of Object.entries(WORDS)) {
    assert.deepEqual(Object.keys(words).sort(), keys, tag);
    for (const key of keys) {
      // A plain key would hide the plural forms of the same name.
      assert.ok(!(key.endsWith('.other') && words[key.slice(0, -6)] !== undefined), `${tag} ${key} is hidden`);
      const slots = (s) => (s.match(/\{\w+\}/g) ?? []).sort();
      assert.deepEqual(slots(words[key]), slots(WORDS.en[key]), `${tag} ${key}`);
      assert.ok(words[key].trim(), `${tag} ${key} is empty`);
    }
  }
});

test('every key the page asks for exists, and every key is asked for', () => {
  const code = readdirSync(web).filter((f) => f.endsWith('.js') && !f.startsWith('lang_')).map((f) => readFileSync(new URL(f, web), 'utf8')).join('\n');
  const used = new Set([...code.matchAll(/\bt\(\s*'([\w.]+)'/g)].map((m) => m[1]));
  const known = (key) => WORDS.en[key] !== undefined || WORDS.en[`${key}.other`] !== undefined;
  for (const key of used) assert.ok(known(key), `no words for ${key}`);
  const quoted = new Set([...code.matchAll(/'([a-z]+(?:\.\w+)+)'/g)].map((m) => m[1]));
  const families = ['error.', 'members.role.', 'create.public', 'create.private'];
  for (const key of Object.keys(WORDS.en)) {
    const base = key.replace(/\.(one|other)$/, '');
    assert.ok(quoted.has(key) || quoted.has(base) || families.some((f) => key.startsWith(f)), `nobody uses ${key}`);
  }
});

test('values in sentences are isolated and cannot turn them', () => {
  setLanguage('en');
  const text = t('room.typing.1', { a: '\u202eevil\u2069' });
  assert.equal(text, '\u2068evil\u2069 is typing…');
  assert.equal(t('rooms.unread', { n: 1 }), '1 unread message');
  assert.equal(t('rooms.unread', { n: 1200 }), '1,200 unread messages');
  assert.equal(pickLanguage(['fr-FR', 'ko-KR', 'ja']), 'ko');
  assert.equal(pickLanguage(['fr']), 'en');
});

test('links: only http, https and mailto, to the letter', () => {
  const hrefs = (s) => splitLinks(s).filter((p) => p.href).map((p) => p.href);
  for (const s of [
    'javascript:alert(1)', 'JaVaScRiPt:\talert(1)', 'data:text/html,<script>alert(1)</script>', '//evil.example', 'vbscript:x',
    'xhttp://a.example', 'http://', 'https://:80', 'mailto:nobody', 'file:///etc/passwd', 'http:evil', 'java\nscript:alert(1)',
  ]) {
    assert.deepEqual(hrefs(s), [], s);
  }
  assert.equal(safeHref('javascript:alert(1)'), null);
  assert.deepEqual(hrefs('見てhttps://example.com/です。'), ['https://example.com/']);
  assert.deepEqual(hrefs('(see https://en.example/wiki/A_(b)).'), ['https://en.example/wiki/A_(b)']);
  assert.deepEqual(hrefs('HTTP://EXAMPLE.com/?a=1&b=2, mailto:a@b.example!'), ['http://example.com/?a=1&b=2', 'mailto:a@b.example']);
  for (const s of ['a https://x.example/b c', 'https://x.example', 'no', '', 'https://x.example\u202e/gnp.exe']) {
    assert.equal(splitLinks(s).map((p) => p.text).join(''), s);
  }
});

test('linking is linear: 64 KiB of the worst in at most 20 ms', () => {
  for (const unit of ['http://', '((', 'https://a.a/(', '*[(', 'http://a)', 'mailto:a@']) {
    const text = unit.repeat(Math.ceil(65536 / unit.length));
    // The best of five: others use the machine too.
    const times = Array.from({ length: 5 }, () => {
      const start = performance.now();
      splitLinks(text);
      return performance.now() - start;
    });
    const ms = Math.min(...times);
    assert.ok(ms <= 20, `${unit}: ${ms.toFixed(1)} ms`);
  }
});

test('blank texts, code points, room links', () => {
  for (const s of ['', '  \n', '\u200b\u2060', '\u3164', '\u2800 \uffa0', '\ufeff']) assert.ok(isBlank(s), JSON.stringify(s));
  for (const s of ['a', '.', '가', '👍']) assert.ok(!isBlank(s), s);
  assert.equal(codePoints('👍a\u0301'), 3);
  assert.equal(roomIdOf(' r_abc '), 'r_abc');
  assert.equal(roomIdOf('https://chat.example/#/room/r_abc'), 'r_abc');
  for (const s of ['', 'a b', 'https://chat.example/', '#/room/%zz', '#/room/a/b', 'x'.repeat(65)]) assert.equal(roomIdOf(s), null, s);
});

// ---- the room log

function random(seed) {
  let s = seed >>> 0;
  return () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return s / 2 ** 32;
  };
}

// A server's log of one room: messages, edits, deletions, joins.
function makeLog(rnd, n) {
  const events = [];
  const created = [];
  for (let seq = 1; seq <= n; seq++) {
    const r = rnd();
    const at = 1000 + seq;
    if (r < 0.6 || created.length === 0) {
      events.push({ ev: 'message.created', room: 'r', seq, at, sender: 'u', text: `m${seq}` });
      created.push(seq);
    } else if (r < 0.75) {
      events.push({ ev: 'message.updated', room: 'r', seq, at, target: created[Math.floor(rnd() * created.length)], text: `e${seq}` });
    } else if (r < 0.85) {
      events.push({ ev: 'message.deleted', room: 'r', seq, at, target: created[Math.floor(rnd() * created.length)] });
    } else {
      events.push({ ev: 'member.joined', room: 'r', seq, at, user: 'x' });
    }
  }
  return events;
}

function stateAt(events, seq) {
  const messages = new Map();
  for (const e of events.slice(0, seq)) {
    if (e.ev === 'message.created') messages.set(e.seq, { seq: e.seq, at: e.at, sender: e.sender, text: e.text });
    const m = messages.get(e.target);
    if (!m || m.deleted) continue;
    if (e.ev === 'message.updated') m.text = e.text;
    if (e.ev === 'message.deleted') Object.assign(m, { text: '', deleted: true });
  }
  return [...messages.values()];
}

test('the log: drops, doubles, late pages and changes in any mixture end in the server\'s state', () => {
  for (let seed = 1; seed <= 2000; seed++) {
    const rnd = random(seed);
    const n = 5 + Math.floor(rnd() * 60);
    // A deleted message is never edited by a real server.
    const events = makeLog(rnd, n).map((e, i, all) =>
      e.ev === 'message.updated' && all.slice(0, i).some((d) => d.ev === 'message.deleted' && d.target === e.target) ? { ...e, ev: 'member.joined', target: undefined } : e,
    );
    const start = Math.floor(rnd() * n);
    const log = new RoomLog();
    log.begin(start);
    const applied = [];
    const take = (ev) => {
      const out = log.feed(ev);
      if (out) applied.push(...out.map((e) => e.seq));
      return out;
    };
    const pages = [];
    const ask = (where) => {
      log.historyBegins();
      const asOf = Math.max(log.seq, Math.min(n, log.seq + Math.floor(rnd() * 4)));
      const all = stateAt(events, asOf);
      const first = log.messages[0]?.seq ?? Infinity;
      const pool = where === 'newest' ? all : all.filter((m) => m.seq < first);
      const messages = pool.slice(-5).map((m) => ({ ...m }));
      pages.push({ where, page: { messages, as_of: asOf, more: pool.length > messages.length } });
    };
    ask('newest');
    let next = start + 1;
    for (let step = 0; step < 400 && (next <= n || pages.length); step++) {
      const r = rnd();
      if (pages.length && r < 0.25) {
        const { where, page } = pages.shift();
        assert.ok(log.historyEnds(where, page));
        if (log.older && pages.length === 0 && log.messages.length && rnd() < 0.7) ask('older');
      } else if (next <= n) {
        if (r < 0.35) next = Math.min(n + 1, next + 1); // lost
        else if (r < 0.45 && next > 1) take(events[Math.floor(rnd() * (next - 1))]); // an old one again
        else take(events[next++ - 1]);
      }
    }
    for (const { where, page } of pages) log.historyEnds(where, page);
    // The tail is filled as the session does it: from where the log stands.
    while (log.seq < n) take(events[log.seq]);
    assert.deepEqual(applied, Array.from({ length: n - start }, (_, i) => start + 1 + i), `seed ${seed}`);
    const first = log.messages[0]?.seq ?? Infinity;
    const want = stateAt(events, n).filter((m) => m.seq >= first);
    assert.deepEqual(log.messages.map((m) => [m.seq, m.deleted ? '' : m.text]), want.map((m) => [m.seq, m.deleted ? '' : m.text]), `seed ${seed}`);
  }
});

test('the log: members.changed accounts for a range; a hole holds what follows', () => {
  const log = new RoomLog();
  log.begin(4);
  assert.deepEqual(log.feed({ ev: 'members.changed', room: 'r', from_seq: 5, seq: 9, joined: 5, left: 0 }).length, 1);
  assert.equal(log.seq, 9);
  assert.equal(log.feed({ ev: 'room.changed', room: 'r', seq: 12 }), null);
  assert.equal(log.feed({ ev: 'members.changed', room: 'r', from_seq: 11, seq: 11, joined: 1 }), null);
  assert.deepEqual(log.feed({ ev: 'room.changed', room: 'r', seq: 10 }).map((e) => e.seq), [10, 11, 12]);
  assert.deepEqual(log.feed({ ev: 'room.changed', room: 'r', seq: 11 }), []);
  assert.equal(log.duplicates, 1);
});

test('the log: what is far back is cut without a hole', () => {
  const log = new RoomLog();
  log.begin(0);
  for (let seq = 1; seq <= 100; seq++) log.feed({ ev: 'message.created', room: 'r', seq, at: seq, sender: 'u', text: `${seq}` });
  log.trimOld(40);
  assert.equal(log.messages[0].seq, 61);
  assert.ok(log.older);
  log.trimNew(10);
  assert.equal(log.tail, false);
  log.feed({ ev: 'message.created', room: 'r', seq: 101, at: 101, sender: 'u', text: '101' });
  assert.equal(log.messages.at(-1).seq, 70, 'a live message does not jump over what is not loaded');
  log.historyBegins();
  log.feed({ ev: 'message.created', room: 'r', seq: 102, at: 102, sender: 'u', text: '102' });
  const rest = Array.from({ length: 31 }, (_, i) => ({ seq: 71 + i, at: 71 + i, sender: 'u', text: `${71 + i}` }));
  log.historyEnds('newer', { messages: rest, as_of: 101, more: false });
  assert.deepEqual(log.messages.slice(-3).map((m) => m.seq), [100, 101, 102]);
});

// ---- the connection

class FakeSocket {
  static all = [];
  constructor(url, protocol) {
    Object.assign(this, { url, protocol, sent: [], open: false });
    FakeSocket.all.push(this);
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.closed = true;
  }
  say(frame) {
    this.onmessage({ data: JSON.stringify(frame) });
  }
}

function makeClient(random = () => 0.5) {
  FakeSocket.all = [];
  const seen = { states: [], events: [], hellos: 0, stopped: null };
  const client = new Client('ws://x/ws', {
    hello: () => ({ token: 't' }),
    onHello: () => { seen.hellos++; },
    onEvent: (e) => seen.events.push(e),
    onState: (s) => seen.states.push(s),
    onStop: (code) => { seen.stopped = code; },
  }, { WebSocketClass: FakeSocket, random });
  return { client, seen, last: () => FakeSocket.all.at(-1) };
}

async function goOnline({ client, last }) {
  client.start();
  last().onopen();
  const hello = last().sent[0];
  assert.equal(hello.op, 'hello');
  last().say({ re: hello.id, ok: true, epoch: 'e' });
  await sleep(0);
  assert.ok(client.online);
}

test('backoff: full jitter within 0.5 s .. 30 s ceilings', () => {
  assert.deepEqual([0, 1, 2, 6, 60].map((a) => backoff(a, () => 1)), [500, 1000, 2000, 30000, 30000]);
  assert.equal(backoff(60, () => 0), 0);
  const values = Array.from({ length: 2000 }, () => backoff(4));
  assert.ok(Math.max(...values) <= 8000 && Math.min(...values) < 800 && new Set(values).size > 500);
});

test('close codes: resume, wait, stop', () => {
  for (const c of [1001, 1006, 1011, 1012, 1013, 4008, 4009]) assert.equal(closeAction(c), 'resume', c);
  assert.equal(closeAction(4029), 'wait');
  for (const c of [1002, 1003, 1007, 1008, 1009, 4001, 4003]) assert.equal(closeAction(c), 'stop', c);
});

test('a lost connection comes back; what was under way is refused as lost', async () => {
  const it = makeClient(() => 0.01);
  await goOnline(it);
  const asked = it.client.request('ping');
  it.last().onclose({ code: 1006, reason: '' });
  await assert.rejects(asked, { code: 'lost' });
  assert.equal(it.client.state, 'waiting');
  await sleep(30);
  assert.equal(FakeSocket.all.length, 2);
  it.client.stop();
});

test('bye.retry_after_ms is obeyed, and 4029 waits long', async () => {
  const it = makeClient(() => 0.1);
  await goOnline(it);
  it.last().say({ ev: 'bye', code: 1001, reason: 'stopping', retry_after_ms: 7000 });
  it.last().onclose({ code: 1001, reason: '' });
  const wait = it.client.retryAt - Date.now();
  assert.ok(wait > 6900 && wait <= 7600, `${wait}`);
  it.client.stop();
  const other = makeClient(() => 0);
  await goOnline(other);
  other.last().onclose({ code: 4029, reason: '' });
  assert.ok(other.client.retryAt - Date.now() > 14_000);
  other.client.stop();
});

test('a stop code stops; a bad token too', async () => {
  for (const code of [1008, 4001, 4003]) {
    const it = makeClient(() => 0);
    await goOnline(it);
    it.last().onclose({ code, reason: '' });
    assert.equal(it.client.state, 'stopped');
    assert.equal(it.seen.stopped, code);
    await sleep(5);
    assert.equal(FakeSocket.all.length, 1);
  }
  const it = makeClient();
  it.client.start();
  it.last().onopen();
  it.last().say({ re: it.last().sent[0].id, error: { code: 'unauthenticated', message: 'expired' } });
  await sleep(0);
  assert.equal(it.seen.stopped, 4001);
});

test('silence: a ping after 20 s, another socket after 40 s', async (context) => {
  const it = makeClient(() => 0.5);
  const realNow = Date.now;
  const realSet = globalThis.setInterval;
  let now = realNow();
  let tick;
  Date.now = () => now;
  globalThis.setInterval = (f) => {
    tick = f;
    return 0;
  };
  context.after(() => {
    Date.now = realNow;
    globalThis.setInterval = realSet;
  });
  await goOnline(it);
  const pass = (seconds) => {
    for (let i = 0; i < seconds; i += 5) {
      now += 5000;
      tick();
    }
  };
  pass(20);
  assert.equal(it.last().sent.length, 1);
  pass(5);
  assert.equal(it.last().sent.at(-1).op, 'ping');
  it.last().say({ ev: 'sync', rooms: [] });
  pass(40);
  assert.equal(it.client.state, 'online', '40 s are not over');
  pass(5);
  assert.equal(it.client.state, 'waiting');
  assert.ok(FakeSocket.all[0].closed);
  it.client.stop();
});

// A connection that breaks, a server that is killed, frames that get lost: no hole, no double, nothing unsent.

import assert from 'node:assert/strict';
import test, { after, afterEach, before } from 'node:test';
import { Server, Socket, clean, deadline, enter, launch, leave, makeRoom, online, person, sendAll, shown, until, write } from './harness.js';

let server;
let browser;
let ann;
let bo;

before(async () => {
  server = await Server.start({ 'limits.messages_per_s': 100000, 'limits.messages_burst': 100000 });
  browser = await launch();
  ann = await server.account('ann', 'Ann');
  bo = await server.account('bo', 'Bo');
});
// A test that failed leaves its people behind; the next one must not meet them.
afterEach(() => leave(browser));
after(async () => {
  await browser?.close();
  await server?.stop();
});

// The whole history as the server has it: [seq, text].
async function truth(account, room) {
  const s = await Socket.open(server, account.token);
  const all = [];
  for (let before; ; before = all[0][0]) {
    const page = await s.request('history', { room, limit: 200, ...(before ? { before_seq: before } : {}) });
    all.unshift(...page.messages.map((m) => [m.seq, m.text]));
    if (!page.more) break;
  }
  s.close();
  return all;
}

const sameAs = async (page, want, what) => {
  try {
    await until(what, async () => JSON.stringify(await shown(page)) === JSON.stringify(want));
  } catch (error) {
    assert.deepEqual(await shown(page), want, what);
    throw error;
  }
};

// A page whose socket goes through the test: `wire.down` and `wire.up` see every frame ('drop' drops it, a
// string replaces it), `wire.cut()` ends the connection as a dead network does.
async function wired(account, room) {
  const page = await person(browser, server, { account });
  const wire = { down: null, up: null, sent: [], refuse: false, opened: 0 };
  await page.routeWebSocket(/\/ws$/, (ws) => {
    if (wire.refuse) {
      ws.close({ code: 1013 });
      return;
    }
    wire.opened++;
    const up = ws.connectToServer();
    wire.toPage = (frame) => ws.send(JSON.stringify(frame));
    wire.cut = (code = 1012) => ws.close({ code });
    ws.onMessage((m) => {
      const frame = JSON.parse(m);
      wire.sent.push(frame);
      if (wire.up?.(frame, wire) !== 'drop') up.send(m);
    });
    up.onMessage((m) => {
      const frame = JSON.parse(m);
      const act = wire.down?.(frame, wire);
      if (act !== 'drop') ws.send(act ?? m);
    });
  });
  await page.goto(`${server.url}/#/room/${room}`);
  await online(page);
  await page.waitForFunction(() => document.querySelector('.message, .between:not(:empty)') && !/Loading/.test(document.querySelector('.message-list').textContent));
  return { page, wire };
}

test('SIGKILL and restart, three times, people writing throughout: no hole, no double, nothing lost', async () => {
  const room = await makeRoom(server, ann, 'Killed', [bo]);
  await sendAll(server, ann, room, ['before']);
  const a = await enter(browser, server, ann, room);
  const b = await enter(browser, server, bo, room);
  for (let round = 1; round <= 3; round++) {
    for (let i = 0; i < 5; i++) {
      await write(a, `ann ${round}.${i}`);
      await write(b, `bo ${round}.${i}`);
    }
    await server.kill();
    // Written while there is no server: shown as waiting, sent when it is back.
    await write(a, `ann ${round} while it is away`);
    await a.waitForSelector('.bar:not([hidden])');
    await a.waitForSelector('.is-waiting');
    await b.waitForSelector('.bar:not([hidden])');
    await write(b, `bo ${round} while it is away`);
    await server.again();
    for (const page of [a, b]) await online(page);
    await sendAll(server, ann, room, [`socket ${round}`]);
    for (const page of [a, b]) await page.waitForFunction(() => !document.querySelector('.message:not([data-state=stored])'));
  }
  const all = await truth(ann, room);
  const texts = all.map((m) => m[1]);
  assert.equal(new Set(texts).size, texts.length, 'nothing twice');
  const want = ['before'];
  for (let r = 1; r <= 3; r++) {
    for (let i = 0; i < 5; i++) want.push(`ann ${r}.${i}`, `bo ${r}.${i}`);
    want.push(`ann ${r} while it is away`, `bo ${r} while it is away`, `socket ${r}`);
  }
  assert.deepEqual([...texts].sort(), [...want].sort(), 'nothing lost');
  const own = texts.filter((t) => t.startsWith('ann '));
  assert.deepEqual(own, want.filter((t) => t.startsWith('ann ')), 'own messages in the order written');
  await sameAs(a, all, 'what Ann sees');
  await sameAs(b, all, 'what Bo sees');
  await clean(a, b);
  await a.context().close();
  await b.context().close();
});

test('a cut connection: what was missed is replayed, in place, once', async () => {
  const room = await makeRoom(server, ann, 'Cut', [bo]);
  await sendAll(server, ann, room, ['one', 'two']);
  const { page, wire } = await wired(bo, room);
  wire.refuse = true;
  wire.cut();
  await page.waitForSelector('.bar:not([hidden])');
  await sendAll(server, ann, room, Array.from({ length: 60 }, (_, i) => `missed ${i}`));
  wire.refuse = false;
  await online(page);
  const enters = wire.sent.filter((f) => f.op === 'room.enter');
  assert.ok(enters.at(-1).after_seq > 0 && enters.at(-1).epoch, 'it resumed');
  assert.equal(wire.sent.filter((f) => f.op === 'history').length, 1, 'without reading history again');
  await sameAs(page, await truth(bo, room), 'after the cut');
  await clean(page);
  await page.context().close();
});

test('more than a thousand missed: the page starts from the newest, and scrolling up has no hole', async () => {
  const room = await makeRoom(server, ann, 'Far', [bo]);
  await sendAll(server, ann, room, ['early 0', 'early 1']);
  const { page, wire } = await wired(bo, room);
  wire.refuse = true;
  wire.cut();
  await page.waitForSelector('.bar:not([hidden])');
  await sendAll(server, ann, room, Array.from({ length: 1150 }, (_, i) => `far ${i}`));
  wire.refuse = false;
  await online(page);
  const all = await truth(bo, room);
  await page.waitForFunction((n) => [...document.querySelectorAll('.message[data-seq]')].at(-1)?.dataset.seq === String(n), all.at(-1)[0], { timeout: deadline(30_000) });
  await until('everything by scrolling up', async () => {
    await page.$eval('.scroller', (s) => { s.scrollTop = 0; });
    return page.$('.message-list >> text=This is where the conversation begins.');
  }, 60_000);
  assert.deepEqual(await shown(page), all);
  await clean(page);
  await page.context().close();
});

test('frames lost, doubled and late on the wire: holes are filled, doubles ignored', async () => {
  const room = await makeRoom(server, ann, 'Lossy', [bo]);
  await sendAll(server, ann, room, ['start']);
  const { page, wire } = await wired(bo, room);
  let n = 0;
  let late = null;
  wire.down = (frame, w) => {
    if (frame.ev !== 'message.created') return undefined;
    n++;
    if (n % 5 === 0) return 'drop';
    if (n % 5 === 1) w.toPage(frame);
    if (n % 5 === 2) {
      late = frame;
      return 'drop';
    }
    if (n % 5 === 3 && late) {
      w.toPage(frame);
      w.toPage(late);
      late = null;
      return 'drop';
    }
    return undefined;
  };
  await sendAll(server, ann, room, Array.from({ length: 101 }, (_, i) => `lossy ${i}`));
  await sameAs(page, await truth(bo, room), 'over a lossy wire');
  assert.ok(wire.sent.some((f) => f.op === 'events'), 'it asked for what was missing');
  // The last one lost: only `sync` tells.
  wire.down = (frame) => (frame.ev === 'message.created' ? 'drop' : undefined);
  const [seq] = (await sendAll(server, ann, room, ['the lost tail'])).slice(-1);
  wire.toPage({ ev: 'sync', rooms: [{ room, last_seq: seq }] });
  await sameAs(page, await truth(bo, room), 'after sync');
  await clean(page);
  await page.context().close();
});

test('another epoch: the cache is dropped and read anew', async () => {
  const room = await makeRoom(server, ann, 'Epoch', [bo]);
  await sendAll(server, ann, room, ['kept']);
  const { page, wire } = await wired(bo, room);
  let epoch = null;
  wire.down = (frame) => {
    if (!frame.epoch) return undefined;
    if (wire.opened === 1) return undefined;
    epoch = frame.epoch;
    return JSON.stringify({ ...frame, epoch: 'another' });
  };
  const before = wire.sent.length;
  wire.cut();
  await until('a second hello', () => epoch);
  await online(page);
  await until('history read again', () => wire.sent.slice(before).some((f) => f.op === 'history'));
  assert.equal(wire.sent.slice(before).find((f) => f.op === 'room.enter').after_seq, undefined);
  await sendAll(server, ann, room, ['and on']);
  await sameAs(page, await truth(bo, room), 'in the new epoch');
  // `reset` in the answer means the same.
  wire.down = (frame) => (frame.last_seq !== undefined && frame.members ? JSON.stringify({ ...frame, reset: true }) : undefined);
  wire.cut();
  await until('a third connection', () => wire.opened === 3);
  await online(page);
  wire.down = null;
  await sendAll(server, ann, room, ['after reset']);
  await sameAs(page, await truth(bo, room), 'after reset');
  await clean(page);
  await page.context().close();
});

test('an answer lost after the commit: the same nonce is sent again and nothing doubles', async () => {
  const room = await makeRoom(server, ann, 'Twice', [bo]);
  const { page, wire } = await wired(ann, room);
  let id = null;
  wire.up = (frame) => {
    if (frame.op === 'message.send') id = frame.id;
  };
  wire.down = (frame, w) => {
    if (id !== null && (frame.re === id || frame.ev === 'message.created')) {
      if (frame.re === id) setTimeout(() => w.cut());
      return 'drop';
    }
    return undefined;
  };
  await write(page, 'exactly once');
  await until('the cut', () => wire.opened === 2, 40_000);
  wire.down = null;
  await online(page);
  await page.waitForFunction(() => document.querySelectorAll('.message').length === 1 && document.querySelector('.message').dataset.state === 'stored');
  assert.ok(wire.sent.filter((f) => f.op === 'message.send').length >= 1);
  assert.deepEqual((await truth(ann, room)).map((m) => m[1]), ['exactly once']);
  await sameAs(page, await truth(ann, room), 'the sender');
  await clean(page);
  await page.context().close();
});

test('the ok first or the event first: one message on the screen, in the same place', async () => {
  const room = await makeRoom(server, ann, 'Orders', [bo]);
  for (const okFirst of [true, false]) {
    const { page, wire } = await wired(ann, room);
    const held = [];
    let id = null;
    wire.up = (frame) => {
      if (frame.op === 'message.send') id = frame.id;
    };
    wire.down = (frame, w) => {
      const ok = frame.re !== undefined && frame.re === id;
      const event = frame.ev === 'message.created';
      if (!ok && !event) return undefined;
      held.push({ ok, frame });
      if (held.length === 2) {
        held.sort((a, b) => (a.ok === okFirst ? -1 : 1) - (b.ok === okFirst ? -1 : 1));
        w.toPage(held[0].frame);
        setTimeout(() => w.toPage(held[1].frame), 100);
      }
      return 'drop';
    };
    const before = (await shown(page)).length;
    await page.evaluate(() => {
      window.most = 0;
      new MutationObserver(() => {
        window.most = Math.max(window.most, document.querySelectorAll('.message').length);
      }).observe(document.querySelector('.message-list'), { childList: true, subtree: true });
    });
    await write(page, `ok first: ${okFirst}`);
    await page.waitForFunction((n) => document.querySelectorAll('.message[data-seq]').length === n, before + 1);
    await until('both frames', () => held.length === 2);
    await page.evaluate(() => new Promise((r) => setTimeout(r, 300)));
    assert.equal(await page.evaluate(() => window.most), before + 1, 'never twice on the screen');
    assert.deepEqual(await shown(page), await truth(ann, room));
    assert.equal(await page.$$eval('.message:not([data-seq])', (all) => all.length), 0);
    await clean(page);
    await page.context().close();
  }
});

test('unsent messages survive a reload of the tab', async () => {
  const room = await makeRoom(server, ann, 'Reload', [bo]);
  const { page, wire } = await wired(ann, room);
  wire.refuse = true;
  wire.cut();
  await page.waitForSelector('.bar:not([hidden])');
  await write(page, 'typed offline 1');
  await write(page, 'typed offline 2');
  await page.waitForSelector('.is-waiting');
  wire.refuse = false;
  await page.reload();
  await online(page);
  await page.waitForFunction(() => document.querySelectorAll('.message[data-seq]').length === 2);
  assert.deepEqual((await truth(ann, room)).map((m) => m[1]), ['typed offline 1', 'typed offline 2']);
  await clean(page);
  await page.context().close();
});

test('an answer lost, then a reload: the message stands once, nothing waits', async () => {
  const room = await makeRoom(server, ann, 'Lost and reloaded', [bo]);
  const { page, wire } = await wired(ann, room);
  wire.down = (frame) => (frame.seq !== undefined ? 'drop' : undefined);
  await write(page, 'stored already');
  await until('stored', async () => (await truth(bo, room)).length === 1);
  assert.equal(await page.$$eval('.message[data-seq]', (all) => all.length), 0);
  wire.down = null;
  await page.reload();
  await online(page);
  await page.waitForFunction(() => document.querySelectorAll('.message').length === 1 && document.querySelector('.message').dataset.state === 'stored');
  assert.equal(wire.sent.filter((f) => f.op === 'message.send').length, 2, 'it was sent again with its nonce');
  assert.equal((await truth(ann, room)).length, 1);
  await clean(page);
  await page.context().close();
});

test('bye with a delay is obeyed, and the button does not wait', async () => {
  const room = await makeRoom(server, ann, 'Bye', [bo]);
  const { page, wire } = await wired(ann, room);
  wire.toPage({ ev: 'bye', code: 1001, reason: 'stopping', retry_after_ms: 60_000 });
  wire.cut(1001);
  await page.waitForFunction(() => /Trying again in (59|6\d) seconds/.test(document.querySelector('.bar').textContent));
  assert.equal(wire.opened, 1);
  await page.click('.bar button');
  await online(page);
  assert.equal(wire.opened, 2);
  await page.waitForSelector('.bar', { state: 'hidden' });
  await clean(page);
  await page.context().close();
});

test('token.expiring renews under the living connection; 4001 leads to the log-in', async () => {
  const cat = await server.account('cat');
  const room = await makeRoom(server, cat, 'Token');
  const { page, wire } = await wired(cat, room);
  wire.toPage({ ev: 'token.expiring', expires_at: Date.now() + 60_000 });
  const renewed = await until('token.renew', () => wire.sent.find((f) => f.op === 'token.renew'));
  const kept = await page.evaluate(() => JSON.parse(localStorage.getItem('parley.account')).token);
  assert.equal(renewed.token, kept);
  assert.equal(wire.opened, 1);
  await write(page, 'still here');
  await page.waitForSelector('.message[data-seq] >> text=still here');
  wire.cut(4001);
  await page.waitForSelector('.auth');
  assert.match(await page.textContent('.notice'), /logged out/);
  await clean(page);
  await page.context().close();
});

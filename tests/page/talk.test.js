// Two people talk: accounts, rooms, latency from Enter to the other screen, counters, divider, read marks,
// typing, members, older messages.

import assert from 'node:assert/strict';
import test, { after, afterEach, before } from 'node:test';
import { PASSWORD, Server, Socket, clean, deadline, enter, launch, leave, makeRoom, online, percentile, person, sendAll, shown, until, write } from './harness.js';

let server;
let browser;
let ann;
let bo;

before(async () => {
  server = await Server.start({ 'limits.messages_per_s': 100000, 'limits.messages_burst': 100000 });
  browser = await launch();
  ann = await server.account('ann', 'Ann Lee');
  bo = await server.account('bo', 'ボー');
});
// A test that failed leaves its people behind; the next one must not meet them.
afterEach(() => leave(browser));
after(async () => {
  await browser?.close();
  await server?.stop();
});

const close = (...pages) => Promise.all(pages.map((p) => p.context().close()));
const titleCount = async (page) => Number(/^\(@?(\d+)\) /.exec(await page.title())?.[1] ?? 0);
const allBadges = (page) => page.$$eval('.badge', (all) => all.reduce((sum, b) => sum + Number(b.dataset.unread), 0));
const badge = (page, room) => page.$eval(`.rooms a[href="#/room/${room}"]`, (a) => Number(a.querySelector('.badge')?.dataset.unread ?? 0)).catch(() => -1);

test('register, stay logged in over a reload, log out, log in, a wrong password', async () => {
  const page = await person(browser, server);
  await page.goto(server.url);
  await page.click('.tab:nth-child(2)');
  await page.fill('#auth-name', 'cleo');
  await page.fill('#auth-display', 'Cleo 클레오');
  await page.fill('#auth-password', 'short');
  await page.click('form button[type=submit]');
  await page.waitForSelector('#auth-error:not(:empty)');
  await page.fill('#auth-password', PASSWORD);
  await page.press('#auth-password', 'Enter');
  await online(page);
  assert.equal(await page.textContent('.me-name'), 'Cleo 클레오');
  await page.reload();
  await online(page);
  assert.equal(await page.textContent('.me-name'), 'Cleo 클레오');
  await page.click('.side-foot button');
  await page.click('dialog .danger');
  await page.waitForSelector('.auth');
  assert.equal(await page.evaluate(() => localStorage.getItem('parley.account')), null);
  await page.fill('#auth-name', 'cleo');
  await page.fill('#auth-password', 'not the password');
  await page.press('#auth-password', 'Enter');
  await page.waitForFunction(() => document.querySelector('#auth-error').textContent === 'Wrong user name or password.');
  await page.fill('#auth-password', PASSWORD);
  await page.press('#auth-password', 'Enter');
  await online(page);
  // The same name again is refused with a word about it.
  const other = await person(browser, server);
  await other.goto(server.url);
  await other.click('.tab:nth-child(2)');
  await other.fill('#auth-name', 'CLEO');
  await other.fill('#auth-password', PASSWORD);
  await other.press('#auth-password', 'Enter');
  await other.waitForFunction(() => document.querySelector('#auth-error').textContent === 'This user name is taken.');
  await clean(page, other);
  await close(page, other);
});

test('a new password: this page stays, other devices are logged out, the old one no longer works', async () => {
  const pat = await server.account('pat');
  const room = await makeRoom(server, pat, 'Secrets');
  const here = await enter(browser, server, pat, room);
  const other = await server.api('POST', '/login', { body: { name: 'pat', password: PASSWORD } });
  const there = await enter(browser, server, other, room);
  await here.click('.side-foot button');
  await here.click('summary');
  await here.fill('#my-old', 'not the password');
  await here.fill('#my-new', 'another good password');
  await here.press('#my-new', 'Enter');
  await here.waitForSelector('dialog .error:not(:empty)');
  await here.fill('#my-old', PASSWORD);
  await here.press('#my-new', 'Enter');
  await here.waitForSelector('dialog', { state: 'detached' });
  await there.waitForSelector('.auth');
  await online(here);
  await write(here, 'still in');
  await here.waitForSelector('.message[data-seq] >> text=still in');
  await server.api('POST', '/login', { body: { name: 'pat', password: PASSWORD }, status: 401 });
  await here.reload();
  await online(here);
  await clean(here, there);
  await close(here, there);
});

test('a log-out in one tab ends the other', async () => {
  const first = await person(browser, server);
  await first.goto(server.url);
  await first.fill('#auth-name', 'ann');
  await first.fill('#auth-password', PASSWORD);
  await first.press('#auth-password', 'Enter');
  await online(first);
  const second = await first.context().newPage();
  await second.goto(server.url);
  await online(second);
  await second.click('.side-foot button');
  await second.click('dialog .danger');
  await second.waitForSelector('.auth');
  await first.waitForSelector('.auth');
  await clean(first);
  await close(first);
});

test('registration by invitation asks for the code, closed says so', async () => {
  for (const mode of ['invitation', 'closed']) {
    const strict = await Server.start({ 'accounts.registration': mode });
    try {
      const page = await person(browser, strict);
      await page.goto(strict.url);
      await page.click('.tab:nth-child(2)');
      await page.fill('#auth-name', 'dee');
      await page.fill('#auth-password', PASSWORD);
      await page.press('#auth-password', 'Enter');
      if (mode === 'closed') {
        await page.waitForFunction(() => document.querySelector('#auth-error').textContent === 'This server takes no new accounts.');
      } else {
        await page.waitForSelector('#auth-invitation');
        await page.fill('#auth-invitation', 'no-such-code');
        await page.press('#auth-invitation', 'Enter');
        await page.waitForSelector('#auth-error:not(:empty)');
        const code = await strict.invitation();
        await page.fill('#auth-invitation', code);
        await page.press('#auth-invitation', 'Enter');
        await online(page);
      }
      await clean(page);
      await close(page);
    } finally {
      await strict.stop();
    }
  }
});

test('create a room, hand over its link, join it, talk both ways', async () => {
  const a = await enter(browser, server, ann);
  await a.click('[aria-label="New room"]');
  await a.fill('#create-name', 'Tea 茶 차');
  await a.press('#create-name', 'Enter');
  await a.waitForSelector('#composer');
  await a.waitForFunction(() => document.activeElement.id === 'composer');
  const hash = await a.evaluate(() => location.hash);
  const b = await enter(browser, server, bo);
  await b.goto(`${server.url}/${hash}`);
  await b.waitForSelector('.outside');
  assert.equal(await b.textContent('.room-name'), 'Tea 茶 차');
  await b.click('.outside .primary');
  await b.waitForSelector('#composer');
  await write(a, 'first line');
  await b.waitForSelector('.message-list >> text=first line');
  await write(b, 'お茶にしましょう');
  await a.waitForSelector('.message-list >> text=お茶にしましょう');
  assert.equal(await a.textContent('.message.other .sender'), 'ボー');
  assert.match(await a.textContent('.message.other time'), /^\d{1,2}:\d\d\s(AM|PM)$/);
  assert.equal(await a.textContent('.day'), 'Today');
  await a.waitForFunction(() => /2 online · 2 members/.test(document.querySelector('.room-sub').textContent));
  // By id, in the dialog.
  const c = await enter(browser, server, await server.account('cy'));
  await c.click('[aria-label="Join a room"]');
  await c.fill('#join-id', 'no such thing');
  await c.press('#join-id', 'Enter');
  await c.waitForSelector('dialog .error:not(:empty)');
  await c.fill('#join-id', hash.split('/').pop());
  await c.press('#join-id', 'Enter');
  await c.waitForSelector('.message-list >> text=first line');
  await a.waitForFunction(() => document.querySelector('.room-sub').textContent.includes('3 members'));
  await clean(a, b, c);
  await close(a, b, c);
});

// One run of 50 messages: milliseconds from the key to the frame that shows the text.
async function latencies(name) {
  const room = await makeRoom(server, ann, name, [bo]);
  const a = await enter(browser, server, ann, room);
  const b = await enter(browser, server, bo, room);
  await a.evaluate(() => {
    window.pressed = [];
    document.addEventListener('keydown', (e) => e.key === 'Enter' && window.pressed.push(performance.timeOrigin + performance.now()), true);
  });
  await b.evaluate(() => {
    window.seen = new Map();
    new MutationObserver(() => {
      for (const m of document.querySelectorAll('.message.other .text')) {
        const text = m.textContent;
        if (window.seen.has(text)) continue;
        window.seen.set(text, null);
        // On the screen: the frame after the one in which it entered the document.
        requestAnimationFrame(() => setTimeout(() => window.seen.set(text, performance.timeOrigin + performance.now())));
      }
    }).observe(document.querySelector('.message-list'), { childList: true, subtree: true });
  });
  for (let i = 0; i < 50; i++) {
    await write(a, `ping ${i}`);
    await b.waitForFunction((t) => window.seen.get(t), `ping ${i}`, { polling: 5 });
  }
  const pressed = await a.evaluate(() => window.pressed);
  const seen = await b.evaluate(() => [...window.seen.values()]);
  const ms = seen.map((s, i) => s - pressed[i]);
  assert.equal(ms.length, 50);
  assert.ok(Math.min(...ms) > 0, 'clocks agree');
  // The sender's own are all stored, once each, in order.
  await a.waitForFunction(() => document.querySelectorAll('.message.own[data-state=stored][data-seq]').length === 50);
  assert.deepEqual((await shown(a)).map((m) => m[1]), Array.from({ length: 50 }, (_, i) => `ping ${i}`));
  await clean(a, b);
  await close(a, b);
  return ms;
}

test('from Enter to the text on the other screen: p95 of 50 messages <= 100 ms', async () => {
  // Two browsers, the server and this test share the machine with whatever else runs on it: up to three
  // runs, each whole, and one has to hold the bar.
  const all = [];
  for (let run = 1; run <= 3; run++) {
    const ms = await latencies(`latency ${run}`);
    const p = (q) => percentile(ms, q).toFixed(1);
    all.push(percentile(ms, 95));
    console.log(`# Enter to screen, run ${run}: p50 ${p(50)} ms, p95 ${p(95)} ms, max ${p(100)} ms`);
    if (all.at(-1) <= 100) return;
  }
  assert.fail(`p95 of each run: ${all.map((v) => v.toFixed(1)).join(', ')} ms`);
});

test('unread badge, list line, title, divider at the read mark, gone after', async () => {
  const one = await makeRoom(server, ann, 'One', [bo]);
  const two = await makeRoom(server, ann, 'Two', [bo]);
  await sendAll(server, ann, one, ['old one', 'old two']);
  const b = await enter(browser, server, bo, one);
  await b.waitForFunction(() => document.querySelectorAll('.message').length === 2);
  await until('read', async () => (await badge(b, one)) === 0);
  await b.click(`.rooms a[href="#/room/${two}"]`);
  await b.waitForFunction(() => document.querySelector('.room-name').textContent === 'Two');
  const a = await enter(browser, server, ann, one);
  for (const text of ['new one', 'new two', 'new three']) await write(a, text);
  await until('badge 3', async () => (await badge(b, one)) === 3);
  await b.waitForFunction((r) => document.querySelector(`.rooms a[href="#/room/${r}"] .preview`).textContent.includes('new three'), one);
  assert.match(await b.textContent(`.rooms a[href="#/room/${one}"] .preview`), /Ann Lee.*: .*new three/);
  assert.ok((await titleCount(b)) >= 3);
  assert.equal(await titleCount(b), await allBadges(b));
  assert.equal(await b.$eval('.rooms li:first-child a', (l) => l.getAttribute('href')), `#/room/${one}`);
  await b.click(`.rooms a[href="#/room/${one}"]`);
  await b.waitForSelector('.divider');
  await b.waitForFunction(() => document.querySelectorAll('.message').length === 5);
  const order = () => b.$$eval('.message-list > *', (all) => all.map((e) => (e.matches('.divider') ? '---' : e.querySelector('.text')?.textContent)).filter(Boolean));
  assert.deepEqual(await order(), ['old one', 'old two', '---', 'new one', 'new two', 'new three']);
  await until('badge gone', async () => (await badge(b, one)) === 0);
  assert.equal(await titleCount(b), await allBadges(b));
  // It stays where it is while more comes and is read …
  await write(a, 'new four');
  await b.waitForSelector('.message-list >> text=new four');
  assert.deepEqual((await order()).indexOf('---'), 2);
  // … and is gone when the room is opened again.
  await b.click(`.rooms a[href="#/room/${two}"]`);
  await b.click(`.rooms a[href="#/room/${one}"]`);
  await b.waitForFunction(() => document.querySelectorAll('.message').length === 6);
  assert.equal(await b.$$eval('.divider', (all) => all.length), 0);
  await clean(a, b);
  await close(a, b);
});

test('the read mark moves only while the page is visible, focused and the message on the screen', async () => {
  const room = await makeRoom(server, ann, 'Marks', [bo]);
  await sendAll(server, ann, room, ['hello']);
  const b = await enter(browser, server, bo, room);
  const mark = async () => {
    const s = await Socket.open(server, bo.token);
    s.close();
    return s.hello.rooms.find((r) => r.room === room).unread;
  };
  await until('read', async () => (await mark()) === 0);
  const as = (focus, visibility) =>
    b.evaluate(([f, v]) => {
      document.hasFocus = () => f;
      Object.defineProperty(document, 'visibilityState', { value: v, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
      window.dispatchEvent(new Event(f ? 'focus' : 'blur'));
    }, [focus, visibility]);
  const settled = (text) => b.waitForSelector(`.message-list >> text=${text}`).then(() => b.evaluate(() => new Promise((r) => setTimeout(r, 700))));

  await as(false, 'visible');
  await sendAll(server, ann, room, ['while unfocused']);
  await settled('while unfocused');
  assert.equal(await mark(), 1);
  assert.equal(await badge(b, room), 1, 'counted by the page itself');
  assert.ok((await titleCount(b)) >= 1);
  assert.equal(await b.$eval('.divider', (d) => d.nextElementSibling.querySelector('.text').textContent), 'while unfocused');
  await as(true, 'visible');
  await until('read on focus', async () => (await mark()) === 0);
  await until('no badge', async () => (await badge(b, room)) === 0);

  await as(true, 'hidden');
  await sendAll(server, ann, room, ['while hidden']);
  await settled('while hidden');
  assert.equal(await mark(), 1);
  await as(true, 'visible');
  await until('read when visible', async () => (await mark()) === 0);

  // Scrolled up: what comes below is not seen.
  await sendAll(server, ann, room, Array.from({ length: 30 }, (_, i) => `filler ${i}\n.\n.`));
  await b.waitForSelector('.message-list >> text=filler 29');
  await until('read', async () => (await mark()) === 0);
  await b.$eval('.scroller', (s) => { s.scrollTop = 0; });
  await b.waitForSelector('.latest:not([hidden])');
  await sendAll(server, ann, room, ['below the edge']);
  await settled('below the edge');
  assert.equal(await mark(), 1);
  await b.waitForFunction(() => /1 new message/.test(document.querySelector('.latest').textContent));
  await b.click('.latest');
  await until('read at the bottom', async () => (await mark()) === 0);
  await clean(b);
  await close(b);
});

test('older messages load while scrolling up, and nothing on the screen jumps', async () => {
  const room = await makeRoom(server, ann, 'Long', [bo]);
  await sendAll(server, ann, room, Array.from({ length: 230 }, (_, i) => `line ${i}${i % 7 === 0 ? '\nand a second one' : ''}`));
  const b = await enter(browser, server, ann, room);
  await b.waitForFunction(() => document.querySelectorAll('.message').length >= 50);
  for (let count = await b.$$eval('.message', (m) => m.length); count < 230; ) {
    const moved = await b.evaluate(async (n) => {
      const scroller = document.querySelector('.scroller');
      scroller.scrollTop = 350;
      const top = scroller.getBoundingClientRect().top;
      const anchor = [...document.querySelectorAll('.message')].find((m) => m.getBoundingClientRect().bottom > top);
      const at = anchor.getBoundingClientRect().top;
      const end = Date.now() + 30_000;
      while (document.querySelectorAll('.message').length === n) {
        if (Date.now() > end) return NaN;
        await new Promise((r) => requestAnimationFrame(r));
      }
      return document.querySelector(`[data-seq="${anchor.dataset.seq}"]`).getBoundingClientRect().top - at;
    }, count);
    assert.ok(Math.abs(moved) < 1, `moved by ${moved} px at ${count}`);
    count = await b.$$eval('.message', (m) => m.length);
  }
  assert.deepEqual((await shown(b)).map((m) => m[1].split('\n')[0]), Array.from({ length: 230 }, (_, i) => `line ${i}`));
  await b.$eval('.scroller', (s) => { s.scrollTop = 0; });
  assert.ok(await b.$('.message-list >> text=This is where the conversation begins.'));
  await clean(b);
  await close(b);
});

test('reading far back: the page keeps a bounded stretch, and the way forward has no hole', async () => {
  const room = await makeRoom(server, ann, 'Very long', [bo]);
  const total = 2600;
  await sendAll(server, ann, room, Array.from({ length: total }, (_, i) => `far ${i}`));
  const page = await enter(browser, server, ann, room);
  const list = () => page.$$eval('.message .text', (all) => all.map((e) => Number(e.textContent.slice(4))));
  const consecutive = (all, where) => all.forEach((n, i) => i && assert.equal(n, all[i - 1] + 1, `${where}: a hole after ${all[i - 1]}`));
  await page.waitForSelector(`.message-list >> text=far ${total - 1}`);
  await until('the first message, by scrolling up', async () => {
    await page.$eval('.scroller', (s) => { s.scrollTop = 0; });
    return (await list())[0] === 0;
  }, 60_000);
  const far = await list();
  consecutive(far, 'far back');
  assert.ok(far.length <= 2050 && far.at(-1) < total - 1, `${far.length} messages in the page`);
  // What is written now does not jump into the stretch that is shown.
  await sendAll(server, bo, room, [`far ${total}`]);
  await page.waitForFunction(() => /1 new message/.test(document.querySelector('.latest').textContent));
  consecutive(await list(), 'while far back');
  // Down again by scrolling.
  await until('the newest message, by scrolling down', async () => {
    await page.$eval('.scroller', (s) => { s.scrollTop = s.scrollHeight; });
    return (await list()).at(-1) === total;
  }, 60_000);
  consecutive(await list(), 'down again');
  // Up again, and back by the button.
  await until('far back again', async () => {
    await page.$eval('.scroller', (s) => { s.scrollTop = 0; });
    return (await list())[0] === 0;
  }, 60_000);
  await page.click('.latest');
  await page.waitForSelector(`.message-list >> text=far ${total}`);
  consecutive(await list(), 'by the button');
  await sendAll(server, bo, room, [`far ${total + 1}`]);
  await page.waitForSelector(`.message-list >> text=far ${total + 1}`);
  consecutive(await list(), 'live again');
  await clean(page);
  await close(page);
});

test('many unread: the page opens at the divider', async () => {
  const room = await makeRoom(server, ann, 'Many', [bo]);
  await sendAll(server, ann, room, Array.from({ length: 5 }, (_, i) => `read ${i}`));
  const first = await enter(browser, server, bo, room);
  await until('read', async () => (await badge(first, room)) === 0);
  await close(first);
  await sendAll(server, ann, room, Array.from({ length: 90 }, (_, i) => `unread ${i}`));
  const b = await enter(browser, server, bo, room);
  const box = await (await b.waitForSelector('.divider')).boundingBox();
  const view = await (await b.$('.scroller')).boundingBox();
  assert.ok(box.y > view.y && box.y < view.y + view.height / 2, `divider at ${box.y}`);
  assert.equal(await b.$eval('.divider', (d) => d.nextElementSibling.querySelector('.text').textContent), 'unread 0');
  await clean(b);
  await close(b);
});

test('typing, presence, members, names that change', async () => {
  const room = await makeRoom(server, ann, 'People', [bo]);
  const a = await enter(browser, server, ann, room);
  const b = await enter(browser, server, bo, room);
  await a.waitForFunction(() => document.querySelector('.room-sub').textContent.includes('2 online'));
  await b.type('#composer', 'thinking');
  await a.waitForFunction(() => /ボー.* is typing…/.test(document.querySelector('.typing').textContent));
  await b.press('#composer', 'Enter');
  await a.waitForFunction(() => document.querySelector('.typing').textContent === '');
  await a.click('[aria-label="Members"]');
  await a.waitForSelector(`.panel li.on[data-user="${bo.user}"]`);
  await server.api('PATCH', '/me', { token: bo.token, body: { display_name: 'Bo the Second' } });
  await a.waitForFunction(() => document.querySelector('.message.other .sender').textContent === 'Bo the Second');
  await close(b);
  await a.waitForSelector(`.panel li.off[data-user="${bo.user}"]`, { timeout: deadline(20_000) });
  await server.api('PATCH', '/me', { token: bo.token, body: { display_name: 'ボー' } });
  await clean(a);
  await close(a);
});

test('a private room: invited by name, joined by link, left again', async () => {
  const room = await makeRoom(server, ann, 'Quiet', [], 'private');
  await makeRoom(server, ann, 'Known from here', [bo]);
  const b = await enter(browser, server, bo);
  await b.goto(`${server.url}/#/room/${room}`);
  await b.waitForSelector('.outside');
  assert.doesNotMatch(await b.textContent('.main'), /Quiet/);
  await b.click('.outside .primary');
  await b.waitForSelector('.outside .error:not(:empty)');
  const a = await enter(browser, server, ann, room);
  await a.click('[aria-label="Members"]');
  await a.fill('#invite', bo.user);
  await a.press('#invite', 'Enter');
  await a.waitForSelector('.toast');
  await b.click('.outside .primary');
  await b.waitForSelector('#composer');
  await write(a, 'glad you are here');
  await b.waitForSelector('.message-list >> text=glad you are here');
  await b.click('[aria-label="Room settings"]');
  await b.click('dialog .danger');
  await b.click('dialog:last-of-type .primary');
  await b.waitForFunction(() => location.hash === '#/');
  await until('gone from the list', async () => (await badge(b, room)) === -1);
  // The owner renames the other one.
  await a.click('[aria-label="Room settings"]');
  await a.fill('#room-name', 'Quieter');
  await a.fill('#room-topic', 'About nothing');
  await a.press('#room-topic', 'Enter');
  await a.waitForFunction(() => document.querySelector('.room-name').textContent === 'Quieter' && document.querySelector('.room-sub').textContent.includes('About nothing'));
  await clean(a, b);
  await close(a, b);
});

test('a refused message stays, says why, and can be sent again or discarded', async () => {
  const room = await makeRoom(server, ann, 'Refusals', [bo]);
  const a = await person(browser, server, { account: ann });
  let refuse = true;
  await a.routeWebSocket(/\/ws$/, (ws) => {
    const up = ws.connectToServer();
    ws.onMessage((m) => {
      const f = JSON.parse(m);
      if (refuse && f.op === 'message.send') ws.send(JSON.stringify({ re: f.id, error: { code: 'too_large', message: 'text' } }));
      else up.send(m);
    });
  });
  await a.goto(`${server.url}/#/room/${room}`);
  await online(a);
  await write(a, 'try me');
  await a.waitForSelector('.is-failed');
  assert.match(await a.textContent('.failed'), /Not sent:.*Too long\./);
  refuse = false;
  await a.click('.failed button:first-of-type');
  await a.waitForSelector('.message[data-seq] >> text=try me');
  assert.equal((await shown(a)).length, 1);
  refuse = true;
  await write(a, 'drop me');
  await a.waitForSelector('.is-failed');
  await a.reload();
  await online(a);
  await a.waitForSelector('.is-failed');
  await a.click('.failed button:last-of-type');
  await a.waitForFunction(() => document.querySelectorAll('.message').length === 1);
  await clean(a);
  await close(a);
});

// What others write must only ever be text: markup, links that are none, marks that turn lines around.

import assert from 'node:assert/strict';
import test, { after, afterEach, before } from 'node:test';
import { Server, assertFits, clean, enter, launch, leave, makeRoom, online, person, sendAll, shown } from './harness.js';

const TEXTS = [
  '<img src=x onerror=alert(1)>',
  '<svg/onload=alert(1)>',
  '"><script>alert(1)</script>',
  "' onmouseover='alert(1)",
  '<iframe srcdoc="<script>parent.alert(1)</script>">',
  '<a href="javascript:alert(1)">x</a>',
  '<style>*{display:none}</style>',
  '&lt;script&gt;alert(1)&lt;/script&gt;',
  '{{constructor.constructor("alert(1)")()}} ${alert(1)} $& $1',
  '<meta http-equiv=refresh content="0;url=https://evil.example">',
  '__proto__',
  'constructor',
];
const LINKS = [
  'javascript:alert(1)',
  'JaVaScRiPt:\talert(1)',
  'data:text/html,<script>alert(1)</script>',
  '//evil.example/x',
  'vbscript:msgbox(1)',
  'javascript:alert(1)//https://ok.example" onclick="alert(1)',
];

let server;
let browser;

before(async () => {
  server = await Server.start();
  browser = await launch();
});
// A test that failed leaves its people behind; the next one must not meet them.
afterEach(() => leave(browser));
after(async () => {
  await browser?.close();
  await server?.stop();
});

test('S85: markup in texts, names, room names and topics is shown as text everywhere', async () => {
  const eve = await server.account('eve<b>x', '<img src=x onerror=alert(1)>');
  const vic = await server.account('vic');
  const room = await makeRoom(server, eve, '"><script>alert(1)</script>', [vic]);
  const other = await makeRoom(server, vic, 'elsewhere');
  await sendAll(server, eve, room, TEXTS);
  const page = await enter(browser, server, vic, room);
  const before = await page.evaluate(() => document.querySelectorAll('*').length);
  await page.waitForFunction((n) => document.querySelectorAll('.message').length === n, TEXTS.length);
  assert.deepEqual((await shown(page)).map((m) => m[1]), TEXTS);
  assert.equal(await page.textContent('.room-name'), '"><script>alert(1)</script>');
  assert.equal(await page.textContent('.message .sender'), '<img src=x onerror=alert(1)>');
  assert.match(await page.title(), /"><script>alert\(1\)<\/script>/);
  assert.equal(await page.$$eval('.messages :is(img, svg:not(.icon), script, iframe, style, meta)', (all) => all.length), 0);
  // The owner's topic, the member list, the dialogs.
  const owner = await enter(browser, server, eve, room);
  await owner.click('[aria-label="Room settings"]');
  await owner.fill('#room-topic', '<svg/onload=alert(1)>');
  await owner.press('#room-topic', 'Enter');
  await page.waitForFunction(() => document.querySelector('.room-sub').textContent.includes('<svg/onload=alert(1)>'));
  await page.click('[aria-label="Members"]');
  await page.waitForSelector('.panel li');
  await page.click('[aria-label="Room settings"]');
  await page.click('dialog .danger');
  await page.waitForFunction(() => document.querySelector('dialog:last-of-type').textContent.includes('"><script>'));
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  // Live, in the list of rooms, and spoken.
  await sendAll(server, eve, room, ['<b>live</b>']);
  await page.waitForFunction(() => document.querySelector('#spoken').textContent.includes('<b>live</b>'));
  await page.click(`.rooms a[href="#/room/${other}"]`);
  await sendAll(server, eve, room, [TEXTS[0]]);
  await page.waitForFunction((t) => document.querySelector('.rooms').textContent.includes(t), TEXTS[0]);
  assert.ok(before > 0);
  assert.equal(await page.$$eval('#app :is(script, iframe, object, embed, style)', (all) => all.length), 0);
  await clean(page, owner);
  await page.context().close();
  await owner.context().close();
});

test('S86: only http, https and mailto become links, with rel, and they go where they say', async () => {
  const eve = await server.account('eve2');
  const room = await makeRoom(server, eve, 'links');
  await sendAll(server, eve, room, [...LINKS, 'https://ok.example/a?b=1#c', 'mailto:a@b.example', 'https://xn--e1afmkfd.example/\u202egnp.exe']);
  const page = await enter(browser, server, eve, room);
  await page.waitForFunction((n) => document.querySelectorAll('.message').length === n, LINKS.length + 3);
  const links = await page.$$eval('.text a', (all) => all.map((a) => ({ href: a.getAttribute('href'), text: a.textContent, rel: a.rel, target: a.target })));
  assert.deepEqual(links.map((l) => l.href), [
    // The tail of the sixth is an honest address; what stands before it is text.
    ...links.filter((l) => l.href === 'https://ok.example/').map((l) => l.href),
    'https://ok.example/a?b=1#c', 'mailto:a@b.example', 'https://xn--e1afmkfd.example/',
  ]);
  for (const l of links) {
    assert.equal(l.rel, 'noopener noreferrer');
    assert.equal(l.target, '_blank');
    assert.match(l.href, /^(https?:|mailto:)/);
  }
  await clean(page);
  await page.context().close();
});

test('direction marks, invisible and stacked characters stay inside their own box', async () => {
  // This server refuses direction marks in names; the page must not rely on it: they come in on the wire.
  const eve = await server.account('eve3', 'Eve MARKevil');
  const vic = await server.account('vic3', 'Vic');
  const room = await makeRoom(server, eve, 'room MARKtfel', [vic]);
  const zalgo = `Z${'\u0335\u0321\u0322'.repeat(200)}algo`;
  await sendAll(server, eve, room, ['abc \u202e def', `${'\u200f'.repeat(50)}שלום`, zalgo, 'W'.repeat(2000), '長'.repeat(1500), '\u200b'.repeat(300) + 'x', 'a\n'.repeat(200)]);
  await sendAll(server, vic, room, ['after']);
  const page = await person(browser, server, { account: vic, viewport: { width: 360, height: 740 } });
  await page.routeWebSocket(/\/ws$/, (ws) => {
    const up = ws.connectToServer();
    ws.onMessage((m) => up.send(m));
    up.onMessage((m) => ws.send(m.replaceAll('MARK', '\u202e\u2066')));
  });
  await page.goto(`${server.url}/#/room/${room}`);
  await online(page);
  await page.waitForSelector('.message-list >> text=after');
  await page.waitForFunction(() => document.querySelector('.sender').textContent === 'Eve \u202e\u2066evil');
  await assertFits(page, 'hostile texts at 360 px');
  const isolated = await page.$$eval('.text', (all) => all.every((e) => getComputedStyle(e).unicodeBidi === 'isolate' && e.dir === 'auto'));
  assert.ok(isolated);
  assert.ok(await page.$$eval('.sender > *, .room-name > *', (all) => all.length > 0 && all.every((e) => e.tagName === 'BDI')));
  // The time stands beside its own bubble whatever the name's or text's direction: nothing leaks out.
  assert.ok(await page.$$eval('.message', (all) => all.every((m) => m.querySelector('time').getBoundingClientRect().width < 90)));
  // Stacked marks are cut at the bubble's edge.
  assert.ok(await page.$$eval('.bubble', (all) => all.every((e) => getComputedStyle(e).overflow === 'clip')));
  assert.doesNotMatch((await page.title()).replace(/[\u2068\u2069]/g, ''), /[\u202a-\u202e\u2066-\u2069]/);
  await clean(page);
  await page.context().close();
});

test('the policy forbids what the page must never do, and the traps of these tests work', async () => {
  const eve = await server.account('eve4');
  const page = await enter(browser, server, eve);
  // Inline script, inline style, a foreign script, a form: each must be refused by the policy.
  const violations = await page.evaluate(async () => {
    const script = document.createElement('script');
    script.textContent = 'window.ran = 1';
    document.body.append(script);
    const holder = document.createElement('div');
    holder.innerHTML = '<p style="color:red" onclick="window.ran = 2">x</p>';
    document.body.append(holder);
    holder.firstChild.click();
    const foreign = document.createElement('script');
    foreign.src = 'https://evil.example/x.js';
    document.body.append(foreign);
    await new Promise((r) => setTimeout(r, 300));
    return { ran: window.ran, list: window.__violations };
  });
  assert.equal(violations.ran, undefined);
  for (const d of ['script-src', 'style-src']) assert.ok(violations.list.some((v) => v.startsWith(d)), `${d}: ${violations.list}`);
  await assert.rejects(clean(page), /policy/, 'the check of every test sees a violation');
  await page.evaluate(() => {
    window.__violations = [];
    alert('x');
  });
  await assert.rejects(clean(page), /dialog/, 'and a dialog');
  await page.context().close();
});

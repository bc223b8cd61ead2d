// How the page looks and weighs: both widths, both schemes, three languages, with pictures kept for people;
// layout, contrast and roles by axe-core; headers; the first load's weight.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import test, { after, afterEach, before } from 'node:test';
import { gzipSync } from 'node:zlib';
import { SHOTS, Server, assertFits, clean, enter, launch, leave, makeRoom, person, sendAll } from './harness.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const SIZES = { 360: { width: 360, height: 740 }, 1280: { width: 1280, height: 800 } };
const LOCALES = { en: 'en-US', ja: 'ja-JP', ko: 'ko-KR' };

let server;
let browser;
let aki;
let room;

before(async () => {
  server = await Server.start();
  browser = await launch();
  aki = await server.account('aki', '田中 亜紀');
  const minsu = await server.account('minsu', '김민수');
  const dana = await server.account('dana', 'Dana Whitfield');
  room = await makeRoom(server, aki, '週末ハイキング 🥾', [minsu, dana]);
  const plans = await makeRoom(server, aki, 'Release planning and everything around it, with a long name', [dana], 'private');
  const lunch = await makeRoom(server, minsu, '점심 뭐 먹지', [aki]);
  await sendAll(server, aki, room, ['おはようございます！今週末の天気、晴れそうですね。', '高尾山はどうでしょう？\nhttps://example.com/trail?id=42、8時集合で。']);
  await sendAll(server, minsu, room, ['좋아요! 저는 8시까지 갈 수 있어요.']);
  await sendAll(server, dana, room, [
    'Count me in. I will bring coffee, and a longer message to see how lines wrap in a bubble when someone has quite a lot to say about coffee, trails, trains and the weather.',
    '👍',
    `https://example.com/${'a-very-long-path/'.repeat(12)}`,
  ]);
  await sendAll(server, dana, plans, ['v1 is cut.', 'Ship it?']);
  await sendAll(server, minsu, lunch, ['국밥?', '아니면 라멘?', '여기로 정하죠']);
});
// A test that failed leaves its people behind; the next one must not meet them.
afterEach(() => leave(browser));
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function check(page, where) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const run = await window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
    return run.violations.map((v) => ({ id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 140)} :: ${n.failureSummary}`) }));
  });
  const bad = found.filter((v) => ['serious', 'critical'].includes(v.impact));
  assert.deepEqual(bad, [], `${where}: ${JSON.stringify(bad, null, 1)}`);
  return found;
}

// Nothing the reader needs is cut off: texts of buttons, labels and headings fit their boxes.
async function assertUncut(page, where) {
  const cut = await page.evaluate(() =>
    [...document.querySelectorAll('button, label, legend, h1, dialog h2, .badge, .when, .day span, .divider span, .meta, .typing, .between, .notice, .lead')]
      .filter((e) => e.getBoundingClientRect().width > 0 && !e.closest('.offscreen'))
      .filter((e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline')
      .map((e) => `${e.className || e.tagName}: ${e.textContent}`),
  );
  assert.deepEqual(cut, [], where);
}

for (const [size, viewport] of Object.entries(SIZES)) {
  for (const scheme of ['light', 'dark']) {
    for (const [language, locale] of Object.entries(LOCALES)) {
      test(`${size} px, ${scheme}, ${language}: fits, passes axe, no word missing`, async () => {
        const options = { viewport, colorScheme: scheme, locale, deviceScaleFactor: 1, hasTouch: size === '360', isMobile: size === '360' };
        const shot = (page, name) => page.screenshot({ path: path.join(SHOTS, `${name}-${size}-${scheme}-${language}.png`) });
        const step = async (page, name) => {
          await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
          await shot(page, name);
          const where = `${name} ${size} ${scheme} ${language}`;
          await assertFits(page, where);
          await assertUncut(page, where);
          await check(page, where);
          assert.equal(await page.evaluate(() => document.documentElement.lang), language);
          // A key that has no words would show as itself.
          assert.doesNotMatch(await page.evaluate(() => document.body.innerText), /\b(auth|rooms|room|composer|members|settings|conn|say|day|error|dialog)\.[a-z]+/);
        };
        const visitor = await person(browser, server, options);
        await visitor.goto(server.url);
        await visitor.waitForSelector('.auth form');
        await step(visitor, 'login');
        await visitor.click('.tab:nth-child(2)');
        await step(visitor, 'register');
        await clean(visitor);
        await visitor.context().close();

        const page = await enter(browser, server, aki, null, options);
        await page.waitForSelector('.rooms li:nth-child(3)');
        await step(page, 'rooms');
        await page.goto(`${server.url}/#/room/${room}`);
        await page.waitForFunction(() => document.querySelectorAll('.message').length >= 6);
        await page.waitForFunction(() => document.querySelector('.message.other .sender').textContent !== '');
        await step(page, 'room');
        const dark = await page.evaluate(() => {
          const [r, g, b] = getComputedStyle(document.querySelector('.main')).backgroundColor.match(/\d+/g).map(Number);
          return r + g + b < 300;
        });
        assert.equal(dark, scheme === 'dark');
        await page.click('.room-head button[aria-expanded]');
        await page.waitForSelector('.panel li');
        await step(page, 'members');
        await page.keyboard.press('Escape');
        await page.click('.room-head button:last-of-type');
        await page.waitForSelector('dialog[open]');
        await step(page, 'room-settings');
        await page.keyboard.press('Escape');
        await page.goto(`${server.url}/#/`);
        await page.click('.side-foot button');
        await page.waitForSelector('dialog[open]');
        await page.click('summary');
        await step(page, 'settings');
        await page.keyboard.press('Escape');
        await page.click('.side-head button:last-of-type');
        await page.waitForSelector('dialog[open]');
        await step(page, 'create');
        await clean(page);
        await page.context().close();
      });
    }
  }
}

test('these checks see what is wrong: too wide, cut off, too faint, unnamed', async () => {
  const page = await enter(browser, server, aki, room);
  await check(page, 'before');
  const broken = async (make, checker, pattern) => {
    await page.evaluate(make);
    await assert.rejects(checker(page, 'broken'), pattern);
    await page.evaluate(() => document.getElementById('broken').remove());
  };
  const add = (text) => `(() => { const e = document.createElement('button'); e.id = 'broken'; e.textContent = ${JSON.stringify(text)}; document.querySelector('.room-head').append(e); return e; })()`;
  await broken(`(() => { const e = ${add('wide')}; e.style.minWidth = '3000px'; })()`, assertFits, /wider/);
  await broken(`(() => { const e = ${add('cut off here')}; e.style.width = '30px'; e.style.overflow = 'hidden'; e.style.whiteSpace = 'nowrap'; })()`, assertUncut, /cut/);
  await broken(`(() => { const e = ${add('faint')}; e.style.color = '#ccc'; e.style.background = '#fff'; })()`, check, /color-contrast/);
  await broken(`(() => { ${add('')}; })()`, check, /button-name/);
  await page.context().close();
});

test('the language can be chosen, and is kept', async () => {
  const page = await person(browser, server, { locale: 'fr-FR' });
  await page.goto(server.url);
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'en');
  await page.selectOption('.language', 'ja');
  assert.equal(await page.textContent('form .primary'), 'ログイン');
  await page.reload();
  assert.equal(await page.textContent('form .primary'), 'ログイン');
  await page.selectOption('.language', 'ko');
  assert.equal(await page.textContent('form .primary'), '로그인');
  await clean(page);
  await page.context().close();
});

test('Korean breaks between words, Japanese anywhere it may, each in its own letters', async () => {
  const page = await enter(browser, server, aki, room);
  await page.waitForFunction(() => document.querySelectorAll('.message').length >= 6);
  const styles = await page.$$eval('.text', (all) => all.map((e) => [e.lang, getComputedStyle(e).wordBreak, getComputedStyle(e).lineBreak]));
  assert.ok(styles.some(([l, w]) => l === 'ko' && w === 'keep-all'));
  assert.ok(styles.some(([l, w, b]) => l === 'ja' && w === 'normal' && b === 'strict'));
  await page.context().close();
});

test('headers: policy, types, and a first load of at most 100 KB gzipped, all from here', async () => {
  const page = await person(browser, server);
  const loaded = [];
  page.on('response', (r) => loaded.push(r));
  await page.goto(server.url, { waitUntil: 'networkidle' });
  const root = await fetch(server.url);
  const policy = Object.fromEntries(root.headers.get('content-security-policy').split(';').map((d) => d.trim().split(/\s+/)).map(([k, ...v]) => [k, v.join(' ')]));
  assert.match(policy['default-src'], /^'(self|none)'$/);
  for (const d of ['script-src', 'style-src']) assert.equal(policy[d], "'self'", d);
  for (const d of ['object-src', 'base-uri', 'form-action', 'frame-ancestors']) assert.equal(policy[d], "'none'", d);
  assert.match(policy['connect-src'], /^'self'( ws: wss:)?$/);
  assert.match(policy['img-src'], /^'self' data:( blob:)?$/);
  assert.equal(root.headers.get('x-content-type-options'), 'nosniff');
  assert.match(root.headers.get('referrer-policy'), /no-referrer|same-origin/);
  assert.match(root.headers.get('content-type'), /^text\/html/);
  assert.equal(root.headers.get('set-cookie'), null);
  let bytes = 0;
  const types = { js: /^(text|application)\/javascript/, css: /^text\/css/, svg: /^image\/svg\+xml/, webmanifest: /^application\/manifest\+json/ };
  for (const r of loaded) {
    assert.ok(r.url().startsWith(server.url), `${r.url()} is from elsewhere`);
    assert.equal(r.status(), 200, r.url());
    const ext = r.url().split('.').pop();
    if (types[ext]) assert.match(r.headers()['content-type'], types[ext], r.url());
    assert.equal(r.headers()['x-content-type-options'], 'nosniff', r.url());
    bytes += gzipSync(await r.body()).length;
  }
  // Every module is named in the page, so that they come at once and not one after the other.
  const named = await page.$$eval('link[rel=modulepreload]', (all) => all.map((l) => l.href));
  assert.deepEqual(loaded.map((r) => r.url()).filter((u) => u.endsWith('.js')).sort(), [...named].sort());
  console.log(`# first load: ${loaded.length} files, ${(bytes / 1024).toFixed(1)} KB gzipped`);
  assert.ok(loaded.length > 10);
  assert.ok(bytes <= 100 * 1024, `${bytes} bytes`);
  // What the page sends on to other sites: nothing.
  assert.equal(await page.getAttribute('meta[name=referrer]', 'content'), 'no-referrer');
  await clean(page);
  await page.context().close();
});

test('a log of 20,000 events is applied within 500 ms', async () => {
  const ron = await server.account('ron');
  const many = await makeRoom(server, ron, 'Many messages');
  const page = await enter(browser, server, ron, many);
  const ms = await page.evaluate(async () => {
    const { RoomLog } = await import('/log.js');
    const log = new RoomLog();
    log.begin(0);
    const start = performance.now();
    for (let seq = 1; seq <= 20_000; seq++) log.feed({ ev: 'message.created', room: 'r', seq, at: seq, sender: 'u', text: 'x' });
    return performance.now() - start;
  });
  assert.ok(ms < 500, `${ms} ms for 20,000 events`);
  await page.context().close();
});

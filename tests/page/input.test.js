// Keys: input methods (a word confirmed with Enter must not be sent), lines, and everything without a pointer.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { after, afterEach, before } from 'node:test';
import { Server, clean, enter, launch, leave, makeRoom, online, person, sendAll, shown, write } from './harness.js';

let server;
let browser;
let ann;
let bo;
let room;

before(async () => {
  server = await Server.start();
  browser = await launch();
  ann = await server.account('ann', 'Ann');
  bo = await server.account('bo', 'Bo');
  room = await makeRoom(server, ann, 'Keys', [bo]);
});
// A test that failed leaves its people behind; the next one must not meet them.
afterEach(() => leave(browser));
after(async () => {
  await browser?.close();
  await server?.stop();
});

// Composes a Japanese word with the browser's own input method events and confirms it with Enter; then the
// order of older Safari, where the composition has ended and only keyCode 229 tells. Returns how many
// messages were sent by that.
async function composeAndConfirm(page) {
  const sent = () => page.evaluate(() => document.querySelectorAll('.message').length);
  const start = await sent();
  await page.focus('#composer');
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Input.imeSetComposition', { text: 'かんじ', selectionStart: 3, selectionEnd: 3 });
  const enterKey = { key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13, nativeVirtualKeyCode: 13 };
  await cdp.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', ...enterKey });
  await cdp.send('Input.dispatchKeyEvent', { type: 'keyUp', ...enterKey });
  const during = (await sent()) - start;
  await cdp.send('Input.insertText', { text: '漢字' });
  await page.evaluate(() => {
    const key = new KeyboardEvent('keydown', { key: 'Enter', code: 'Enter', keyCode: 229, bubbles: true, cancelable: true });
    document.querySelector('#composer').dispatchEvent(key);
  });
  await page.evaluate(() => new Promise((r) => setTimeout(r, 300)));
  return { during, after: (await sent()) - start, field: await page.inputValue('#composer') };
}

test('Enter that confirms a composition never sends', async () => {
  const page = await enter(browser, server, ann, room);
  const composing = await page.evaluate(() => {
    window.flags = [];
    document.addEventListener('keydown', (e) => window.flags.push([e.key, e.isComposing, e.keyCode]), true);
  }).then(() => composeAndConfirm(page));
  const flags = await page.evaluate(() => window.flags);
  assert.ok(flags.some((f) => f[1] === true), `the browser was composing: ${JSON.stringify(flags)}`);
  assert.ok(flags.some((f) => f[1] === false && f[2] === 229), 'the order of older Safari was tried');
  assert.deepEqual({ during: composing.during, after: composing.after }, { during: 0, after: 0 });
  assert.ok(composing.field.includes('漢字'), composing.field);
  // The composed text goes out with the next Enter, once.
  await page.press('#composer', 'Enter');
  await page.waitForFunction(() => document.querySelectorAll('.message[data-seq]').length === 1);
  assert.ok((await shown(page))[0][1].includes('漢字'));
  await clean(page);
  await page.context().close();
});

for (const [what, from, to] of [
  ['without any guard', 'e.isComposing || e.keyCode === 229', 'false'],
  ['with isComposing alone', 'e.isComposing || e.keyCode === 229', 'e.isComposing'],
  ['with keyCode alone', 'e.isComposing || e.keyCode === 229', 'e.keyCode === 229 && !e.isComposing'],
]) {
  test(`that check sees a page ${what}`, async () => {
    const source = readFileSync(new URL('../../net/web/chat/view_composer.js', import.meta.url), 'utf8');
    assert.ok(source.includes(from), 'the guard is where this test changes it');
    const page = await person(browser, server, { account: ann });
    await page.route('**/view_composer.js', (r) => r.fulfill({ contentType: 'text/javascript', body: source.replace(from, to) }));
    await page.goto(`${server.url}/#/room/${room}`);
    await online(page);
    await page.waitForSelector('.message[data-seq]');
    const { during, after: sent } = await composeAndConfirm(page);
    assert.ok(during + sent > 0, 'it sent, and the check would have said so');
    await page.context().close();
  });
}

test('Shift+Enter makes a line; text is kept to the letter; blank is not sent; drafts stay', async () => {
  const page = await enter(browser, server, ann, room);
  const count = () => page.$$eval('.message', (m) => m.length);
  await page.waitForSelector('.message[data-seq]');
  const before = await count();
  await page.focus('#composer');
  await page.keyboard.type('  one');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('two  ');
  assert.equal(await count(), before);
  await page.keyboard.press('Enter');
  await page.waitForFunction((n) => document.querySelectorAll('.message[data-seq]').length === n, before + 1);
  assert.equal((await shown(page)).at(-1)[1], '  one\ntwo  ');
  for (const blank of ['', '   ', '\u3164', '\u200b']) {
    await page.fill('#composer', blank);
    await page.keyboard.press('Enter');
  }
  assert.equal(await count(), before + 1);
  await page.fill('#composer', 'unfinished');
  await page.goto(`${server.url}/#/`);
  await page.goto(`${server.url}/#/room/${room}`);
  assert.equal(await page.inputValue('#composer'), 'unfinished');
  // Over the limit: said, and not sent. The unit is code points.
  await page.fill('#composer', '👍'.repeat(4001));
  assert.match(await page.textContent('.composer-note'), /1 character too many/);
  assert.ok(await page.isDisabled('.send'));
  await page.fill('#composer', '👍'.repeat(4000));
  assert.ok(await page.isEnabled('.send'));
  await clean(page);
  await page.context().close();
});

test('a tour with keys alone', async () => {
  const page = await enter(browser, server, bo);
  await sendAll(server, ann, room, ['look https://example.com/ here', 'and here']);
  const focus = () => page.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.tagName);
  // Ctrl+K finds a room; Enter opens it; the composer has the focus.
  await page.keyboard.press('Control+k');
  await page.waitForFunction(() => document.activeElement.classList.contains('find'));
  await page.keyboard.type('key');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement.id === 'composer');
  await page.keyboard.type('typed');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.message.own[data-seq]');
  // Back one stop: the list; arrows walk, Escape returns.
  await page.keyboard.press('Shift+Tab');
  await page.waitForFunction(() => document.activeElement.closest('.messages'));
  await page.evaluate(() => document.querySelector('.scroller').focus());
  await page.keyboard.press('ArrowUp');
  assert.equal(await page.evaluate(() => document.activeElement.querySelector('.text').textContent), 'typed');
  await page.keyboard.press('ArrowUp');
  assert.equal(await page.evaluate(() => document.activeElement.querySelector('.text').textContent), 'and here');
  await page.keyboard.press('Home');
  assert.equal(await page.evaluate(() => document.activeElement === document.querySelector('.message')), true);
  await page.keyboard.press('Escape');
  assert.equal(await focus(), 'composer');
  // Every stop of a whole round shows its focus.
  const hidden = [];
  for (let i = 0; i < 30; i++) {
    await page.keyboard.press('Tab');
    const bad = await page.evaluate(() => {
      const e = document.activeElement;
      if (e === document.body) return null;
      const box = e.closest('.composer-box') ?? e;
      const s = getComputedStyle(box);
      const ring = (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2) || s.boxShadow !== 'none';
      return ring ? null : e.outerHTML.slice(0, 120);
    });
    if (bad) hidden.push(bad);
  }
  assert.deepEqual(hidden, []);
  // A dialog takes the focus and gives it back.
  await page.focus('[aria-label="New room"]');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement.id === 'create-name');
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.activeElement.getAttribute('aria-label') === 'New room');
  await page.keyboard.press('Enter');
  await page.keyboard.type('By keys');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.room-name')?.textContent === 'By keys' && document.activeElement.id === 'composer');
  await clean(page);
  await page.context().close();
});

test('what is spoken: others in the open room, bursts gathered, own ones not', async () => {
  const page = await enter(browser, server, bo, room);
  const other = await makeRoom(server, ann, 'Unheard', [bo]);
  assert.equal(await page.getAttribute('#spoken', 'role'), 'log');
  await sendAll(server, ann, room, ['say this']);
  await page.waitForFunction(() => /Ann.*: .*say this/.test(document.querySelector('#spoken').textContent));
  await write(page, 'not this');
  await page.waitForSelector('.message.own[data-seq] >> text=not this');
  await sendAll(server, ann, other, ['nor this']);
  await sendAll(server, ann, room, Array.from({ length: 10 }, (_, i) => `burst ${i}`));
  await page.waitForFunction(() => /\d+ new messages/.test(document.querySelector('#spoken').textContent));
  const spoken = await page.textContent('#spoken');
  assert.doesNotMatch(spoken, /not this|nor this|burst 9/);
  await clean(page);
  await page.context().close();
});

// What the page tests share: a real parleyd on random ports with a data folder of its own, a headless
// Chromium, and people who use the page. Every wait has a deadline; every page counts what it must not do.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const here = path.dirname(fileURLToPath(import.meta.url));
export const PARLEYD = path.resolve(process.env.PARLEYD ?? path.join(here, '../../build/release/parleyd'));
export const SHOTS = process.env.PARLEY_SHOTS ?? path.join(tmpdir(), 'parley-page-shots');
export const PASSWORD = 'correct horse battery';
mkdirSync(SHOTS, { recursive: true });

/** A deadline in ms; PARLEY_PATIENCE stretches all of them for a machine that is busy with other work. */
export const deadline = (ms) => ms * (Number(process.env.PARLEY_PATIENCE) || 1);

/** Resolves once `check()` is truthy, with its value; fails after `ms` and says `what` was awaited. */
export async function until(what, check, ms = 30_000) {
  const end = Date.now() + deadline(ms);
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${deadline(ms)} ms: ${what}`);
    await new Promise((r) => setTimeout(r, 20));
  }
}

export class Server {
  /** `settings`: {key: value} handed over as --set. */
  static async start(settings = {}) {
    const server = new Server();
    server.data = mkdtempSync(path.join(tmpdir(), 'parley-page-'));
    server.settings = settings;
    server.log = '';
    try {
      await server.up('127.0.0.1:0');
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  async up(listen) {
    if (!existsSync(PARLEYD)) throw new Error(`no parleyd at ${PARLEYD}: build it, or set PARLEYD`);
    const ports = path.join(this.data, 'parleyd.ports');
    rmSync(ports, { force: true });
    const sets = Object.entries(this.settings).flatMap(([k, v]) => ['--set', `${k}=${v}`]);
    const child = spawn(PARLEYD, ['serve', '--data', this.data, '--listen', listen, '--admin-listen', '127.0.0.1:0', ...sets], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const keep = (chunk) => {
      this.log = (this.log + chunk).slice(-20_000);
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    this.child = child;
    this.exited = new Promise((resolve) => {
      child.on('exit', resolve);
      child.on('error', (e) => {
        keep(String(e));
        resolve();
      });
    });
    let over = false;
    this.exited.then(() => {
      over = true;
    });
    try {
      const text = await until('parleyd.ports', () => {
        if (over) throw new Error('parleyd ended while starting');
        return existsSync(ports) && /^listen=.*\n/m.test(readFileSync(ports, 'utf8')) && readFileSync(ports, 'utf8');
      });
      this.listen = /^listen=(.*)$/m.exec(text)[1];
      this.url = `http://${this.listen}`;
      await until('readyz', async () => {
        try {
          return (await fetch(`${this.url}/readyz`)).status < 500;
        } catch {
          return false;
        }
      });
    } catch (error) {
      throw new Error(`${error.message}\n${this.log}`);
    }
  }

  /** SIGKILL: as sudden as a process can end. */
  async kill() {
    this.child.kill('SIGKILL');
    await this.exited;
  }

  /** Up again on the same port and data. */
  async again() {
    await this.up(this.listen);
  }

  async stop() {
    if (this.child && this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill('SIGTERM');
      const timer = setTimeout(() => this.child.kill('SIGKILL'), 10_000);
      await this.exited;
      clearTimeout(timer);
    }
    rmSync(this.data, { recursive: true, force: true });
  }

  async api(method, route, { token, body, status } = {}) {
    const response = await fetch(`${this.url}/api/v1${route}`, {
      method,
      headers: { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...(body ? { 'Content-Type': 'application/json' } : {}) },
      body: body ? JSON.stringify(body) : undefined,
    });
    const text = await response.text();
    if (status ? response.status !== status : !response.ok) throw new Error(`${method} ${route}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : {};
  }

  /** An invitation code, made through the admin listener. */
  async invitation() {
    const admin = /^admin=(.*)$/m.exec(readFileSync(path.join(this.data, 'parleyd.ports'), 'utf8'))[1];
    const token = readFileSync(path.join(this.data, 'admin.token'), 'utf8').trim();
    const response = await fetch(`http://${admin}/admin/invitations`, { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
    const text = await response.text();
    if (!response.ok) throw new Error(`invitation: ${response.status} ${text}`);
    const made = JSON.parse(text);
    return made.code ?? made.invitation;
  }

  /** A registered and logged-in user: {user, name, token}. */
  async account(name, display) {
    await this.api('POST', '/users', { body: { name, password: PASSWORD, display_name: display ?? name } });
    const login = await this.api('POST', '/login', { body: { name, password: PASSWORD } });
    return { ...login, name };
  }
}

export async function launch() {
  return chromium.launch({
    timeout: deadline(60_000),
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  });
}

/**
 * A browser context of its own with one page. `page.faults` collects dialogs, policy violations, errors on
 * the console and uncaught ones; a test ends with `clean(page)`.
 */
export async function person(browser, server, { account, ...options } = {}) {
  const context = await browser.newContext({ locale: 'en-US', timezoneId: 'Asia/Tokyo', viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(deadline(30_000));
  await context.addInitScript(() => {
    window.__violations = [];
    document.addEventListener('securitypolicyviolation', (e) => window.__violations.push(`${e.violatedDirective} ${e.blockedURI}`));
  });
  if (account) {
    await context.addInitScript((a) => {
      if (!sessionStorage.getItem('seeded')) {
        sessionStorage.setItem('seeded', '1');
        localStorage.setItem('parley.account', JSON.stringify(a));
      }
    }, { user: account.user, token: account.token, expires_at: account.expires_at });
  }
  const page = await context.newPage();
  page.faults = [];
  page.on('dialog', (d) => {
    page.faults.push(`dialog: ${d.message()}`);
    d.dismiss().catch(() => {});
  });
  page.on('pageerror', (e) => page.faults.push(`error: ${e.stack ?? e}`));
  page.on('console', (m) => {
    // A refused connection while the server is down is what the reconnect tests are about.
    if (m.type() === 'error' && !/ERR_CONNECTION|WebSocket connection|status of 4\d\d/.test(m.text())) page.faults.push(`console: ${m.text()}`);
  });
  return page;
}

/** Fails when the page showed a dialog, broke its policy or threw. */
export async function clean(...pages) {
  for (const page of pages) {
    const violations = await page.evaluate(() => window.__violations);
    const faults = [...page.faults, ...violations.map((v) => `policy: ${v}`)];
    if (faults.length) throw new Error(`the page did what it must not: ${faults.join('; ')}`);
  }
}

/** Closes every context that a test left open. */
export const leave = (browser) => Promise.all((browser?.contexts() ?? []).map((c) => c.close()));

export const online = (page) => page.waitForFunction(() => document.documentElement.dataset.conn === 'online');

/** Opens the page logged in, in `room` if given, and waits until it is live. */
export async function enter(browser, server, account, room, options = {}) {
  const page = await person(browser, server, { account, ...options });
  await page.goto(`${server.url}/${room ? `#/room/${room}` : ''}`);
  await online(page);
  if (room) await page.waitForSelector('.message-list .message, .message-list .between');
  return page;
}

/** Makes a room with members over a socket-free way where there is one: the page's own ops. */
export async function makeRoom(server, owner, name, members = [], kind = 'public') {
  const socket = await Socket.open(server, owner.token);
  const { room } = await socket.request('room.create', { name, kind });
  socket.close();
  for (const m of members) {
    const s = await Socket.open(server, m.token);
    if (kind !== 'public') {
      const o = await Socket.open(server, owner.token);
      await o.request('room.invite', { room, user: m.user });
      o.close();
    }
    await s.request('room.join', { room });
    s.close();
  }
  return room;
}

/** Sends `texts` in order, up to 50 under way at a time; returns their seqs. */
export async function sendAll(server, account, room, texts) {
  const s = await Socket.open(server, account.token);
  const seqs = [];
  const tag = Math.random().toString(36).slice(2);
  for (let i = 0; i < texts.length; i += 50) {
    const part = texts.slice(i, i + 50).map((text, j) => s.request('message.send', { room, nonce: `t${tag}-${i + j}`, text }));
    for (const answer of await Promise.all(part)) seqs.push(answer.seq);
  }
  s.close();
  return seqs;
}

/** A bare client of the wire contract, for preparing and checking; it shares no code with the page. */
export class Socket {
  static async open(server, token) {
    const { WebSocket } = await import('./ws_client.js');
    const s = new Socket();
    s.ws = new WebSocket(server.url.replace('http', 'ws') + '/ws', 'parley.v1');
    s.waiting = new Map();
    s.events = [];
    s.next = 1;
    s.closed = null;
    s.ws.onmessage = (text) => {
      const frame = JSON.parse(text);
      if (frame.re !== undefined) {
        const w = s.waiting.get(frame.re);
        s.waiting.delete(frame.re);
        if (frame.error) w?.reject(Object.assign(new Error(`${w.op}: ${frame.error.code} ${frame.error.message}`), frame.error));
        else w?.resolve(frame);
      } else {
        s.events.push(frame);
      }
    };
    s.ws.onclose = (code) => {
      s.closed = code;
      for (const w of s.waiting.values()) w.reject(new Error(`${w.op}: closed with ${code}`));
    };
    await s.ws.opened;
    s.hello = await s.request('hello', { token });
    return s;
  }

  request(op, fields = {}) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${op}: no answer`)), deadline(30_000));
      const end = (f) => (v) => {
        clearTimeout(timer);
        f(v);
      };
      this.waiting.set(id, { op, resolve: end(resolve), reject: end(reject) });
      this.ws.send(JSON.stringify({ op, id, ...fields }));
    });
  }

  close() {
    this.ws.close();
  }
}

export const percentile = (values, p) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil((p / 100) * sorted.length) - 1)];
};

/** The texts of the messages on the screen, top to bottom, as [seq, text]. */
export const shown = (page) =>
  page.$$eval('.message[data-seq]', (all) => all.map((m) => [Number(m.dataset.seq), m.querySelector('.text').textContent]));

export async function write(page, text) {
  await page.fill('#composer', text);
  await page.press('#composer', 'Enter');
}

/** No sideways scroll, and nothing wider than the window. */
export async function assertFits(page, where) {
  const wide = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const out = [];
    if (document.documentElement.scrollWidth > width) out.push(`document ${document.documentElement.scrollWidth} > ${width}`);
    const scroller = document.querySelector('.scroller');
    if (scroller && scroller.scrollWidth > scroller.clientWidth) out.push(`messages ${scroller.scrollWidth} > ${scroller.clientWidth}`);
    for (const el of document.querySelectorAll('body *')) {
      const r = el.getBoundingClientRect();
      if (r.width === 0 || r.height === 0 || el.closest('.offscreen, .skip')) continue;
      // What an ancestor cuts off (an ellipsis) is not seen; that ancestor itself is checked.
      let cut = false;
      for (let a = el.parentElement; a && !cut; a = a.parentElement) cut = ['hidden', 'clip'].includes(getComputedStyle(a).overflowX);
      if (!cut && (r.right > width + 1 || r.left < -1)) out.push(`${el.tagName}.${el.className} ${Math.round(r.left)}..${Math.round(r.right)}`);
    }
    return out;
  });
  if (wide.length) throw new Error(`${where}: wider than the window: ${wide.slice(0, 5).join('; ')}`);
}

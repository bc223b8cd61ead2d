// Joins connection and store: entering and resuming rooms, filling holes, history, the outbox, read
// marks, names, token renewal. The views call its verbs; it alone sends requests over the socket.

import { api } from './api.js';
import { Client, RequestError } from './client.js';
import { saveAccount } from './account.js';

const PAGE = 50;
const EVENTS_PAGE = 200;
const ENTER_MEMBERS = 100; // as many the answer of room.enter names, those online first
const LOGS_MAX = 20; // rooms whose log stays in memory
const ROOMS_MAX = 2000;
const KEEP_MESSAGES = 300; // of a log that is cut
const READ_EVERY_MS = 400;
const TYPING_EVERY_MS = 3_000;
const RETRY_MAX = 20;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const RETRYABLE = new Set(['rate_limited', 'overloaded', 'unavailable']);
const UNKNOWN = new Set(['lost', 'timeout', 'busy']);

export class Session {
  /** `account`: {user, token, expires_at}. `onEnd(why)`: 'unauthenticated', 'suspended' or a close code. */
  constructor(store, account, onEnd) {
    this.store = store;
    this.account = account;
    this.onEnd = onEnd;
    this.ended = false;
    this.holding = false; // a new password is under way: a 4001 is expected
    this.wanted = new Set(); // users whose names are asked for
    this.namesTimer = null;
    this.filling = new Set();
    this.flushing = new Set();
    this.opened = []; // rooms with a log, the latest last
    this.enterRun = 0;
    this.readWanted = new Map();
    this.readTimer = null;
    this.typingAt = 0;
    this.renewing = null;
    const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
    this.client = new Client(`${scheme}//${location.host}/ws`, {
      hello: () => ({ token: this.account.token, client: 'parley-page/1' }),
      onHello: (answer) => this._hello(answer),
      onEvent: (ev) => this._event(ev),
      onState: () => {
        store.changed('conn');
        if (!this.client.online) for (const room of store.rooms.values()) this._offline(room);
      },
      onStop: (code) => {
        store.changed('conn');
        if (code === 4001 && !this.holding) this._end('unauthenticated');
        else if (code === 4003) this._end('suspended');
      },
    });
  }

  start() {
    this.client.start();
  }

  end() {
    this.ended = true;
    clearTimeout(this.namesTimer);
    clearTimeout(this.readTimer);
    this.client.stop();
  }

  _end(why) {
    if (this.ended) return;
    this.end();
    this.onEnd(why);
  }

  _offline(room) {
    room.entered = false;
    room.readSent = 0;
    room.typing.clear();
    this.store.changed(`typing:${room.id}`);
  }

  // ---- hello and the room list

  _hello(answer) {
    const store = this.store;
    if (store.epoch !== null && store.epoch !== answer.epoch) store.dropLogs();
    store.epoch = answer.epoch;
    store.me = answer.user;
    store.limits = answer.limits ?? {};
    store.mergeUser(answer.user);
    const listed = new Set();
    this._takeRooms(answer.rooms ?? [], listed);
    if (answer.rooms_next) this._moreRooms(answer.rooms_next, listed);
    else this._roomsComplete(listed);
    store.changed('all');
    store.loadOutbox();
    if (store.openRoom) this._enter(store.openRoom);
    for (const room of store.rooms.values()) if (room.outbox.length) this._flush(room);
    this._renewIfOld();
  }

  _takeRooms(list, listed) {
    for (const fields of list) {
      listed.add(fields.room);
      const room = this.store.mergeRoom(fields);
      if (room.last?.sender) this.need(room.last.sender);
    }
    this.store.changed('rooms');
  }

  async _moreRooms(cursor, listed) {
    const client = this.client;
    try {
      while (cursor && listed.size < ROOMS_MAX) {
        const answer = await client.request('rooms', { cursor });
        this._takeRooms(answer.rooms, listed);
        cursor = answer.rooms_next;
      }
      if (!cursor) this._roomsComplete(listed);
    } catch (error) {
      if (!UNKNOWN.has(error.code)) setTimeout(() => client.online && this._moreRooms(cursor, listed), 3000);
    }
  }

  // Rooms that the whole list no longer names were left or deleted while this page was away.
  _roomsComplete(listed) {
    this.store.roomsComplete = true;
    for (const room of [...this.store.rooms.values()]) {
      if (room.role && !listed.has(room.id) && !room.fresh) this._gone(room);
      room.fresh = false;
    }
    this.store.changed('rooms');
  }

  _gone(room) {
    room.role = null;
    room.log.reset();
    room.people.clear();
    room.entered = false;
    if (this.store.openRoom !== room.id) this.store.removeRoom(room.id);
    else this._lookUp(room);
    this.store.changed('rooms');
    this.store.changed(`room:${room.id}`);
    this.store.changed(`log:${room.id}`);
  }

  // ---- entering

  /** Shows a room: exits the one before, enters this one, resuming where its log stands. */
  open(id) {
    const store = this.store;
    const before = store.openRoom;
    if (before === id) return;
    store.openRoom = id;
    if (before) this._exit(before);
    store.changed('rooms');
    if (!id) return;
    const room = store.ensureRoom(id);
    this.opened = this.opened.filter((r) => r !== id);
    this.opened.push(id);
    while (this.opened.length > LOGS_MAX) {
      const old = store.room(this.opened.shift());
      if (old) old.log.reset();
    }
    if (!room.log.tail) room.log.reset(); // it was left far back: it opens at its newest page
    store.changed(`room:${id}`);
    store.changed(`log:${id}`);
    if (this.client.online) this._enter(id);
  }

  _exit(id) {
    const room = this.store.room(id);
    if (!room) return;
    if (!room.role) {
      this.store.removeRoom(id);
      return;
    }
    room.entered = false;
    room.typing.clear();
    if (room.log.tail) room.log.trimOld(KEEP_MESSAGES);
    if (this.client.online) this.client.request('room.exit', { room: id }).catch(() => {});
  }

  async _enter(id) {
    const room = this.store.room(id);
    if (!room) return;
    const run = ++this.enterRun;
    const log = room.log;
    if (room.logEpoch !== this.store.epoch) log.reset();
    const resume = log.seq !== null && log.loaded;
    if (!resume) log.reset();
    const fields = { room: id, epoch: this.store.epoch };
    if (resume) fields.after_seq = log.seq;
    try {
      const answer = await this.client.request('room.enter', fields);
      if (this.store.openRoom !== id) return;
      const gaps = answer.gap ?? [];
      if (!resume || answer.reset) log.begin(answer.last_seq);
      // What is not replayed is read as history, from the newest page down: nothing is missing on the
      // screen, and every event after the gap is still applied one by one.
      else if (gaps.length) log.begin(Math.max(...gaps.map((g) => g.to)));
      room.logEpoch = this.store.epoch;
      room.entered = true;
      room.state = 'entered';
      room.role ??= 'member';
      room.read_seq = Math.max(room.read_seq, answer.read_seq ?? 0);
      room.last_seq = Math.max(room.last_seq, answer.last_seq);
      if (answer.members) {
        this.store.mergePeople(room, answer.members, true);
        // The list may be a second old; oneself is here for certain.
        const me = room.people.get(this.store.me.user);
        if (me) me.online = true;
        const seen = [...room.people.values()].filter((p) => p.online).length;
        room.online = seen < ENTER_MEMBERS ? seen : Math.max(seen, room.online);
        room.members = Math.max(room.members, answer.members.length);
        const mine = answer.members.find((m) => m.user === this.store.me.user);
        if (mine) room.role = mine.role;
      }
      this.store.changed(`room:${id}`);
      this.store.changed('rooms');
      if (!log.loaded) await this.loadNewest(room);
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      if (UNKNOWN.has(error.code) || this.store.openRoom !== id || run !== this.enterRun) return;
      if (error.code === 'not_found' || error.code === 'forbidden') {
        room.role = null;
        await this._lookUp(room);
      } else {
        await wait(error.retry_after_ms ?? 2000);
        if (this.client.online && this.store.openRoom === id && !room.entered) this._enter(id);
      }
    }
  }

  // A room one does not belong to: its card, where it is public, else only that it cannot be seen.
  async _lookUp(room) {
    room.state = 'loading';
    try {
      const card = await api.room(this.account.token, room.id);
      for (const key of ['name', 'kind', 'topic', 'members']) if (card[key] !== undefined) room[key] = card[key];
      room.state = 'outside';
    } catch (error) {
      room.state = error.code === 'not_found' || error.code === 'forbidden' ? 'hidden' : 'outside';
    }
    this.store.changed(`room:${room.id}`);
  }

  // ---- history

  loadNewest(room) {
    const unread = room.unread > PAGE - 10 ? Math.min(200, room.unread + 20) : PAGE;
    return this._history(room, 'newest', { limit: unread });
  }

  loadOlder(room) {
    const first = room.log.messages[0];
    if (!room.log.older || !first) return Promise.resolve();
    return this._history(room, 'older', { before_seq: first.seq, limit: PAGE });
  }

  loadNewer(room) {
    const last = room.log.messages[room.log.messages.length - 1];
    if (room.log.tail || !last) return Promise.resolve();
    return this._history(room, 'newer', { after_seq: last.seq, limit: PAGE });
  }

  /** From far back to the newest messages. */
  async jumpToLatest(room) {
    if (room.log.tail) return;
    room.log.dropMessages();
    await this.loadNewest(room);
  }

  async _history(room, where, fields) {
    const key = `loading_${where}`;
    if (room[key] === room.log.generation || !this.client.online) return;
    const log = room.log;
    const generation = log.generation;
    room[key] = generation;
    this.store.changed(`log:${room.id}`);
    try {
      for (let tries = 0; tries < RETRY_MAX; tries++) {
        log.historyBegins();
        let page = null;
        try {
          page = await this.client.request('history', { room: room.id, ...fields });
        } catch (error) {
          if (log.generation === generation) log.historyEnds(where, null);
          if (!RETRYABLE.has(error.code) || log.generation !== generation) return;
          await wait(error.retry_after_ms ?? 1000);
          continue;
        }
        if (log.generation !== generation) return;
        if (log.historyEnds(where, page)) {
          for (const m of page.messages) {
            this.need(m.sender);
            if (m.nonce) this.store.takeFromOutbox(room, m.nonce, m.seq);
          }
          if (where === 'older' && log.messages.length > 2000) log.trimNew(1500);
          if (where === 'newer' && log.messages.length > 2000) log.trimOld(1500);
          return;
        }
      }
    } finally {
      if (room[key] === generation) room[key] = null;
      this.store.changed(`log:${room.id}`);
    }
  }

  // ---- events

  _event(ev) {
    const store = this.store;
    if (ev.seq !== undefined && ev.room) {
      this._roomEvent(ev);
      return;
    }
    const room = ev.room ? store.room(ev.room) : undefined;
    switch (ev.ev) {
      case 'unread':
        for (const r of ev.rooms ?? []) store.mergeRoom(r);
        store.changed('rooms');
        break;
      case 'room.updated':
        store.mergeRoom(ev);
        if (ev.last?.sender) this.need(ev.last.sender);
        store.changed('rooms');
        store.changed(`room:${ev.room}`);
        break;
      case 'room.mine':
        this._mine(ev, room);
        break;
      case 'typing':
        if (room) {
          this.need(ev.user);
          store.setTyping(room, ev.user, ev.on !== false);
        }
        break;
      case 'presence':
        if (room) this._presence(room, ev.users ?? []);
        break;
      case 'user.updated':
        for (const u of ev.users ?? []) store.mergeUser(u);
        break;
      case 'token.expiring':
        this.renew();
        break;
      case 'sync':
        this._sync(ev.rooms);
        break;
      default:
        break; // unknown events are ignored
    }
  }

  _roomEvent(ev) {
    const room = this.store.room(ev.room);
    if (!room) return;
    if (ev.sender) this.need(ev.sender);
    if (room.log.seq === null) {
      // Entered by a send alone, or its answer is still to come: only the list's line is kept.
      this.store.roomEvent(room, ev);
      return;
    }
    const applied = room.log.feed(ev);
    if (applied === null) {
      this._fill(room, ev.seq);
      return;
    }
    for (const one of applied) {
      this.store.roomEvent(room, one);
      if (one.ev === 'message.created' && this.onMessage) this.onMessage(room, one);
    }
    if (room.log.tail && room.log.messages.length > 1000 && !this.keepOld?.(room)) room.log.trimOld(500);
  }

  // Reads what is missing up to `upTo`. One run per room; what comes meanwhile is held by the log.
  async _fill(room, upTo) {
    room.fillTo = Math.max(room.fillTo ?? 0, upTo);
    if (this.filling.has(room.id)) return;
    this.filling.add(room.id);
    const log = room.log;
    const generation = log.generation;
    try {
      while (log.generation === generation && log.seq !== null && log.seq < room.fillTo && this.client.online) {
        const before = log.seq;
        const page = await this.client.request('events', { room: room.id, after_seq: before, limit: EVENTS_PAGE });
        if (log.generation !== generation) return;
        if (page.gap?.length) break;
        for (const ev of page.events ?? []) {
          for (const one of log.feed({ room: room.id, ...ev }) ?? []) this.store.roomEvent(room, one);
        }
        if (log.seq === before) break;
      }
      // No way to fill it: start the room anew from its newest page.
      if (log.generation === generation && log.seq < room.fillTo && this.client.online) {
        log.reset();
        if (this.store.openRoom === room.id) this._enter(room.id);
      }
    } catch (error) {
      if (RETRYABLE.has(error.code)) {
        await wait(error.retry_after_ms ?? 1000);
        this.filling.delete(room.id);
        if (log.seq !== null && log.seq < room.fillTo) this._fill(room, room.fillTo);
      }
    } finally {
      this.filling.delete(room.id);
      room.fillTo = 0;
      this.store.changed(`log:${room.id}`);
    }
  }

  // The last seq of entered rooms: a tail that got lost on a quiet room shows here.
  _sync(rooms) {
    const list = Array.isArray(rooms) ? rooms.map((r) => [r.room, r.last_seq]) : Object.entries(rooms ?? {});
    for (const [id, lastSeq] of list) {
      const room = this.store.room(id);
      if (room && room.entered && room.log.seq !== null && lastSeq > room.log.seq) this._fill(room, lastSeq);
    }
  }

  _mine(ev, room) {
    if (ev.gone) {
      if (room) this._gone(room);
      return;
    }
    const known = room && room.role && room.name;
    const merged = this.store.mergeRoom(ev);
    merged.fresh = true;
    this.store.changed('rooms');
    this.store.changed(`room:${ev.room}`);
    if (!known) {
      api.room(this.account.token, ev.room).then(
        (card) => {
          this.store.mergeRoom({ ...card, room: ev.room });
          this.store.changed('rooms');
          this.store.changed(`room:${ev.room}`);
        },
        () => {}, // room.updated will tell its name
      );
    }
    if (this.store.openRoom === ev.room && !merged.entered) this._enter(ev.room);
  }

  _presence(room, users) {
    for (const u of users) {
      const person = room.people.get(u.user);
      if (!person) continue;
      if (person.online !== Boolean(u.online)) room.online = Math.max(0, room.online + (u.online ? 1 : -1));
      person.online = Boolean(u.online);
    }
    this.store.changed(`room:${room.id}`);
  }

  // ---- sending

  send(room, text) {
    if (!this.store.queue(room, text)) return false;
    this.typingAt = 0;
    this._flush(room);
    return true;
  }

  retry(room, nonce) {
    const item = room.outbox.find((o) => o.nonce === nonce);
    if (!item || item.state !== 'failed') return;
    this.store.setOutboxState(room, item, 'queued');
    this._flush(room);
  }

  // One at a time per room, so that a refusal cannot let a later message overtake an earlier one.
  async _flush(room) {
    if (this.flushing.has(room.id) || !this.client.online) return;
    this.flushing.add(room.id);
    let refusals = 0;
    try {
      for (;;) {
        const item = room.outbox.find((o) => o.state === 'queued');
        if (!item || !this.client.online) return;
        this.store.setOutboxState(room, item, 'sending');
        try {
          const fields = { room: room.id, nonce: item.nonce, text: item.text };
          const answer = await this.client.request('message.send', fields);
          item.seq = answer.seq;
          const followed = room.entered && room.log.seq !== null && answer.seq > room.log.seq;
          if (room.outbox.includes(item)) {
            if (followed) this.store.setOutboxState(room, item, 'stored');
            else this.store.takeFromOutbox(room, item.nonce, answer.seq);
          }
          refusals = 0;
        } catch (error) {
          if (!(error instanceof RequestError)) throw error;
          if (UNKNOWN.has(error.code)) {
            this.store.setOutboxState(room, item, 'queued'); // sent again after the next hello
            return;
          }
          if (RETRYABLE.has(error.code) && ++refusals <= RETRY_MAX) {
            this.store.setOutboxState(room, item, 'queued');
            await wait(error.retry_after_ms ?? Math.min(500 * 2 ** refusals, 15_000));
          } else {
            this.store.setOutboxState(room, item, 'failed', error.code);
          }
        }
      }
    } finally {
      this.flushing.delete(room.id);
      // A send enters its room; one that is not looked at is left again.
      if (this.store.openRoom !== room.id && this.client.online) {
        this.client.request('room.exit', { room: room.id }).catch(() => {});
      }
    }
  }

  // ---- reading, typing, names

  /** Wishes the read mark at `seq`; sent at most every READ_EVERY_MS, and only forward. */
  markRead(room, seq) {
    if (seq <= room.read_seq || seq <= (this.readWanted.get(room.id) ?? 0)) return;
    if (seq <= (room.readSent ?? 0)) return; // its answer is still to come
    room.seen = Math.max(room.seen, seq);
    this.readWanted.set(room.id, seq);
    if (!this.readTimer) {
      this._sendReads();
      this.readTimer = setTimeout(() => {
        this.readTimer = null;
        this._sendReads();
      }, READ_EVERY_MS);
    }
  }

  _sendReads() {
    const wanted = [...this.readWanted];
    this.readWanted.clear();
    if (!this.client.online) return;
    for (const [id, seq] of wanted) {
      const room = this.store.room(id);
      if (!room || seq <= room.read_seq) continue;
      room.readSent = seq;
      this.client.request('message.read', { room: id, seq }).then(
        (answer) => {
          const asOf = Math.max(room.log.seq ?? 0, room.last_seq);
          this.store.setCounts(room, answer, asOf);
          this.store.changed('rooms');
          this.store.changed(`room:${id}`);
        },
        () => {
          room.readSent = 0; // the next message or the next look marks again
        },
      );
    }
  }

  typing(room, on) {
    const now = Date.now();
    if (on && now - this.typingAt < TYPING_EVERY_MS) return;
    if (!on && this.typingAt === 0) return;
    this.typingAt = on ? now : 0;
    this.client.notify('typing', on ? { room: room.id } : { room: room.id, on: false });
  }

  /** Asks for a user's name if it is not known; gathered for one request. */
  need(user) {
    if (!user || this.store.users.has(user) || this.wanted.size > 5000) return;
    this.wanted.add(user);
    this.namesTimer ??= setTimeout(() => this._askNames(), 20);
  }

  async _askNames() {
    const batch = [...this.wanted].filter((u) => !this.store.users.has(u)).slice(0, 100);
    try {
      if (batch.length && this.client.online) {
        const answer = await this.client.request('users', { users: batch });
        for (const u of answer.users ?? []) this.store.mergeUser(u);
        // One the server does not tell of stays an id; it is not asked for again and again.
        for (const u of batch) if (!this.store.users.has(u)) this.store.mergeUser({ user: u });
        for (const u of batch) this.wanted.delete(u);
      }
    } catch {
      await wait(2000);
    }
    for (const u of this.wanted) if (this.store.users.has(u)) this.wanted.delete(u);
    this.namesTimer = this.wanted.size && !this.ended ? setTimeout(() => this._askNames(), this.client.online ? 20 : 2000) : null;
  }

  // ---- rooms

  async createRoom(name, kind) {
    const answer = await this.client.request('room.create', { name, kind });
    const room = this.store.mergeRoom({ room: answer.room, name, kind, role: 'owner' });
    room.fresh = true;
    room.members = Math.max(1, room.members);
    room.last_at ??= Date.now();
    this.store.changed('rooms');
    return answer.room;
  }

  async join(id) {
    const answer = await this.client.request('room.join', { room: id });
    const room = this.store.ensureRoom(id);
    room.role ??= 'member';
    room.fresh = true;
    room.last_at ??= Date.now();
    room.read_seq = Math.max(room.read_seq, answer.seq);
    this.store.changed('rooms');
    this.store.changed(`room:${id}`);
    if (this.store.openRoom === id && !room.entered) await this._enter(id);
  }

  async leave(id) {
    await this.client.request('room.leave', { room: id });
    const room = this.store.room(id);
    if (room) {
      room.role = null;
      this.store.openRoom === id ? this._gone(room) : this.store.removeRoom(id);
    }
  }

  invite(id, user) {
    return this.client.request('room.invite', { room: id, user });
  }

  change(id, fields) {
    return this.client.request('room.change', { room: id, ...fields });
  }

  /** Everyone of a room, page by page (the enter's answer names only the first hundred). */
  async loadMembers(room) {
    let cursor = null;
    do {
      const page = await api.members(this.account.token, room.id, cursor);
      this.store.mergePeople(room, page.members ?? [], false);
      cursor = page.next ?? null;
    } while (cursor && room.people.size < 2000);
  }

  // ---- the token

  /** Gets a new token and puts it under the living connection. One at a time. */
  renew() {
    this.renewing ??= this._renew().finally(() => {
      this.renewing = null;
    });
    return this.renewing;
  }

  async _renew() {
    for (let tries = 0; tries < 5 && !this.ended; tries++) {
      try {
        const fresh = await api.renew(this.account.token);
        this.setToken({ ...this.account, token: fresh.token, expires_at: fresh.expires_at, since: Date.now() });
        saveAccount(this.account);
        return;
      } catch (error) {
        if (error.code === 'unauthenticated' || error.code === 'suspended') {
          this._end(error.code);
          return;
        }
        await wait((error.retryAfter ?? 3) * 1000);
      }
    }
  }

  /**
   * A new password ends all sessions, this one's socket too, and brings a new token: the connection
   * comes back with it. Throws ApiError where it is refused.
   */
  async changePassword(password, newPassword) {
    this.holding = true;
    try {
      const fresh = await api.changePassword(this.account.token, password, newPassword);
      this.account = { ...this.account, token: fresh.token, expires_at: fresh.expires_at, since: Date.now() };
      saveAccount(this.account);
      this.client.restart();
    } finally {
      this.holding = false;
      if (this.client.state === 'stopped' && this.client.stopCode === 4001) this._end('unauthenticated');
    }
  }

  /** A token renewed here or in another tab. */
  setToken(account) {
    const changed = account.token !== this.account.token;
    this.account = account;
    if (changed && this.client.online) {
      this.client.request('token.renew', { token: account.token }).catch(() => {});
    }
  }

  _renewIfOld() {
    const { since, expires_at: ends } = this.account;
    if (since && ends && Date.now() > (since + ends) / 2) this.renew();
  }
}

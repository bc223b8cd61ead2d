// What the page knows: the user, the rooms with their counters, other people, messages waiting to go out.
// The session writes here, the views read and subscribe. Pure state: no socket, no DOM.

import { RoomLog } from './log.js';

const FRAME_MS = 16;
const OUTBOX_MAX = 100; // messages of one room waiting to go out
const MEMBERS_MAX = 2000; // of one room that are kept by name
const TYPING_MS = 6_000; // a `typing` ends by itself when its end got lost

export class Store {
  constructor() {
    this.listeners = new Set();
    this.dirty = new Set();
    this.flushedAt = 0;
    this.clear();
  }

  clear() {
    this.me = null;
    this.epoch = null;
    this.limits = {};
    this.rooms = new Map();
    this.users = new Map();
    this.openRoom = null;
    this.drafts = new Map();
    this.roomsComplete = false;
    this.changed('all');
  }

  /** Calls `listener(topics)` at most once per frame, when something changed. Returns the unsubscriber. */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Topics: all, conn, me, rooms, users, room:ID (header, members), log:ID (messages), typing:ID. */
  changed(topic) {
    const first = this.dirty.size === 0;
    this.dirty.add(topic);
    if (first) this._soon();
  }

  // A change after a pause is drawn at once. In a stream of them, what comes within one frame is drawn
  // once; hidden pages get no frames, and their title and badges must still move, so a timer stands behind.
  _soon() {
    const flush = () => this.flush();
    if (performance.now() - this.flushedAt > FRAME_MS) {
      queueMicrotask(flush);
      return;
    }
    if (globalThis.document?.visibilityState === 'visible') requestAnimationFrame(flush);
    setTimeout(flush, 50);
  }

  flush() {
    if (this.dirty.size === 0) return;
    const topics = this.dirty;
    this.dirty = new Set();
    for (const listener of [...this.listeners]) listener(topics);
    this.flushedAt = performance.now(); // after drawing: a slow drawing must not make for more of them
  }

  room(id) {
    return this.rooms.get(id);
  }

  /** The room's entry, made when it is not there yet (a link to a room one may not belong to). */
  ensureRoom(id) {
    let room = this.rooms.get(id);
    if (!room) {
      room = {
        id,
        name: '',
        kind: '',
        topic: '',
        last_seq: 0,
        last: null,
        online: 0,
        members: 0,
        role: null, // null: not a member, as far as this page knows
        unread: 0,
        mentions: 0,
        read_seq: 0,
        seen: 0, // what this page has marked, its answer come or not
        countSeq: 0, // unread and mentions are exact as of this seq
        pinned: false,
        order: 0,
        log: new RoomLog(),
        logEpoch: null,
        outbox: [],
        people: new Map(), // user -> {role, online}
        peopleKnown: false,
        typing: new Map(), // user -> when it ends
        reads: new Map(),
      };
      this.rooms.set(id, room);
    }
    return room;
  }

  /** Takes the fields of room.updated, unread and room.mine, in any mixture. */
  mergeRoom(fields) {
    const room = this.ensureRoom(fields.room);
    for (const key of ['name', 'kind', 'topic', 'online', 'members', 'role', 'pinned', 'order', 'level']) {
      if (fields[key] !== undefined) room[key] = fields[key];
    }
    if (fields.name !== undefined && fields.topic === undefined) room.topic = '';
    if (fields.last !== undefined) room.last = fields.last;
    if (fields.last_seq !== undefined) room.last_seq = Math.max(room.last_seq, fields.last_seq);
    if (fields.unread !== undefined) this.setCounts(room, fields, fields.last_seq ?? room.last_seq);
    return room;
  }

  setCounts(room, { unread, mentions, read_seq }, asOf) {
    if (asOf < room.countSeq) {
      // An older frame than what was counted already: only its read mark is news.
      if (read_seq > room.read_seq) {
        room.read_seq = read_seq;
        if (room.log.tail && room.log.messages[0]?.seq <= read_seq) {
          const later = room.log.messages.slice(room.log.indexOf(read_seq + 1));
          room.unread = later.filter((m) => m.sender !== this.me?.user && !m.deleted).length;
        }
      }
      return;
    }
    room.unread = unread;
    room.mentions = mentions ?? 0;
    if (read_seq !== undefined) room.read_seq = Math.max(room.read_seq, read_seq);
    room.countSeq = asOf;
  }

  removeRoom(id) {
    const room = this.rooms.get(id);
    if (!room) return;
    this.rooms.delete(id);
    this.changed('rooms');
    this.changed(`room:${id}`);
  }

  /** Forgets every log: the numbers may name other events now (another epoch). */
  dropLogs() {
    for (const room of this.rooms.values()) {
      room.log.reset();
      room.logEpoch = null;
      room.countSeq = 0;
      room.last_seq = 0;
      room.read_seq = 0;
      room.seen = 0;
      room.people.clear();
      room.peopleKnown = false;
      this.changed(`log:${room.id}`);
    }
    this.changed('rooms');
  }

  /** Rooms one belongs to, the pinned first, then by last activity. */
  roomList() {
    const list = [...this.rooms.values()].filter((r) => r.role);
    const at = (r) => r.last?.at ?? r.last_at ?? 0;
    list.sort((a, b) => Number(b.pinned) - Number(a.pinned) || at(b) - at(a) || (a.id < b.id ? -1 : 1));
    return list;
  }

  totals() {
    let unread = 0;
    let mentions = 0;
    for (const room of this.rooms.values()) {
      if (!room.role) continue;
      unread += room.unread;
      mentions += room.mentions;
    }
    return { unread, mentions };
  }

  // ---- people

  mergeUser(fields) {
    const old = this.users.get(fields.user);
    const name = fields.name ?? old?.name ?? '';
    const display = fields.display_name ?? old?.display_name ?? '';
    const deleted = fields.deleted ?? old?.deleted ?? false;
    if (old && old.name === name && old.display_name === display && old.deleted === deleted) return;
    this.users.set(fields.user, { user: fields.user, name, display_name: display, deleted });
    if (this.me && this.me.user === fields.user) {
      this.me = { ...this.me, name, display_name: display };
      this.changed('me');
    }
    this.changed('users');
  }

  /** What to call a user: display name, else name, else the id. */
  nameOf(user) {
    const known = this.users.get(user);
    return known?.display_name || known?.name || user || '';
  }

  mergePeople(room, list, whole) {
    if (whole) room.people.clear();
    for (const m of list) {
      this.mergeUser(m);
      if (room.people.size < MEMBERS_MAX || room.people.has(m.user)) {
        room.people.set(m.user, { role: m.role ?? 'member', online: Boolean(m.online) });
      }
    }
    room.peopleKnown = true;
    this.changed(`room:${room.id}`);
  }

  // ---- events of a room

  /** One event that the log has just applied (or of a room whose log is not followed). */
  roomEvent(room, ev) {
    room.last_seq = Math.max(room.last_seq, ev.seq);
    switch (ev.ev) {
      case 'message.created':
        this._created(room, ev);
        break;
      case 'message.updated':
      case 'message.deleted':
        if (room.last && room.last.seq === ev.target) {
          room.last = { ...room.last, text: ev.text ?? '', deleted: ev.ev === 'message.deleted' };
        }
        break;
      case 'member.joined':
        this.mergeUser(ev);
        if (!room.people.has(ev.user)) {
          // Whether they are here, `presence` says within a second.
          room.members++;
          if (room.people.size < MEMBERS_MAX) room.people.set(ev.user, { role: ev.role ?? 'member', online: false });
        }
        break;
      case 'member.changed':
        this.mergeUser(ev);
        if (ev.role && room.people.has(ev.user)) room.people.get(ev.user).role = ev.role;
        if (ev.role && ev.user === this.me?.user && room.role) room.role = ev.role;
        break;
      case 'member.left':
        if (room.people.get(ev.user)?.online) room.online = Math.max(0, room.online - 1);
        room.people.delete(ev.user);
        room.typing.delete(ev.user);
        room.members = Math.max(0, room.members - 1);
        break;
      case 'members.changed':
        room.members = Math.max(0, room.members + (ev.joined ?? 0) - (ev.left ?? 0));
        break;
      case 'room.changed':
        if (ev.name !== undefined) room.name = ev.name;
        if (ev.topic !== undefined) room.topic = ev.topic;
        break;
      default:
        break;
    }
    this.changed(`log:${room.id}`);
    this.changed(`room:${room.id}`);
    this.changed('rooms');
  }

  _created(room, ev) {
    const own = ev.sender === this.me?.user;
    room.typing.delete(ev.sender);
    if (!room.last || ev.seq > room.last.seq) {
      room.last = { seq: ev.seq, sender: ev.sender, text: ev.text ?? '', at: ev.at, deleted: ev.deleted };
    }
    if (own) {
      this.takeFromOutbox(room, ev.nonce, ev.seq);
      if (ev.seq >= room.countSeq) {
        // A send moves the sender's read mark to it in the same commit.
        room.unread = 0;
        room.mentions = 0;
        room.countSeq = ev.seq;
      }
      room.read_seq = Math.max(room.read_seq, ev.seq);
    } else if (ev.seq > room.countSeq) {
      if (!ev.deleted && ev.seq > room.read_seq) {
        room.unread++;
        if (ev.mentions?.includes(this.me?.user) || ev.mentions?.includes('@all')) room.mentions++;
      }
      room.countSeq = ev.seq;
    }
  }

  setTyping(room, user, on) {
    if (on) room.typing.set(user, Date.now() + TYPING_MS);
    else room.typing.delete(user);
    this.changed(`typing:${room.id}`);
  }

  typingUsers(room) {
    const now = Date.now();
    for (const [user, ends] of room.typing) if (ends <= now) room.typing.delete(user);
    return [...room.typing.keys()].filter((u) => u !== this.me?.user);
  }

  // ---- outbox

  /** Puts a message into the room's outbox; false when it is full. */
  queue(room, text) {
    if (room.outbox.length >= OUTBOX_MAX) return false;
    room.outbox.push({ nonce: newNonce(), text, at: Date.now(), state: 'queued', rev: 0 });
    this.saveOutbox();
    this.changed(`log:${room.id}`);
    return true;
  }

  setOutboxState(room, item, state, error = null) {
    item.state = state;
    item.error = error;
    item.rev++;
    this.saveOutbox();
    this.changed(`log:${room.id}`);
  }

  /** Takes out what has become a message: by nonce, or by the seq its `ok` named. */
  takeFromOutbox(room, nonce, seq) {
    const i = room.outbox.findIndex((o) => (nonce && o.nonce === nonce) || (o.seq !== undefined && o.seq === seq));
    if (i < 0) return;
    const [item] = room.outbox.splice(i, 1);
    const m = room.log.find(seq);
    if (m) m.nonce = item.nonce; // keeps the echo's place on the screen
    this.saveOutbox();
    this.changed(`log:${room.id}`);
  }

  discard(room, nonce) {
    room.outbox = room.outbox.filter((o) => o.nonce !== nonce);
    this.saveOutbox();
    this.changed(`log:${room.id}`);
  }

  /** What is not stored yet survives a reload of the tab; the nonce makes a second send harmless. */
  saveOutbox() {
    if (!this.me) return;
    const all = [];
    for (const room of this.rooms.values()) {
      for (const { nonce, text, at, state, error } of room.outbox) {
        if (state !== 'stored') all.push({ room: room.id, nonce, text, at, failed: state === 'failed' ? error : null });
      }
    }
    try {
      if (all.length) sessionStorage.setItem('parley.outbox', JSON.stringify({ user: this.me.user, all }));
      else sessionStorage.removeItem('parley.outbox');
    } catch {
      // storage refused or full: the outbox lives in memory only
    }
  }

  loadOutbox() {
    let saved = null;
    try {
      saved = JSON.parse(sessionStorage.getItem('parley.outbox') ?? 'null');
    } catch {
      return;
    }
    if (!saved || saved.user !== this.me?.user || !Array.isArray(saved.all)) return;
    for (const { room: id, nonce, text, at, failed } of saved.all) {
      const room = this.ensureRoom(id); // one not listed yet: the server decides
      if (room.outbox.some((o) => o.nonce === nonce) || room.outbox.length >= OUTBOX_MAX) continue;
      room.outbox.push({ nonce, text, at, state: failed ? 'failed' : 'queued', error: failed, rev: 0 });
      this.changed(`log:${id}`);
    }
  }
}

/** 128 random bits in the nonce's alphabet. */
export function newNonce() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

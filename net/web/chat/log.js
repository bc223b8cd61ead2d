// One room's log as this page knows it: which seqs were applied, and the loaded stretch of messages.
// The session feeds it events and history pages; the views read `messages`. It knows no socket and no
// DOM, never reorders what the server numbered, and never lets a seq through twice or over a hole.

const HELD_MAX = 2000; // events kept beyond a hole while it is being filled
const RECORD_MAX = 5000; // events remembered while a history page is under way

export class RoomLog {
  constructor() {
    this.generation = 0; // a history page asked for before a reset or a drop is of no use after it
    this.reset();
  }

  /** Forgets everything; `seq` null means: never entered, nothing can be applied. */
  reset() {
    this.generation++;
    this.seq = null; // every event up to here is applied or part of loaded history
    this.messages = []; // ascending by seq, one contiguous stretch of the room's messages
    this.older = true; // there may be messages before the first loaded one
    this.tail = true; // the stretch reaches the newest message (false: reading far back)
    this.loaded = false; // the first history page is in
    this.held = new Map();
    this.duplicates = 0;
    this._recording = 0;
    this._record = [];
    this._recordLost = false;
  }

  /** Starts live operation after an enter that replays nothing: the next event is seq + 1. */
  begin(seq) {
    this.reset();
    this.seq = seq;
  }

  /**
   * Takes one event. Returns the events that became applicable, in order (with those that were held),
   * an empty list for one already seen, or null when a hole stands before it and has to be filled.
   */
  feed(ev) {
    if (this.seq === null) return [];
    const first = ev.from_seq ?? ev.seq;
    if (ev.seq <= this.seq) {
      this.duplicates++;
      return [];
    }
    if (first > this.seq + 1) {
      if (this.held.size < HELD_MAX) this.held.set(first, ev);
      return null;
    }
    const out = [];
    this._apply(ev, out);
    while (this.held.size > 0) {
      const next = this._nextHeld();
      if (!next) break;
      this._apply(next, out);
    }
    return out;
  }

  _nextHeld() {
    for (const [first, ev] of this.held) {
      if (ev.seq <= this.seq) this.held.delete(first);
      else if (first <= this.seq + 1) {
        this.held.delete(first);
        return ev;
      }
    }
    return null;
  }

  _apply(ev, out) {
    this.seq = ev.seq;
    if (this._recording > 0) {
      if (this._record.length < RECORD_MAX) this._record.push(ev);
      else this._recordLost = true;
    }
    this._toMessages(ev);
    out.push(ev);
  }

  _toMessages(ev) {
    switch (ev.ev) {
      case 'message.created':
        if (this.tail) this._insert(fromEvent(ev));
        break;
      case 'message.updated':
        this._change(ev, (m) => {
          if (ev.text !== undefined) m.text = ev.text;
          if (ev.deleted) m.deleted = true;
          m.edited_at = ev.at;
        });
        break;
      case 'message.deleted':
        this._change(ev, (m) => {
          m.deleted = true;
          m.text = '';
        });
        break;
      default:
        break;
    }
  }

  _change(ev, change) {
    const m = this.find(ev.target);
    if (!m || m.asOf >= ev.seq) return;
    change(m);
    m.asOf = ev.seq;
    m.rev++;
  }

  _insert(m) {
    const list = this.messages;
    if (list.length === 0 || list[list.length - 1].seq < m.seq) {
      list.push(m);
      return;
    }
    const i = this.indexOf(m.seq);
    const old = list[i];
    if (!old || old.seq !== m.seq) {
      list.splice(i, 0, m);
    } else if (old.asOf < m.asOf) {
      m.nonce ??= old.nonce;
      m.rev = old.rev + 1;
      list[i] = m;
    }
  }

  /** Index of the first message whose seq is at least `seq` (the length if there is none). */
  indexOf(seq) {
    let lo = 0;
    let hi = this.messages.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (this.messages[mid].seq < seq) lo = mid + 1;
      else hi = mid;
    }
    return lo;
  }

  find(seq) {
    const m = this.messages[this.indexOf(seq)];
    return m && m.seq === seq ? m : undefined;
  }

  /** Call before a history request goes out, so that what happens meanwhile can be laid over its page. */
  historyBegins() {
    this._recording++;
  }

  /**
   * Ends a history request. `where` is 'newest', 'older' or 'newer'; `page` its answer or null when it
   * failed. Returns false when the page could not be merged and has to be asked for again.
   */
  historyEnds(where, page) {
    this._recording--;
    const record = this._record;
    const lost = this._recordLost;
    if (this._recording <= 0) {
      this._recording = 0;
      this._record = [];
      this._recordLost = false;
    }
    if (!page) return true; // failed, or of an older generation
    if (lost) return false;
    const asOf = page.as_of ?? this.seq ?? 0;
    if (where === 'newest') {
      this.loaded = true;
      this.older = Boolean(page.more);
      this.tail = true;
    } else if (where === 'older') {
      this.older = Boolean(page.more);
    } else if (!page.more) {
      this.tail = true;
    }
    for (const m of page.messages) this._insert({ ...m, asOf, rev: 0 });
    for (const ev of record) if (ev.seq > asOf) this._toMessages(ev);
    return true;
  }

  /** Drops the oldest loaded messages; scrolling up loads them again. */
  trimOld(keep) {
    if (this.messages.length <= keep) return;
    this.messages.splice(0, this.messages.length - keep);
    this.older = true;
  }

  /** Drops the newest loaded messages while the reader is far back; `newer` pages bring them again. */
  trimNew(keep) {
    if (this.messages.length <= keep) return;
    this.messages.length = keep;
    this.tail = false;
  }

  /** Back to the newest page, keeping the place in the log. */
  dropMessages() {
    this.generation++;
    this.messages = [];
    this.older = true;
    this.tail = true;
    this.loaded = false;
  }
}

function fromEvent(ev) {
  const { ev: _name, room: _room, ...m } = ev;
  return { ...m, asOf: ev.seq, rev: 0 };
}

// The scrolling list of one room's messages: grouping, day separators, the divider of what is new, own
// messages on their way, loading older ones, and how far the reader has read. Draws from the room's log.

import { append, avatar, h, icon, name, replace, setText } from './dom.js';
import { dayKey, dayText, errorText, fullText, t, timeText } from './i18n.js';
import { languageOf, textNodes } from './text.js';

const GROUP_MS = 5 * 60_000;
const NEAR = 60; // px from the bottom that still count as at the bottom
const LOAD_AT = 600; // px from an end at which the next page is asked for

export class MessagesView {
  constructor(store, session, room) {
    this.store = store;
    this.session = session;
    this.room = room;
    this.nodes = new Map(); // key -> {element, sign}
    this.stick = true; // the reader is at the bottom and stays there
    this.placed = false; // the first page was shown and scrolled to its place
    this.divider = null; // messages above this seq are new; fixed on entering
    this.dividerShown = false; // it was moved by looking away
    this.awayAt = null; // the last seq when the reader looked away
    this.generation = room.log.generation;
    this.list = h('div', { class: 'message-list' });
    this.scroller = h(
      'div',
      { class: 'scroller', tabindex: 0, role: 'group', 'aria-label': t('room.messages'), onkeydown: (e) => this._key(e) },
      this.list,
    );
    this.latest = h('button', { type: 'button', class: 'latest', hidden: true, onclick: () => this.toLatest() });
    this.element = h('div', { class: 'messages' }, this.scroller, this.latest);
    this.scroller.addEventListener('scroll', () => this._scrolled(), { passive: true });
    this.sizes = new ResizeObserver(() => this._settle());
    this.sizes.observe(this.scroller);
    this.sizes.observe(this.list);
  }

  destroy() {
    this.sizes.disconnect();
  }

  // ---- drawing

  /** Draws what changed. Places need sizes: before the list is on the page there is nothing to do. */
  draw() {
    if (!this.element.isConnected) return;
    const { room } = this;
    const { log } = room;
    if (log.generation !== this.generation) {
      // Another epoch, a gap, or back from far: the list starts anew.
      this.generation = log.generation;
      this.placed = false;
      this.stick = true;
    }
    if (!log.loaded) {
      this._reconcile([{ key: 'loading', make: () => h('p', { class: 'between' }, t('room.loading')), sign: '' }, ...this._outbox(null)]);
      return;
    }
    if (this.divider === null) this.divider = Math.max(room.read_seq, room.seen);
    this._moveDivider();
    const anchor = this._anchor();
    this._reconcile(this._items());
    if (!this.placed) this._place();
    else if (this.stick) this._toBottom();
    else this._keep(anchor);
    this._latestButton();
    this._loadMore();
    this.markRead();
  }

  _items() {
    const { log } = this.room;
    const me = this.store.me?.user;
    const items = [];
    if (!log.older) {
      const empty = log.messages.length === 0 && this.room.outbox.length === 0;
      items.push({ key: 'start', sign: String(empty), make: () => h('p', { class: 'between' }, empty ? t('room.first') : t('room.start')) });
    } else if (log.messages.length) {
      items.push({ key: 'loading', sign: '', make: () => h('p', { class: 'between' }, t('room.loading')) });
    }
    let before = null;
    let divided = false;
    for (const m of log.messages) {
      const day = dayKey(m.at);
      const newDay = !before || dayKey(before.at) !== day;
      if (newDay) items.push(dayItem(day, m.at));
      let split = false;
      if (!divided && this.divider !== null && m.seq > this.divider && m.sender !== me && !m.deleted) {
        // Not above the first message of all: to one who has just come, everything is new.
        if (this.divider > 0 || this.dividerShown) {
          items.push({ key: 'new', sign: '', make: () => h('div', { class: 'divider', id: 'divider' }, h('span', null, t('room.new'))) });
          split = true;
        }
        divided = true;
      }
      const head = newDay || split || !before || before.sender !== m.sender || m.at - before.at > GROUP_MS;
      items.push(this._message(m, head, me));
      before = m;
    }
    items.push(...this._outbox(before));
    return items;
  }

  _message(m, head, me) {
    const own = m.sender === me;
    const sender = this.store.nameOf(m.sender);
    return {
      key: m.nonce && own ? `n${m.nonce}` : `s${m.seq}`,
      sign: `${m.seq}:${m.rev}:${head}:${own}:${sender}`,
      make: () => messageElement({ seq: m.seq, at: m.at, text: m.text, deleted: m.deleted, edited: Boolean(m.edited_at), sender, senderId: m.sender, own, head }),
    };
  }

  _outbox(before) {
    const me = this.store.me?.user;
    const online = this.session.client.online;
    return this.room.outbox.map((o, i) => {
      const head = i === 0 ? !before || before.sender !== me || dayKey(before.at) !== dayKey(o.at) || o.at - before.at > GROUP_MS : false;
      const state = o.state === 'queued' && !online ? 'waiting' : o.state;
      return {
        key: `n${o.nonce}`,
        sign: `out:${state}:${o.error}:${head}`,
        make: () =>
          messageElement({
            nonce: o.nonce, at: o.at, text: o.text, sender: this.store.nameOf(me), senderId: me, own: true, head, state, error: o.error,
            retry: () => this.session.retry(this.room, o.nonce),
            discard: () => {
              this.store.discard(this.room, o.nonce);
              this.scroller.focus();
            },
          }),
      };
    });
  }

  // Brings the children in line with `items`, touching only what differs.
  _reconcile(items) {
    const wanted = new Set(items.map((i) => i.key));
    for (const [key, node] of this.nodes) {
      if (!wanted.has(key)) {
        node.element.remove();
        this.nodes.delete(key);
      }
    }
    let at = this.list.firstChild;
    for (const item of items) {
      let node = this.nodes.get(item.key);
      if (!node) {
        node = { element: item.make(), sign: item.sign };
        this.nodes.set(item.key, node);
      } else if (node.sign !== item.sign) {
        const fresh = item.make();
        const focused = node.element === document.activeElement;
        if (at === node.element) at = fresh;
        node.element.replaceWith(fresh);
        node.element = fresh;
        node.sign = item.sign;
        if (focused) fresh.focus({ preventScroll: true });
      }
      if (node.element === at) at = at.nextSibling;
      else this.list.insertBefore(node.element, at);
    }
  }

  // ---- scrolling

  _anchor() {
    if (!this.placed || this.stick) return null;
    const top = this.scroller.getBoundingClientRect().top;
    for (const element of this.list.children) {
      if (!element.dataset.seq) continue;
      const box = element.getBoundingClientRect();
      if (box.bottom > top) return { element, offset: box.top - top };
    }
    return null;
  }

  _keep(anchor) {
    if (!anchor) return;
    // A redrawn message is another element with the same seq.
    const element = anchor.element.isConnected ? anchor.element : this.list.querySelector(`[data-seq="${anchor.element.dataset.seq}"]`);
    if (!element) return;
    const moved = element.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top - anchor.offset;
    if (Math.abs(moved) >= 0.5) this.scroller.scrollTop += moved;
  }

  _place() {
    this.placed = true;
    const divider = this.list.querySelector('.divider');
    this._toBottom();
    if (!divider) return;
    const above = divider.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top;
    if (above < 0) {
      this.scroller.scrollTop += above - this.scroller.clientHeight * 0.2;
      this.stick = this._atBottom();
    }
  }

  _atBottom() {
    const s = this.scroller;
    return s.scrollHeight - s.scrollTop - s.clientHeight < NEAR;
  }

  _toBottom() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.stick = true;
  }

  // The window, the composer or the on-screen keyboard changed the room there is.
  _settle() {
    if (this.stick && this.placed) this._toBottom();
    this.markRead();
  }

  _scrolled() {
    this.stick = this.room.log.tail && this._atBottom();
    this._latestButton();
    this._loadMore();
    this.markRead();
  }

  _loadMore() {
    const { log } = this.room;
    const s = this.scroller;
    if (!this.placed || !log.loaded) return;
    if (log.older && s.scrollTop < LOAD_AT) this.session.loadOlder(this.room);
    if (!log.tail && s.scrollHeight - s.scrollTop - s.clientHeight < LOAD_AT) this.session.loadNewer(this.room);
  }

  async toLatest() {
    this.stick = true;
    await this.session.jumpToLatest(this.room);
    this._toBottom();
    this._latestButton();
    this.markRead();
  }

  _latestButton() {
    this.latest.hidden = !this.placed || (this.stick && this.room.log.tail);
    if (this.latest.hidden) return;
    const n = this.room.unread;
    const label = n > 0 ? t('room.latest', { n }) : t('room.jump');
    if (this.latest.textContent !== label) replace(this.latest, icon('down'), h('span', null, label));
  }

  // ---- reading

  /** Marks read what is on the screen, while the page is visible and has the focus. */
  markRead() {
    if (document.visibilityState !== 'visible' || !document.hasFocus() || !this.placed || !this.room.entered) return;
    const seq = this._lastSeen();
    if (seq > this.room.read_seq && this._othersUpTo(seq)) this.session.markRead(this.room, seq);
  }

  _lastSeen() {
    const messages = this.room.log.messages;
    if (messages.length === 0) return 0;
    if (this.stick && this.room.log.tail) return messages[messages.length - 1].seq;
    const bottom = this.scroller.getBoundingClientRect().bottom + 1;
    let seen = 0;
    for (const element of this.list.children) {
      if (!element.dataset.seq) continue;
      if (element.getBoundingClientRect().bottom > bottom) break;
      seen = Number(element.dataset.seq);
    }
    return seen;
  }

  // Own messages are read by being sent; only others' are worth a mark.
  _othersUpTo(seq) {
    const { messages } = this.room.log;
    const me = this.store.me?.user;
    for (let i = messages.length - 1; i >= 0 && messages[i].seq > this.room.read_seq; i--) {
      if (messages[i].seq <= seq && messages[i].sender !== me) return true;
    }
    return false;
  }

  /** The reader looked away: the first that comes until they are back gets the divider above it. */
  away() {
    if (!this.placed || this.room.unread > 0) return;
    const messages = this.room.log.messages;
    this.awayAt = messages.length ? messages[messages.length - 1].seq : 0;
  }

  back() {
    this.awayAt = null;
    this.markRead();
  }

  _moveDivider() {
    if (this.awayAt === null) return;
    const { messages } = this.room.log;
    const me = this.store.me?.user;
    if (!messages.slice(this.room.log.indexOf(this.awayAt + 1)).some((m) => m.sender !== me)) return;
    this.divider = this.awayAt;
    this.dividerShown = true;
    this.awayAt = null;
  }

  // ---- keys: the list is one tab stop; arrows walk through the messages

  _key(e) {
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    const all = [...this.list.querySelectorAll('.message')];
    if (all.length === 0) return;
    const now = all.indexOf(document.activeElement?.closest?.('.message'));
    let next = null;
    if (e.key === 'ArrowUp') next = now < 0 ? all[all.length - 1] : all[Math.max(0, now - 1)];
    else if (e.key === 'ArrowDown') next = now < 0 ? all[all.length - 1] : all[Math.min(all.length - 1, now + 1)];
    else if (e.key === 'Home') next = all[0];
    else if (e.key === 'End') next = all[all.length - 1];
    else if (e.key === 'Escape') this.scroller.closest('.room')?.querySelector('textarea')?.focus();
    if (!next) return;
    e.preventDefault();
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: 'nearest' });
  }
}

function dayItem(day, at) {
  const text = dayText(at);
  return { key: `d${day}`, sign: text, make: () => h('div', { class: 'day' }, h('span', null, text)) };
}

function messageElement(m) {
  const classes = ['message', m.own ? 'own' : 'other', m.head ? 'head' : 'follow'];
  if (m.state) classes.push(`is-${m.state}`);
  const body = h('div', { class: 'text', dir: 'auto', lang: languageOf(m.text) });
  if (m.deleted) append(body, [h('em', { class: 'gone' }, t('message.deleted'))]);
  else append(body, textNodes(m.text ?? ''));
  const meta = h('span', { class: 'meta' });
  if (m.state === 'sending' || m.state === 'queued') append(meta, [h('span', { class: 'state' }, t('message.sending'))]);
  else if (m.state === 'waiting') append(meta, [h('span', { class: 'state' }, t('message.waiting'))]);
  else if (m.state !== 'failed') {
    if (m.edited && !m.deleted) append(meta, [h('span', { class: 'edited' }, t('message.edited')), ' ']);
    append(meta, [h('time', { datetime: new Date(m.at).toISOString(), title: fullText(m.at) }, timeText(m.at))]);
  }
  const element = h(
    'article',
    {
      class: classes.join(' '), tabindex: -1, 'aria-label': t('message.label', { name: m.sender, time: timeText(m.at) }),
      'data-seq': m.seq, 'data-nonce': m.nonce, 'data-state': m.state ?? 'stored',
    },
    !m.own && (m.head ? avatar(m.senderId, m.sender) : h('span', { class: 'avatar-space' })),
    h(
      'div',
      { class: 'column' },
      !m.own && m.head && h('div', { class: 'sender' }, name(m.sender)),
      h('div', { class: 'line' }, h('div', { class: 'bubble' }, body), meta),
      m.state === 'failed' &&
        h(
          'div',
          { class: 'failed', role: 'group' },
          h('span', null, t('message.failed', { why: errorText(m.error) })),
          h('button', { type: 'button', class: 'small', onclick: m.retry }, t('message.retry')),
          h('button', { type: 'button', class: 'small', onclick: m.discard }, t('message.discard')),
        ),
    ),
  );
  return element;
}

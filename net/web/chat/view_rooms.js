// The left column: who I am, the rooms with their counters and last message, finding, making and joining.

import { append, avatar, h, icon, name, replace, setText } from './dom.js';
import { t, whenText } from './i18n.js';
import { oneLine, roomIdOf } from './text.js';

const SHOWN_MAX = 300; // rooms in the list at once; the field above it finds the others

export class RoomsView {
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.rows = new Map();
    this.me = h('span', { class: 'me' });
    this.list = h('ul', { class: 'rooms', 'aria-labelledby': 'rooms-title' });
    this.note = h('p', { class: 'note', hidden: true });
    // The first steps of one who has no room yet.
    this.first = h(
      'div',
      { class: 'first', hidden: true },
      h('button', { type: 'button', class: 'primary', onclick: actions.createDialog }, t('rooms.create')),
      h('button', { type: 'button', class: 'plain', onclick: actions.joinDialog }, t('join.title')),
    );
    this.find = h('input', {
      type: 'search', class: 'find', placeholder: t('rooms.find'), 'aria-label': t('rooms.find'), dir: 'auto',
      'aria-keyshortcuts': 'Control+K Meta+K', autocomplete: 'off', spellcheck: 'false',
      oninput: () => this.draw(),
      onkeydown: (e) => this._findKey(e),
    });
    const button = (ico, label, run, cls) => h('button', { type: 'button', class: cls, title: label, 'aria-label': label, onclick: run }, icon(ico));
    this.element = h(
      'nav',
      { class: 'side', 'aria-labelledby': 'rooms-title' },
      h(
        'div',
        { class: 'side-head' },
        h('img', { src: '/icon.svg', alt: '', width: 28, height: 28 }),
        h('h1', { id: 'rooms-title' }, t('rooms.title')),
        button('enter', t('join.title'), actions.joinDialog, 'quiet'),
        button('plus', t('rooms.create'), actions.createDialog, 'quiet'),
      ),
      h('div', { class: 'find-row' }, icon('search'), this.find),
      this.list,
      this.note,
      this.first,
      h('div', { class: 'side-foot' }, this.me, button('gear', t('settings.title'), actions.settingsDialog, 'quiet')),
    );
    this.draw();
    this.drawMe();
  }

  // Enter opens the first match; a room id or a link is joined or opened.
  _findKey(e) {
    if (e.isComposing || e.keyCode === 229) return;
    if (e.key === 'Escape' && this.find.value) {
      this.find.value = '';
      this.draw();
      e.stopPropagation();
    } else if (e.key === 'ArrowDown') {
      e.preventDefault();
      this.list.querySelector('a')?.focus();
    } else if (e.key === 'Enter') {
      e.preventDefault();
      const first = this.list.querySelector('a');
      const id = this.find.value.includes('#/room/') || this.find.value.startsWith('r_') ? roomIdOf(this.find.value) : null;
      if (!first && !id) return;
      location.hash = first ? first.getAttribute('href') : `#/room/${encodeURIComponent(id)}`;
      this.find.value = '';
      this.draw();
    }
  }

  focusFind() {
    this.find.focus();
    this.find.select();
  }

  drawMe() {
    const me = this.store.me;
    if (!me) return;
    replace(this.me, avatar(me.user, this.store.nameOf(me.user), 'small'), name(this.store.nameOf(me.user), 'me-name'));
  }

  update(topics) {
    if (topics.has('all') || topics.has('rooms') || topics.has('users') || topics.has('me')) this.draw();
    if (topics.has('all') || topics.has('me')) this.drawMe();
  }

  draw() {
    const wanted = this.find.value.trim().toLocaleLowerCase();
    let rooms = this.store.roomList();
    const any = rooms.length > 0;
    if (wanted) rooms = rooms.filter((r) => r.name.toLocaleLowerCase().includes(wanted) || r.id === this.find.value.trim());
    rooms = rooms.slice(0, SHOWN_MAX);
    const keep = new Set(rooms.map((r) => r.id));
    for (const [id, row] of this.rows) {
      if (!keep.has(id)) {
        row.element.remove();
        this.rows.delete(id);
      }
    }
    let at = this.list.firstChild;
    for (const room of rooms) {
      let row = this.rows.get(room.id);
      if (!row) {
        row = { element: h('li', null, h('a', { href: `#/room/${encodeURIComponent(room.id)}` })), sign: '' };
        this.rows.set(room.id, row);
      }
      this._row(row, room);
      if (row.element === at) at = at.nextSibling;
      else this.list.insertBefore(row.element, at);
    }
    this.note.hidden = rooms.length > 0 || !this.store.roomsComplete;
    this.first.hidden = any || this.note.hidden;
    setText(this.note, any ? t('rooms.nomatch') : t('rooms.none'));
  }

  _row(row, room) {
    const last = room.last;
    const sender = last && !last.hidden && last.sender ? (last.sender === this.store.me?.user ? t('rooms.you') : this.store.nameOf(last.sender)) : '';
    const open = this.store.openRoom === room.id;
    const sign = JSON.stringify([room.name, room.kind, last?.seq, last?.text, last?.deleted, last?.at && whenText(last.at), sender, room.unread, room.mentions, open]);
    if (row.sign === sign) return;
    row.sign = sign;
    const link = row.element.firstChild;
    if (open) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
    link.classList.toggle('unread', room.unread > 0);
    const label = room.name || room.id;
    const preview = h('span', { class: 'preview' });
    if (!last || last.hidden) append(preview, [t('rooms.empty')]);
    else append(preview, [name(sender, 'preview-sender'), ': ', name(last.deleted ? t('rooms.deleted') : oneLine(last.text ?? '', 100))]);
    replace(
      link,
      avatar(room.id, label, 'square'),
      h(
        'span',
        { class: 'row-main' },
        h('span', { class: 'row-top' }, name(label, 'row-name'), room.kind === 'private' && h('span', { class: 'lock', title: t('rooms.private') }, icon('lock'), h('span', { class: 'offscreen' }, t('rooms.private'))), last?.at && h('time', { class: 'when', datetime: new Date(last.at).toISOString() }, whenText(last.at))),
        h('span', { class: 'row-bottom' }, preview, room.unread > 0 && badge(room)),
      ),
    );
  }
}

function badge(room) {
  const label = room.mentions > 0 ? `${t('rooms.unread', { n: room.unread })}, ${t('rooms.mentions', { n: room.mentions })}` : t('rooms.unread', { n: room.unread });
  return h(
    'span',
    { class: room.mentions > 0 ? 'badge mention' : 'badge', 'data-unread': room.unread },
    h('span', { 'aria-hidden': 'true' }, `${room.mentions > 0 ? '@' : ''}${room.unread > 99 ? '99+' : room.unread}`),
    h('span', { class: 'offscreen' }, label),
  );
}

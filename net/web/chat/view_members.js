// The members beside an open room, those online first, and the way to invite.

import { avatar, h, icon, name, replace } from './dom.js';
import { errorText, t } from './i18n.js';

const SHOWN_MAX = 500;

export class MembersPanel {
  constructor(store, session, room, actions, close) {
    this.store = store;
    this.session = session;
    this.room = room;
    this.close = close;
    this.list = h('div', { class: 'people' });
    this.error = h('p', { class: 'error', role: 'alert' });
    this.suggestions = h('datalist', { id: 'known-people' });
    this.input = h('input', { id: 'invite', list: 'known-people', autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', dir: 'auto' });
    this.title = h('h3', { tabindex: -1 }, t('room.members'));
    this.element = h(
      'aside',
      {
        class: 'panel', 'aria-label': t('room.members'),
        onkeydown: (e) => {
          if (e.key === 'Escape' && !e.isComposing) close();
        },
      },
      h('div', { class: 'panel-head' }, this.title, h('button', { type: 'button', class: 'quiet', title: t('members.close'), 'aria-label': t('members.close'), onclick: close }, icon('close'))),
      this._form(actions),
      this.list,
    );
    this.draw();
    if (room.members > room.people.size) session.loadMembers(room).catch(() => {}); // those known are shown
  }

  focus() {
    this.title.focus({ preventScroll: true });
  }

  _form(actions) {
    return h(
      'form',
      {
        class: 'invite',
        onsubmit: async (e) => {
          e.preventDefault();
          this.error.textContent = '';
          const wanted = this.input.value.trim();
          if (!wanted) return;
          const user = this._find(wanted);
          if (!user) {
            this.error.textContent = t('members.invite.unknown');
            return;
          }
          try {
            await this.session.invite(this.room.id, user);
            this.input.value = '';
            actions.toast(t('members.invited', { name: this.store.nameOf(user) }));
          } catch (problem) {
            this.error.textContent = errorText(problem.code);
          }
        },
      },
      h('label', { for: 'invite' }, t('members.invite.label')),
      h('div', { class: 'invite-row' }, this.input, h('button', { type: 'submit', class: 'small' }, t('members.invite'))),
      this.suggestions,
      this.error,
    );
  }

  // A name of somebody met in one's rooms, or a user id.
  _find(wanted) {
    const folded = wanted.normalize('NFKC').toLocaleLowerCase().replace(/^[@＠]/, '');
    for (const u of this.store.users.values()) {
      if (u.user === wanted || u.name.normalize('NFKC').toLocaleLowerCase() === folded) return u.user;
    }
    return /^u_[A-Za-z0-9_.:-]{1,62}$/.test(wanted) ? wanted : null;
  }

  draw() {
    const { people } = this.room;
    const rows = [...people.entries()].map(([user, p]) => ({ user, ...p, label: this.store.nameOf(user) }));
    rows.sort((a, b) => Number(b.online) - Number(a.online) || a.label.localeCompare(b.label) || (a.user < b.user ? -1 : 1));
    const sign = JSON.stringify(rows.slice(0, SHOWN_MAX));
    if (this.sign === sign) return;
    this.sign = sign;
    const online = rows.filter((r) => r.online).slice(0, SHOWN_MAX);
    const offline = rows.filter((r) => !r.online).slice(0, SHOWN_MAX - online.length);
    replace(this.list, this._group('members.online', online), this._group('members.offline', offline));
    const others = [...this.store.users.values()].filter((u) => u.name && !people.has(u.user)).slice(0, 100);
    replace(this.suggestions, others.map((u) => h('option', { value: u.name }, u.display_name)));
  }

  _group(title, rows) {
    if (rows.length === 0) return null;
    return [
      h('h4', null, t(title), h('span', { class: 'count' }, ` ${rows.length}`)),
      h('ul', null, rows.map((r) => this._row(r))),
    ];
  }

  _row(r) {
    const known = this.store.users.get(r.user);
    const role = ['owner', 'moderator'].includes(r.role) ? t(`members.role.${r.role}`) : null;
    return h(
      'li',
      { 'data-user': r.user, class: r.online ? 'on' : 'off' },
      h('span', { class: 'who' }, avatar(r.user, r.label, 'small'), r.online && h('span', { class: 'dot' })),
      h(
        'span',
        { class: 'person' },
        h('span', { class: 'person-name' }, name(r.label), r.user === this.store.me?.user && h('span', { class: 'tag' }, t('members.you')), role && h('span', { class: 'tag' }, role)),
        known?.name && known.name !== r.label && h('span', { class: 'person-id' }, name(`@${known.name}`)),
      ),
    );
  }
}

// One open room: its head, messages, typing line, composer and the members beside it; or, for a room one
// does not belong to, the way in.

import { h, icon, name, replace, setText } from './dom.js';
import { errorText, t } from './i18n.js';
import { Composer } from './view_composer.js';
import { MembersPanel } from './view_members.js';
import { MessagesView } from './view_messages.js';

export class RoomView {
  constructor(store, session, room, actions) {
    this.store = store;
    this.session = session;
    this.room = room;
    this.actions = actions;
    this.messages = null;
    this.composer = null;
    this.panel = null;
    this.title = h('h2', { class: 'room-name', id: 'room-title', tabindex: -1 });
    this.subtitle = h('p', { class: 'room-sub' });
    this.typingLine = h('p', { class: 'typing' });
    this.typingTimer = null;
    this.linkButton = this._button('link', t('room.link'), () => actions.copyLink(room));
    this.linkButton.classList.add('wide-only'); // on a phone it is in the room's settings
    this.membersButton = this._button('people', t('room.members'), () => this.togglePanel());
    this.membersButton.setAttribute('aria-expanded', 'false');
    this.menuButton = this._button('more', t('room.menu'), () => actions.roomDialog(room));
    this.head = h(
      'header',
      { class: 'room-head' },
      h('a', { class: 'back', href: '#/', title: t('room.back'), 'aria-label': t('room.back') }, icon('back')),
      h('div', { class: 'room-title' }, this.title, this.subtitle),
      this.linkButton,
      this.membersButton,
      this.menuButton,
    );
    this.body = h('div', { class: 'room-body' });
    this.element = h('section', { class: 'room', 'aria-labelledby': 'room-title' }, this.head, this.body);
    this.draw();
  }

  destroy() {
    clearTimeout(this.typingTimer);
    this.session.typing(this.room, false);
    this.messages?.destroy();
  }

  _button(ico, label, run) {
    return h('button', { type: 'button', class: 'quiet', title: label, 'aria-label': label, onclick: run }, icon(ico));
  }

  get inside() {
    return this.room.role !== null || this.room.entered;
  }

  update(topics) {
    const { id } = this.room;
    const all = topics.has('all');
    if (all || topics.has(`room:${id}`) || topics.has('rooms')) this.draw();
    if (this.messages && (all || topics.has(`log:${id}`) || topics.has('users') || topics.has('conn'))) this.messages.draw();
    if (all || topics.has(`typing:${id}`) || topics.has('users') || topics.has(`log:${id}`)) this._typing();
    if (this.panel && (all || topics.has(`room:${id}`) || topics.has('users'))) this.panel.draw();
  }

  draw() {
    const { room } = this;
    const label = room.name || (this.inside || room.state === 'outside' ? room.id : t('rooms.title'));
    if (this.title.dataset.name !== label) {
      this.title.dataset.name = label;
      replace(this.title, name(label));
    }
    const parts = [];
    if (room.kind === 'private') parts.push(t('rooms.private'));
    if (this.inside && room.online > 0) parts.push(t('room.online', { n: room.online }));
    if (room.members > 0) parts.push(t('room.count', { n: room.members }));
    const sub = JSON.stringify([parts, room.topic]);
    if (this.subtitle.dataset.sign !== sub) {
      this.subtitle.dataset.sign = sub;
      replace(this.subtitle, h('span', { class: 'counts' }, parts.join(' · ')), room.topic && h('span', { class: 'topic' }, name(room.topic)));
    }
    for (const b of [this.membersButton, this.menuButton]) b.hidden = !this.inside;
    if (this.inside) this._drawInside();
    else this._drawOutside();
  }

  _drawInside() {
    if (this.messages) return;
    this.joinState = null;
    this.messages = new MessagesView(this.store, this.session, this.room);
    this.composer = new Composer(this.store, this.session, this.room);
    this.composer.onsent = () => this.messages.toLatest();
    replace(this.body, h('div', { class: 'talk' }, this.messages.element, this.typingLine, this.composer.element));
    this.composer.shown();
    this.messages.draw();
    // A finger would call up the keyboard; a pointer has one already.
    if (matchMedia('(pointer: fine)').matches && this.element.isConnected) this.composer.focus();
  }

  /** To be called once the room is on the page. */
  shown() {
    if (this.composer) {
      this.composer.shown();
      this.messages.draw();
      if (matchMedia('(pointer: fine)').matches) this.composer.focus();
      else this.title.focus({ preventScroll: true });
    }
  }

  _drawOutside() {
    if (this.messages) {
      this.messages.destroy();
      this.messages = null;
      this.composer = null;
      this.panel = null;
      this.membersButton.setAttribute('aria-expanded', 'false');
    }
    const state = this.room.state ?? 'loading';
    if (this.joinState === state) return;
    this.joinState = state;
    if (state === 'loading') {
      replace(this.body, h('p', { class: 'between' }, t('room.loading')));
      return;
    }
    const error = h('p', { class: 'error', role: 'alert' });
    const button = h(
      'button',
      {
        type: 'button', class: 'primary',
        onclick: async () => {
          button.disabled = true;
          error.textContent = '';
          try {
            await this.session.join(this.room.id);
          } catch (problem) {
            error.textContent = problem.code === 'not_found' ? t('room.hidden') : errorText(problem.code);
          } finally {
            button.disabled = false;
          }
        },
      },
      t('join.submit'),
    );
    replace(
      this.body,
      h(
        'div',
        { class: 'outside' },
        h('p', { class: 'outside-lead' }, state === 'hidden' ? t('room.hidden') : t('room.outside')),
        state === 'hidden' && h('p', { class: 'note' }, t('room.hidden.hint')),
        button,
        error,
      ),
    );
  }

  _typing() {
    const users = this.store.typingUsers(this.room);
    let text = '';
    if (users.length === 1) text = t('room.typing.1', { a: this.store.nameOf(users[0]) });
    else if (users.length === 2) text = t('room.typing.2', { a: this.store.nameOf(users[0]), b: this.store.nameOf(users[1]) });
    else if (users.length > 2) text = t('room.typing.many');
    setText(this.typingLine, text);
    clearTimeout(this.typingTimer);
    this.typingTimer = users.length ? setTimeout(() => this._typing(), 1000) : null;
  }

  togglePanel(show = !this.panel) {
    if (show === Boolean(this.panel)) return;
    this.membersButton.setAttribute('aria-expanded', String(show));
    if (show) {
      this.panel = new MembersPanel(this.store, this.session, this.room, this.actions, () => this.togglePanel(false));
      this.body.append(this.panel.element);
      this.panel.focus();
    } else {
      this.panel.element.remove();
      this.panel = null;
      this.membersButton.focus();
    }
  }
}

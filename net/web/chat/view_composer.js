// The field a message is written in. Enter sends and Shift+Enter makes a line, but no key that belongs to
// an input method ever sends: it confirms a Japanese or Korean word. Nothing here redraws the field.

import { h, icon, setText } from './dom.js';
import { t } from './i18n.js';
import { codePoints, isBlank } from './text.js';

const LIMIT = 4000; // code points, where the server tells no other
const SHOW_LEFT = 0.9; // the counter shows from this share of the limit on

/** True while the key belongs to an input method (keyCode 229: browsers that end the composition first). */
export const composing = (e) => e.isComposing || e.keyCode === 229;

export class Composer {
  constructor(store, session, room) {
    this.store = store;
    this.session = session;
    this.room = room;
    this.input = h('textarea', {
      rows: 1, dir: 'auto', id: 'composer', 'aria-label': t('composer.label'), placeholder: t('composer.hint'),
      enterkeyhint: 'send', 'aria-describedby': 'composer-note', autocomplete: 'off',
      oninput: () => this._typed(),
      onkeydown: (e) => this._key(e),
      onblur: () => this.session.typing(this.room, false),
    });
    this.note = h('span', { class: 'composer-note', id: 'composer-note', role: 'status' });
    this.button = h('button', { type: 'button', class: 'send', title: t('composer.send'), 'aria-label': t('composer.send'), onclick: () => this._send(true) }, icon('send'));
    this.element = h('div', { class: 'composer' }, h('div', { class: 'composer-box' }, this.input, this.button), this.note);
    this.input.value = store.drafts.get(room.id) ?? '';
    this._check();
  }

  /** To be called once the field is on the page. */
  shown() {
    this._grow();
  }

  focus() {
    this.input.focus({ preventScroll: true });
  }

  _key(e) {
    if (e.key !== 'Enter' || e.shiftKey || composing(e)) return;
    e.preventDefault();
    this._send(false);
  }

  _typed() {
    const text = this.input.value;
    if (text) this.store.drafts.set(this.room.id, text);
    else this.store.drafts.delete(this.room.id);
    this.session.typing(this.room, !isBlank(text));
    this._check();
    this._grow();
  }

  _check() {
    const text = this.input.value;
    const limit = this.store.limits.text_code_points ?? LIMIT;
    // Counting is linear: short texts need none, as a code point is one or two units.
    const length = text.length < limit * SHOW_LEFT ? 0 : codePoints(text);
    const left = limit - length;
    this.tooLong = left < 0;
    this.button.disabled = this.tooLong || isBlank(text);
    this.element.classList.toggle('over', this.tooLong);
    let note = '';
    if (this.tooLong) note = t('composer.over', { n: -left });
    else if (length >= limit * SHOW_LEFT) note = t('composer.left', { n: left });
    setText(this.note, note);
  }

  _grow() {
    const { input } = this;
    input.style.height = 'auto';
    input.style.height = `${input.scrollHeight + 2}px`;
  }

  _send(byButton) {
    const text = this.input.value;
    if (this.button.disabled) return;
    if (!this.session.send(this.room, text)) {
      setText(this.note, t('composer.full'));
      return;
    }
    this.input.value = '';
    this.store.drafts.delete(this.room.id);
    this._check();
    this._grow();
    if (byButton) this.focus();
    this.onsent?.();
  }
}

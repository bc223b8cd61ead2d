// Speaks to screen readers: a hidden log of the open room's new messages (own ones left out, bursts
// gathered), and a status line for everything else. The visible list is not the live region, since it
// also grows at its top.

import { h } from './dom.js';
import { t } from './i18n.js';
import { oneLine } from './text.js';

const BURST = 3;
const BURST_MS = 2_000;
const LINES_MAX = 20;

export class Announcer {
  constructor() {
    this.log = h('div', { class: 'offscreen', role: 'log', 'aria-live': 'polite', 'aria-relevant': 'additions', id: 'spoken' });
    this.status = h('div', { class: 'offscreen', role: 'status', 'aria-live': 'polite' });
    this.element = h('div', null, this.log, this.status);
    this.recent = []; // when the last lines were spoken
    this.held = 0;
    this.timer = null;
    this.last = null;
  }

  message(name, text) {
    const now = Date.now();
    this.recent = this.recent.filter((at) => now - at < BURST_MS);
    if (this.held > 0 || this.recent.length >= BURST) {
      this.held++;
      this.last = [name, text];
      this.timer ??= setTimeout(() => this._release(), BURST_MS);
      return;
    }
    this.recent.push(now);
    this._line(t('say.message', { name, text: oneLine(text) }));
  }

  _release() {
    const n = this.held;
    this.timer = null;
    this.held = 0;
    if (n === 1) this._line(t('say.message', { name: this.last[0], text: oneLine(this.last[1]) }));
    else if (n > 1) this._line(t('say.many', { n }));
  }

  _line(text) {
    this.log.append(h('p', null, text));
    while (this.log.childElementCount > LINES_MAX) this.log.firstChild.remove();
  }

  clear() {
    clearTimeout(this.timer);
    this.timer = null;
    this.held = 0;
    this.log.replaceChildren();
  }

  say(text) {
    this.status.textContent = '';
    this.status.textContent = text;
  }
}

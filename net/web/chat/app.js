// Starts the page: language, account, route, and the frame around the views. Owns what is on the screen;
// the views below it get the store, the session and a few actions.

import { forgetAccount, loadAccount, saveAccount, watchAccount } from './account.js';
import { Announcer } from './announce.js';
import { api } from './api.js';
import { copyText, h, replace } from './dom.js';
import { isolate, pickLanguage, setLanguage, t } from './i18n.js';
import { Session } from './session.js';
import { Store } from './store.js';
import { authView } from './view_auth.js';
import { createDialog, joinDialog, roomDialog, settingsDialog, toast } from './view_dialogs.js';
import { RoomView } from './view_room.js';
import { RoomsView } from './view_rooms.js';

const BAR_DELAY_MS = 700; // a connection that is back sooner is not worth a word

const root = document.getElementById('app');
const store = new Store();
let session = null;
let frame = null;

setLanguage(pickLanguage());

function closeDialogs() {
  for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close();
}

// ---- account

function showAuth(notice, mode) {
  frame?.destroy();
  frame = null;
  document.title = t('app.name');
  document.documentElement.dataset.conn = 'off';
  replace(
    root,
    authView({
      notice,
      mode,
      onAccount: (answer) => {
        const account = { user: answer.user, token: answer.token, expires_at: answer.expires_at, since: Date.now() };
        saveAccount(account);
        begin(account);
      },
      onLanguage: (tag) => {
        setLanguage(tag, true);
        showAuth(notice, mode);
      },
    }),
  );
  root.querySelector('input')?.focus();
}

function begin(account) {
  session?.end();
  store.clear();
  session = new Session(store, account, (why) => {
    forgetAccount();
    closeDialogs();
    session = null;
    store.clear();
    showAuth(why === 'suspended' ? t('auth.suspended') : t('auth.ended'));
  });
  showFrame();
  session.start();
}

async function logout() {
  const token = session?.account.token;
  session?.end();
  session = null;
  forgetAccount();
  closeDialogs();
  store.clear();
  location.hash = '#/';
  showAuth();
  if (token) await api.logout(token).catch(() => {}); // a token that is no longer good is logged out already
}

watchAccount((account) => {
  if (!account && session) {
    session.end();
    session = null;
    closeDialogs();
    store.clear();
    showAuth(t('auth.ended'));
  } else if (account && !session) {
    begin(account);
  } else if (account && session && account.user === session.account.user) {
    session.setToken(account);
  } else if (account && session) {
    begin(account);
  }
});

// ---- the frame

class Frame {
  constructor() {
    this.announcer = new Announcer();
    this.actions = {
      createDialog: () => createDialog(session),
      joinDialog: () => joinDialog(session),
      roomDialog: (room) => roomDialog(session, room, this.actions),
      copyLink: async (room) => {
        const link = `${location.origin}/#/room/${encodeURIComponent(room.id)}`;
        this.toast((await copyText(link)) ? t('room.copied') : t('room.copy.failed', { link }));
      },
      settingsDialog: () => store.me && settingsDialog(store, session, { onLanguage: changeLanguage, onLogout: logout, toast: this.toast }),
      toast: (text) => this.toast(text),
    };
    this.rooms = new RoomsView(store, this.actions);
    this.bar = h('div', { class: 'bar', hidden: true });
    this.main = h('main', { class: 'main' });
    this.element = h('div', { class: 'frame' }, this.rooms.element, this.main);
    this.view = null;
    this.barTimer = null;
    this.barDelay = null;
    this.unsubscribe = store.subscribe((topics) => this.update(topics));
    session.onMessage = (room, ev) => this.spoken(room, ev);
    session.keepOld = () => Boolean(this.view?.messages && !this.view.messages.stick);
    replace(root, h('a', { class: 'skip', href: '#composer', onclick: skip }, t('say.skip')), this.bar, this.element, this.announcer.element);
    this.route();
    this.drawBar();
  }

  destroy() {
    this.unsubscribe();
    clearInterval(this.barTimer);
    clearTimeout(this.barDelay);
    this.view?.destroy();
  }

  toast(text) {
    toast(text, frame.announcer);
  }

  route() {
    const match = /^#\/room\/([^/?]+)/.exec(location.hash);
    let id = null;
    try {
      id = match && decodeURIComponent(match[1]);
    } catch {
      id = null;
    }
    if (id && !/^[A-Za-z0-9_.:-]{1,64}$/.test(id)) id = null;
    this.view?.destroy();
    this.view = null;
    this.announcer.clear();
    session.open(id);
    this.element.classList.toggle('in-room', Boolean(id));
    if (id) {
      this.view = new RoomView(store, session, store.ensureRoom(id), this.actions);
      replace(this.main, this.view.element);
      this.view.shown();
    } else {
      replace(
        this.main,
        h('div', { class: 'nothing' }, h('img', { src: '/icon.svg', alt: '', width: 72, height: 72 }), h('h2', null, t('rooms.pick')), h('p', { class: 'note' }, t('rooms.pick.hint'))),
      );
    }
    this.rooms.draw();
    this.title();
  }

  update(topics) {
    if (this.view && store.openRoom && store.room(store.openRoom) !== this.view.room) this.route();
    this.rooms.update(topics);
    this.view?.update(topics);
    if (topics.has('all') || topics.has('conn')) this.drawBar();
    this.title();
  }

  title() {
    const { unread, mentions } = store.totals();
    const room = this.view?.room;
    const parts = [room?.name ? isolate(room.name) : null, t('app.name')].filter(Boolean).join(' · ');
    const title = unread > 0 ? `(${mentions > 0 ? '@' : ''}${unread > 99 ? '99+' : unread}) ${parts}` : parts;
    if (document.title !== title) document.title = title;
    if (navigator.setAppBadge) {
      if (unread !== this.badged) {
        this.badged = unread;
        (unread > 0 ? navigator.setAppBadge(unread) : navigator.clearAppBadge())?.catch?.(() => {});
      }
    }
  }

  // The line over everything: quiet while all is well and during the first moment of a new connection.
  drawBar() {
    const { client } = session;
    document.documentElement.dataset.conn = client.state;
    clearInterval(this.barTimer);
    if (client.state === 'online') {
      clearTimeout(this.barDelay);
      this.barDelay = null;
      if (!this.bar.hidden) this.announcer.say(t('conn.back'));
      this.bar.hidden = true;
      return;
    }
    if (client.state === 'waiting') {
      const now = h('button', { type: 'button', class: 'small', onclick: () => client.nudge() }, t('conn.now'));
      const words = h('span');
      const draw = () => {
        words.textContent = t('conn.waiting', { n: Math.max(1, Math.ceil((client.retryAt - Date.now()) / 1000)) });
      };
      draw();
      replace(this.bar, words, now);
      this.barTimer = setInterval(draw, 500);
    } else if (client.state === 'stopped') {
      replace(this.bar, h('span', null, t('conn.stopped', { code: this.stopCode() })), h('button', { type: 'button', class: 'small', onclick: () => client.start() }, t('conn.now')));
    } else {
      replace(this.bar, h('span', null, t('conn.connecting')));
    }
    if (client.state === 'stopped') this.bar.hidden = false;
    else if (this.bar.hidden) {
      this.barDelay ??= setTimeout(() => {
        this.barDelay = null;
        this.bar.hidden = false;
      }, BAR_DELAY_MS);
    }
  }

  stopCode() {
    return String(session.client.stopCode ?? '');
  }

  spoken(room, ev) {
    if (room.id !== store.openRoom || ev.sender === store.me?.user || ev.deleted) return;
    this.announcer.message(store.nameOf(ev.sender), ev.text ?? '');
  }
}

function skip(e) {
  e.preventDefault();
  (document.getElementById('composer') ?? frame?.rooms.find)?.focus();
}

function showFrame() {
  frame?.destroy();
  frame = new Frame();
}

function changeLanguage(tag) {
  setLanguage(tag, true);
  showFrame();
}

// ---- the browser's events

window.addEventListener('hashchange', () => frame?.route());
window.addEventListener('online', () => session?.client.nudge());
window.addEventListener('focus', () => frame?.view?.messages?.back());
window.addEventListener('blur', () => frame?.view?.messages?.away());
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') {
    session?.client.nudge();
    store.flush();
    frame?.view?.messages?.back();
  } else {
    frame?.view?.messages?.away();
  }
});
window.addEventListener('keydown', (e) => {
  if ((e.ctrlKey || e.metaKey) && !e.altKey && e.key.toLowerCase() === 'k' && frame) {
    e.preventDefault();
    if (store.openRoom && getComputedStyle(frame.rooms.element).display === 'none') location.hash = '#/';
    setTimeout(() => frame.rooms.focusFind());
  }
});
// Day separators and the list's times turn at midnight.
let today = new Date().getDate();
setInterval(() => {
  const now = new Date().getDate();
  if (now !== today) {
    today = now;
    store.changed('all');
  }
}, 30_000);

const account = loadAccount();
if (account) begin(account);
else showAuth();

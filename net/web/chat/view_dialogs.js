// The dialogs: new room, join, a room's settings, one's own settings, a question. Each is a native modal
// <dialog>, which keeps the focus inside and gives it back.

import { api } from './api.js';
import { copyText, h, icon, replace } from './dom.js';
import { errorText, t } from './i18n.js';
import { codePoints, roomIdOf } from './text.js';
import { field, languageSelect } from './view_auth.js';

function open(title, ...content) {
  const dialog = h(
    'dialog',
    { class: 'dialog', 'aria-labelledby': 'dialog-title' },
    h(
      'div',
      { class: 'dialog-head' },
      h('h2', { id: 'dialog-title' }, title),
      h('button', { type: 'button', class: 'quiet', title: t('dialog.close'), 'aria-label': t('dialog.close'), onclick: () => dialog.close() }, icon('close')),
    ),
    content,
  );
  dialog.addEventListener('close', () => dialog.remove());
  dialog.addEventListener('mousedown', (e) => {
    if (e.target === dialog) dialog.close(); // the backdrop
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector('input, button.primary')?.focus();
  return dialog;
}

// A form that shows its refusal and cannot be sent twice at once.
function form(submitLabel, rows, run) {
  const error = h('p', { class: 'error', role: 'alert' });
  const submit = h('button', { type: 'submit', class: 'primary' }, submitLabel);
  const element = h(
    'form',
    {
      novalidate: true,
      onsubmit: async (e) => {
        e.preventDefault();
        if (submit.disabled) return;
        submit.disabled = true;
        error.textContent = '';
        try {
          await run((text) => {
            error.textContent = text;
          });
        } catch (problem) {
          error.textContent = errorText(problem.code);
        } finally {
          submit.disabled = false;
        }
      },
    },
    rows,
    error,
    h('div', { class: 'buttons' }, submit),
  );
  return element;
}

export function createDialog(session) {
  const label = field('create-name', t('create.name'), { maxlength: 200, autocomplete: 'off', required: true });
  const choice = (value, checked) =>
    h(
      'label',
      { class: 'choice' },
      h('input', { type: 'radio', name: 'kind', value, checked }),
      h('span', null, h('strong', null, t(`create.${value}`)), h('span', { class: 'hint' }, t(`create.${value}.hint`))),
    );
  const kinds = h('fieldset', null, h('legend', null, t('create.kind')), choice('public', true), choice('private', false));
  const dialog = open(
    t('create.title'),
    form(t('create.submit'), [label.row, kinds], async (refuse) => {
      const name = label.input.value;
      if (!name.trim()) {
        refuse(t('auth.required'));
        label.input.focus();
        return;
      }
      const id = await session.createRoom(name, kinds.querySelector('input:checked').value);
      dialog.close();
      location.hash = `#/room/${encodeURIComponent(id)}`;
    }),
  );
}

export function joinDialog(session) {
  const link = field('join-id', t('join.label'), { autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', dir: 'ltr', required: true });
  const dialog = open(
    t('join.title'),
    form(t('join.submit'), [link.row], async (refuse) => {
      const id = roomIdOf(link.input.value);
      if (!id) {
        refuse(t('join.bad'));
        link.input.focus();
        return;
      }
      try {
        await session.join(id);
      } catch (problem) {
        if (problem.code !== 'not_found') throw problem;
        refuse(t('room.hidden'));
        return;
      }
      dialog.close();
      location.hash = `#/room/${encodeURIComponent(id)}`;
    }),
  );
}

export function roomDialog(session, room, { copyLink }) {
  const owner = room.role === 'owner';
  const label = field('room-name', t('room.name'), { value: room.name, maxlength: 200, autocomplete: 'off' });
  const topic = field('room-topic', t('room.topic'), { value: room.topic ?? '', maxlength: 1000, autocomplete: 'off' });
  const leave = h(
    'button',
    {
      type: 'button', class: 'danger',
      onclick: async () => {
        if (!(await ask(t('room.leave'), t('room.leave.ask', { name: room.name || room.id }), t('room.leave')))) return;
        try {
          await session.leave(room.id);
          dialog.close();
          location.hash = '#/';
        } catch (problem) {
          error.textContent = errorText(problem.code);
        }
      },
    },
    t('room.leave'),
  );
  const error = h('p', { class: 'error', role: 'alert' });
  const dialog = open(
    t('room.menu'),
    owner &&
      form(t('settings.save'), [label.row, topic.row], async () => {
        const changes = {};
        if (label.input.value !== room.name) changes.name = label.input.value;
        if (topic.input.value !== (room.topic ?? '')) changes.topic = topic.input.value;
        if (Object.keys(changes).length) await session.change(room.id, changes);
        dialog.close();
      }),
    h(
      'div',
      { class: 'section spread' },
      h('button', { type: 'button', class: 'plain', onclick: () => copyLink(room) }, t('room.link')),
      leave,
      error,
    ),
  );
}

export function settingsDialog(store, session, { onLanguage, onLogout, toast }) {
  const { me } = store;
  const display = field('my-display', t('settings.display'), { value: me.display_name ?? '', maxlength: 128, autocomplete: 'nickname' });
  const old = field('my-old', t('settings.password.old'), { type: 'password', autocomplete: 'current-password', dir: 'ltr' });
  const fresh = field('my-new', t('settings.password.new'), { type: 'password', autocomplete: 'new-password', dir: 'ltr' }, t('auth.password.hint'));
  const id = h('output', { class: 'id' }, me.user);
  const dialog = open(
    t('settings.title'),
    form(t('settings.save'), [display.row], async (refuse) => {
      if (codePoints(display.input.value) > 64) {
        refuse(t('error.too_large'));
        return;
      }
      await api.changeMe(session.account.token, { display_name: display.input.value });
      store.mergeUser({ user: me.user, display_name: display.input.value });
      toast(t('settings.saved'));
      dialog.close();
    }),
    h('div', { class: 'section' }, h('div', { class: 'field' }, h('span', { class: 'label' }, t('auth.language')), languageSelect((tag) => {
      dialog.close();
      onLanguage(tag);
    }))),
    h(
      'div',
      { class: 'section' },
      h('div', { class: 'field' }, h('span', { class: 'label' }, t('settings.id')), h('div', { class: 'id-row' }, id, h('button', {
        type: 'button', class: 'small',
        onclick: async () => {
          if (await copyText(me.user)) toast(t('settings.copied'));
        },
      }, t('settings.copy')))),
    ),
    h(
      'details',
      { class: 'section' },
      h('summary', null, t('settings.password')),
      form(t('settings.password'), [h('input', { class: 'offscreen', autocomplete: 'username', value: me.name, tabindex: -1, 'aria-hidden': 'true', readonly: true }), old.row, fresh.row], async (refuse) => {
        try {
          await session.changePassword(old.input.value, fresh.input.value);
        } catch (problem) {
          if (['unauthenticated', 'forbidden'].includes(problem.code)) refuse(t('auth.wrong'));
          else if (problem.code === 'bad_request') refuse(t('auth.password.hint'));
          else throw problem;
          return;
        }
        dialog.close();
        toast(t('settings.password.done'));
      }),
    ),
    h(
      'div',
      { class: 'section' },
      h('button', {
        type: 'button', class: 'danger',
        onclick: async () => {
          const waiting = [...store.rooms.values()].some((r) => r.outbox.length > 0);
          if (waiting && !(await ask(t('settings.logout'), t('settings.logout.lost'), t('settings.logout')))) return;
          dialog.close();
          onLogout();
        },
      }, t('settings.logout')),
    ),
  );
}

/** A yes-or-no question; resolves true for yes. */
export function ask(title, text, yes) {
  return new Promise((resolve) => {
    const dialog = open(
      title,
      h('p', null, text),
      h(
        'div',
        { class: 'buttons' },
        h('button', { type: 'button', class: 'plain', onclick: () => dialog.close() }, t('dialog.cancel')),
        h('button', { type: 'button', class: 'primary', onclick: () => dialog.close('yes') }, yes),
      ),
    );
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'));
  });
}

/** A short word at the bottom that goes by itself; it is spoken too. */
export function toast(text, announcer) {
  const host = document.querySelector('dialog[open]') ?? document.body;
  for (const old of document.querySelectorAll('.toast')) old.remove();
  const element = h('div', { class: 'toast' });
  replace(element, text);
  host.append(element);
  announcer.say(text);
  setTimeout(() => element.remove(), 4000);
}

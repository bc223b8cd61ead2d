// The first screen: log in or create an account. Hands the account to the caller; keeps nothing.

import { api } from './api.js';
import { h, replace } from './dom.js';
import { errorText, LANGUAGES, currentLanguage, t } from './i18n.js';

/** The language selector, here and in the settings. */
export function languageSelect(onchange) {
  return h(
    'select',
    { 'aria-label': t('auth.language'), class: 'language', onchange: (e) => onchange(e.target.value) },
    Object.entries(LANGUAGES).map(([tag, label]) =>
      h('option', { value: tag, lang: tag, selected: tag === currentLanguage() }, label),
    ),
  );
}

/** A labelled input: {label, row, input}. */
export function field(id, label, attributes, hint) {
  const input = h('input', { id, dir: 'auto', 'aria-describedby': hint ? `${id}-hint` : null, ...attributes });
  const row = h(
    'div',
    { class: 'field' },
    h('label', { for: id }, label),
    input,
    hint && h('p', { class: 'hint', id: `${id}-hint` }, hint),
  );
  return { row, input };
}

export function authView({ notice, mode = 'login', onAccount, onLanguage }) {
  const root = h('main', { class: 'auth' });
  const values = { name: '', display: '', password: '', invitation: '' };
  let withInvitation = false;
  let busy = false;

  function draw(error) {
    const registering = mode === 'register';
    const userName = field('auth-name', t('auth.name'), {
      value: values.name, autocomplete: 'username', autocapitalize: 'none', spellcheck: 'false', maxlength: 64, required: true,
    });
    const display = field('auth-display', t('auth.display'), { value: values.display, autocomplete: 'nickname', maxlength: 128 });
    const password = field(
      'auth-password', t('auth.password'),
      { type: 'password', value: values.password, autocomplete: registering ? 'new-password' : 'current-password', required: true, dir: 'ltr' },
      registering ? t('auth.password.hint') : null,
    );
    const invitation = field('auth-invitation', t('auth.invitation'), {
      value: values.invitation, autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', dir: 'ltr',
    });
    const keep = () => {
      values.name = userName.input.value;
      values.display = display.input.value;
      values.password = password.input.value;
      values.invitation = invitation.input.value;
    };
    const message = h('p', { class: 'error', role: 'alert', id: 'auth-error' }, error ?? '');
    const submit = h('button', { type: 'submit', class: 'primary wide' }, registering ? t('auth.register') : t('auth.login'));
    const form = h(
      'form',
      {
        novalidate: true,
        onsubmit: async (e) => {
          e.preventDefault();
          keep();
          const empty = [userName.input, password.input].find((input) => !input.value);
          if (empty) {
            message.textContent = t('auth.required');
            empty.focus();
            return;
          }
          if (busy) return;
          busy = true;
          submit.disabled = true;
          message.textContent = '';
          try {
            await onAccount(registering ? await register() : await api.login(values.name, values.password));
          } catch (problem) {
            const shown = explain(problem, registering);
            if (shown.invitation && !withInvitation) {
              withInvitation = true;
              draw(shown.text);
              root.querySelector('#auth-invitation').focus();
            } else {
              message.textContent = shown.text;
            }
          } finally {
            busy = false;
            submit.disabled = false;
          }
        },
      },
      userName.row,
      registering && display.row,
      password.row,
      registering && withInvitation && invitation.row,
      message,
      submit,
    );
    const tab = (value, label) =>
      h(
        'button',
        {
          type: 'button', class: 'tab', 'aria-pressed': String(mode === value),
          onclick: () => {
            keep();
            mode = value;
            draw();
            root.querySelector(`.tab[aria-pressed="true"]`).focus();
          },
        },
        label,
      );
    replace(
      root,
      h(
        'div',
        { class: 'card' },
        h('div', { class: 'brand' }, h('img', { src: '/icon.svg', alt: '', width: 44, height: 44 }), h('h1', null, t('app.name'))),
        h('p', { class: 'lead' }, t('auth.lead')),
        notice && h('p', { class: 'notice', role: 'status' }, notice),
        h('div', { class: 'tabs', role: 'group', 'aria-label': t('auth.mode') }, tab('login', t('auth.login')), tab('register', t('auth.signup'))),
        form,
        h('div', { class: 'foot' }, languageSelect(onLanguage)),
      ),
    );
  }

  // Registering answers the new user; where it gives no token, the log-in does.
  async function register() {
    const fields = { name: values.name, password: values.password };
    if (values.display) fields.display_name = values.display;
    if (withInvitation && values.invitation) fields.invitation = values.invitation.trim();
    const made = await api.register(fields);
    return made.token ? made : api.login(values.name, values.password);
  }

  function explain(problem, registering) {
    const detail = problem.message ?? '';
    if (!registering) {
      if (problem.code === 'unauthenticated' || problem.code === 'not_found') return { text: t('auth.wrong') };
      return { text: problem.code === 'bad_request' ? t('auth.wrong') : errorText(problem.code) };
    }
    if (/invit/i.test(detail)) return { text: t('auth.invitation.needed'), invitation: true };
    if (problem.code === 'conflict') return { text: t('auth.taken') };
    if (problem.code === 'forbidden') return { text: t('auth.closed') };
    if (problem.code === 'bad_request' || problem.code === 'too_large') return { text: t('auth.rejected', { detail }) };
    return { text: errorText(problem.code) };
  }

  draw();
  return root;
}

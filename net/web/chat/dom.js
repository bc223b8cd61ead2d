// Makes elements. Text only ever becomes text nodes: there is no way through here to set HTML, a style
// attribute or an inline handler, which the page's policy forbids as well.

const SVG = 'http://www.w3.org/2000/svg';

/** h('p', {class: 'note', onclick: f}, 'text', node, null, [more]). Null and false children are left out. */
export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) el.addEventListener(key.slice(2), value);
    else if (key === 'value' || key === 'checked' || key === 'disabled') el[key] = value;
    else if (key === 'style' || key === 'srcdoc') throw new Error(`${key} is not allowed`);
    else el.setAttribute(key, value === true ? '' : value);
  }
  append(el, children);
  return el;
}

export function append(el, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function replace(el, ...children) {
  el.replaceChildren();
  append(el, children);
}

/** Sets text only where it differs, so that live regions and selections are left alone. */
export function setText(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

const PATHS = {
  plus: 'M12 5v14M5 12h14',
  back: 'M15 5l-7 7 7 7',
  link: 'M9.500 14.500l5-5M10.500 7l1.800-1.800a4.200 4.200 0 0 1 6 6L16.500 13M13.500 17l-1.800 1.800a4.200 4.200 0 0 1-6-6L7.500 11',
  people: 'M9 11.500a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM2.500 19.500c.5-3.500 3-5.500 6.500-5.500s6 2 6.500 5.500M16 4.800a3.500 3.500 0 0 1 0 6.400M18 14.300c2 .8 3.200 2.500 3.500 5.200',
  gear: 'M4 7.500h8M17 7.500h3M17 7.500a2.500 2.500 0 1 1-5 0 2.500 2.500 0 0 1 5 0zM4 16.500h3M12 16.500h8M12 16.500a2.500 2.500 0 1 1-5 0 2.500 2.500 0 0 1 5 0z',
  more: 'M5.500 12h.01M12 12h.01M18.500 12h.01',
  send: 'M4.500 12L3.500 4.500l17.500 7.500-17.500 7.500zM4.500 12H12',
  down: 'M12 5v13M6 12.500l6 6 6-6',
  lock: 'M6.500 11h11v8.500h-11zM8.500 11V8a3.500 3.500 0 0 1 7 0v3',
  close: 'M6 6l12 12M18 6L6 18',
  search: 'M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13zM15.500 15.500L20.500 20.500',
  enter: 'M14 4.500h5v15h-5M4 12h10.500M10.500 8l4 4-4 4',
};

export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', `icon icon-${name}`);
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', PATHS[name]);
  svg.append(path);
  return svg;
}

/** A user-supplied name, isolated from the text around it. */
export const name = (text, cls) => h('bdi', { class: cls, dir: 'auto' }, text);

/** The round letter of a person or room; its colour follows from the id. */
export function avatar(id, label, cls = '') {
  let hash = 0;
  for (const c of String(id)) hash = (hash * 31 + c.codePointAt(0)) >>> 0;
  const first = [...String(label).trim()].find((c) => /[\p{L}\p{N}\p{Extended_Pictographic}]/u.test(c)) ?? '·';
  return h('span', { class: `avatar hue${hash % 8} ${cls}`, 'aria-hidden': 'true' }, first.toLocaleUpperCase());
}

/** Copies text; resolves false where the browser refuses (no secure context, no permission). */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h('textarea', { class: 'offscreen', value: text, readonly: true });
    const host = document.querySelector('dialog[open]') ?? document.body;
    const focus = document.activeElement;
    host.append(area);
    area.select();
    let done = false;
    try {
      done = document.execCommand('copy');
    } catch {
      done = false;
    }
    area.remove();
    focus?.focus?.();
    return done;
  }
}

// A message's text as nodes: plain text, with http, https and mailto addresses as links. Linear in the
// length of the text; what is shown is the text itself, to the letter.

import { h } from './dom.js';

// Addresses are ASCII only: CJK text may follow at once, and no look-alike or direction mark hides in one.
const ADDRESS = /(?:https?:\/\/|mailto:)[\w\-.~:/?#[\]@!$&'()*+,;=%]+/gi;
const SCHEMES = new Set(['http:', 'https:', 'mailto:']);
const LINK_MAX = 2048;

/** Splits text into [{text}, {text, href}, …]. */
export function splitLinks(text) {
  const parts = [];
  let done = 0;
  for (const match of text.matchAll(ADDRESS)) {
    const start = match.index;
    if (start > 0 && /[\w]/.test(text[start - 1])) continue; // xhttp://… is no address
    const address = trimEnd(match[0]);
    const href = safeHref(address);
    if (!href) continue;
    if (start > done) parts.push({ text: text.slice(done, start) });
    parts.push({ text: address, href });
    done = start + address.length;
  }
  if (done < text.length) parts.push({ text: text.slice(done) });
  return parts;
}

// Punctuation at the end belongs to the sentence; so does a bracket that was not opened in the address.
function trimEnd(address) {
  let end = address.length;
  let depth = 0;
  for (const c of address) depth += c === '(' ? 1 : c === ')' ? -1 : 0;
  while (end > 0) {
    const c = address[end - 1];
    if (c === ')' && depth < 0) depth++;
    else if (!/[.,;:!?'*\]]/.test(c)) break;
    end--;
  }
  return address.slice(0, end);
}

/** The address to link to, or null: only http, https and mailto, with a host or a recipient. */
export function safeHref(address) {
  if (address.length > LINK_MAX) return null;
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!SCHEMES.has(url.protocol)) return null;
  if (url.protocol === 'mailto:' ? !url.pathname.includes('@') : !url.hostname) return null;
  return url.href;
}

/** The nodes of a message's text. */
export function textNodes(text) {
  return splitLinks(text).map((part) =>
    part.href
      ? h('a', { href: part.href, target: '_blank', rel: 'noopener noreferrer', dir: 'ltr' }, part.text)
      : document.createTextNode(part.text),
  );
}

/** The language a text is surely in, for its letter forms and line breaks: 'ko', 'ja' or null. */
export function languageOf(text) {
  if (!text) return null;
  const head = text.slice(0, 400);
  if (/[\uac00-\ud7a3]/.test(head)) return 'ko';
  return /[\u3040-\u30ff]/.test(head) ? 'ja' : null;
}

/** Code points, the unit of the server's limit. */
export function codePoints(text) {
  let n = 0;
  for (const _ of text) n++;
  return n;
}

/** Blank as the server sees it: white space, format characters and the letters that draw nothing. */
export const isBlank = (text) => /^[\s\p{Cf}\u115f\u1160\u2800\u3164\uffa0]*$/u.test(text);

/** A room id out of an id or a link; null if it is neither. */
export function roomIdOf(input) {
  const text = input.trim();
  const hash = text.indexOf('#/room/');
  let id = text;
  if (hash >= 0) {
    try {
      id = decodeURIComponent(text.slice(hash + 7));
    } catch {
      return null;
    }
  }
  return /^[A-Za-z0-9_.:-]{1,64}$/.test(id) ? id : null;
}

/** One line out of many, for previews and announcements. */
export const oneLine = (text, max = 200) => {
  const line = text.replace(/\s+/gu, ' ').trim();
  const points = [...line.slice(0, max * 2)];
  return points.length > max ? `${points.slice(0, max).join('')}…` : line;
};

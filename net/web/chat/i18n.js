// The page's words in English, Japanese and Korean, and everything that depends on the language: plurals,
// dates, times. User-supplied values are isolated, so that their direction cannot turn a sentence.

import en from './lang_en.js';
import ja from './lang_ja.js';
import ko from './lang_ko.js';

export const LANGUAGES = { en: 'English', ja: '日本語', ko: '한국어' };
export const WORDS = { en, ja, ko };
const KEY = 'parley.language';

let language = 'en';
let plural = new Intl.PluralRules('en');
let formats = {};

/** The chosen language, else the browser's first one that the page speaks, else English. */
export function pickLanguage(preferred = navigator.languages ?? [navigator.language]) {
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {
    // no storage: the browser's languages decide
  }
  if (chosen && WORDS[chosen]) return chosen;
  for (const tag of preferred) {
    const base = String(tag).toLowerCase().split('-')[0];
    if (WORDS[base]) return base;
  }
  return 'en';
}

export function setLanguage(tag, remember = false) {
  language = WORDS[tag] ? tag : 'en';
  plural = new Intl.PluralRules(language);
  const make = (options) => new Intl.DateTimeFormat(language, options);
  formats = {
    time: make({ hour: 'numeric', minute: '2-digit' }),
    day: make({ weekday: 'long', month: 'long', day: 'numeric' }),
    dayYear: make({ year: 'numeric', month: 'long', day: 'numeric', weekday: 'short' }),
    short: make({ month: 'short', day: 'numeric' }),
    shortYear: make({ year: 'numeric', month: 'numeric', day: 'numeric' }),
    full: make({ dateStyle: 'full', timeStyle: 'medium' }),
    number: new Intl.NumberFormat(language),
  };
  if (globalThis.document) document.documentElement.lang = language;
  if (remember) {
    try {
      localStorage.setItem(KEY, language);
    } catch {
      // the choice lasts for this visit
    }
  }
}

export const currentLanguage = () => language;

/** Wraps text in FIRST STRONG ISOLATE .. POP DIRECTIONAL ISOLATE, for plain strings (titles, labels). */
export const isolate = (text) => `\u2068${String(text).replace(/[\u2066-\u2069\u202a-\u202e]/g, '')}\u2069`;

/** The words of `key`; `{n}` picks the plural form `key.one` / `key.other`, other values are isolated. */
export function t(key, values = {}) {
  const words = WORDS[language];
  let text = words[key];
  if (text === undefined && values.n !== undefined) {
    text = words[`${key}.${plural.select(values.n)}`] ?? words[`${key}.other`];
  }
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === 'number' ? formats.number.format(value) : isolate(value);
  });
}

/** What went wrong, by the contract's error code. */
export function errorText(code) {
  const key = `error.${code}`;
  return WORDS[language][key] === undefined ? t('error.internal') : t(key);
}

export const timeText = (at) => formats.time.format(at);
export const fullText = (at) => formats.full.format(at);

/** A key that is equal for two instants of the same day in the user's zone. */
export function dayKey(at) {
  const d = new Date(at);
  return d.getFullYear() * 10_000 + (d.getMonth() + 1) * 100 + d.getDate();
}

function daysAgo(at) {
  const day = new Date(at);
  const today = new Date();
  // Noon to noon, so that a day of 23 or 25 hours counts as one.
  const noon = (d) => new Date(d.getFullYear(), d.getMonth(), d.getDate(), 12).getTime();
  return Math.round((noon(today) - noon(day)) / 86_400_000);
}

export function dayText(at) {
  const ago = daysAgo(at);
  if (ago === 0) return t('day.today');
  if (ago === 1) return t('day.yesterday');
  return new Date(at).getFullYear() === new Date().getFullYear() ? formats.day.format(at) : formats.dayYear.format(at);
}

/** For the room list: the time today, else the day. */
export function whenText(at) {
  const ago = daysAgo(at);
  if (ago === 0) return timeText(at);
  if (ago === 1) return t('day.yesterday');
  return new Date(at).getFullYear() === new Date().getFullYear() ? formats.short.format(at) : formats.shortYear.format(at);
}

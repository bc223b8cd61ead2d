// Who is logged in, kept across visits and shared by the tabs of one browser. The token lives in
// localStorage: the server sets no cookies, and the page's policy lets no foreign script near it.

const KEY = 'parley.account';

export function loadAccount() {
  try {
    const account = JSON.parse(localStorage.getItem(KEY) ?? 'null');
    return account && typeof account.token === 'string' ? account : null;
  } catch {
    return null;
  }
}

export function saveAccount(account) {
  try {
    localStorage.setItem(KEY, JSON.stringify(account));
  } catch {
    // storage refused: logged in for as long as the tab lives
  }
}

export function forgetAccount() {
  try {
    localStorage.removeItem(KEY);
    sessionStorage.removeItem('parley.outbox');
  } catch {
    // nothing was kept
  }
}

const DEVICES = 'parley.devices';
const DEVICES_MAX = 8; // names whose device mark is kept, the latest last

function devices() {
  try {
    const list = JSON.parse(localStorage.getItem(DEVICES) ?? '[]');
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

/** The mark that the server gave this browser at an earlier log-in by that name, or null. */
export const deviceOf = (name) => devices().find(([n]) => n === name)?.[1] ?? null;

export function keepDevice(name, mark) {
  if (!mark) return;
  try {
    const others = devices().filter(([n]) => n !== name);
    localStorage.setItem(DEVICES, JSON.stringify([...others, [name, mark]].slice(-DEVICES_MAX)));
  } catch {
    // not kept: the next log-in is one from an unknown device
  }
}

/** Another tab logged in, renewed or logged out: `listener(account or null)`. */
export function watchAccount(listener) {
  window.addEventListener('storage', (e) => {
    if (e.key === KEY || e.key === null) listener(loadAccount());
  });
}

// Parley's HTTP API as far as the page needs it: accounts and what the socket has no op for.
// Every call has a deadline and throws ApiError with the contract's error code.

import { deviceOf, keepDevice } from './account.js';

const TIMEOUT_MS = 35_000;

export class ApiError extends Error {
  constructor(code, message, status, retryAfter) {
    super(message || code);
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter; // seconds, where the server says so
  }
}

async function call(method, path, { token, body, extra, onHeaders } = {}) {
  const headers = { Accept: 'application/json', ...extra };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), TIMEOUT_MS);
  try {
    const response = await fetch(`/api/v1${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'omit',
      cache: 'no-store',
      signal: abort.signal,
    });
    const text = await response.text();
    let json = {};
    try {
      if (text) json = JSON.parse(text);
    } catch {
      if (response.ok) throw new ApiError('internal', 'unreadable answer', response.status);
    }
    if (!response.ok) {
      const retry = Number(response.headers.get('Retry-After')) || undefined;
      throw new ApiError(json.code || 'internal', json.detail || json.title, response.status, retry);
    }
    onHeaders?.(response.headers);
    return json;
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError('lost', error.message, 0); // no network, or the deadline
  } finally {
    clearTimeout(timer);
  }
}

const seg = encodeURIComponent;

export const api = {
  register: (fields) => call('POST', '/users', { body: fields }),
  // What an earlier log-in gave this device keeps it welcome while others guess at the password.
  login: (name, password) =>
    call('POST', '/login', {
      body: { name, password },
      extra: deviceOf(name) ? { 'Parley-Device': deviceOf(name) } : {},
      onHeaders: (headers) => keepDevice(name, headers.get('Parley-Device')),
    }),
  logout: (token) => call('POST', '/logout', { token }),
  renew: (token) => call('POST', '/token', { token }),
  changeMe: (token, fields) => call('PATCH', '/me', { token, body: fields }),
  changePassword: (token, password, newPassword) =>
    call('PUT', '/password', { token, body: { password, new_password: newPassword } }),
  room: (token, room) => call('GET', `/rooms/${seg(room)}`, { token }),
  members: (token, room, cursor) =>
    call('GET', `/rooms/${seg(room)}/members${cursor ? `?cursor=${seg(cursor)}` : ''}`, { token }),
};

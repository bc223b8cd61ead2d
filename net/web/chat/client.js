// The parley.v1 connection: one WebSocket at a time, requests by id, reconnecting as the close-code
// table says. The session owns it and resumes rooms on it; it keeps no room and no user, and it never
// gives up by itself except where the table says stop.

const HELLO_TIMEOUT_MS = 15_000;
const REQUEST_TIMEOUT_MS = 65_000; // the server settles an unknown commit within 60 s
const SILENCE_MAX_MS = 40_000; // the server's `sync` comes after 25 s without an event
const SILENCE_PING_MS = 20_000;
const CHECK_MS = 5_000;
const PROBE_MS = 5_000;
const PENDING_MAX = 1_000;
const BACKOFF_BASE_MS = 500;
const BACKOFF_CAP_MS = 30_000;
const STABLE_MS = 10_000; // a connection that held this long starts the backoff anew

const STOP_CODES = new Set([1002, 1003, 1007, 1008, 1009, 4001, 4003]);

/** What a client does after a close code: 'resume', 'wait' (a long pause, then resume) or 'stop'. */
export function closeAction(code) {
  if (STOP_CODES.has(code)) return 'stop';
  return code === 4029 ? 'wait' : 'resume';
}

/** Full jitter: uniformly up to base * 2^attempt, the ceiling within 0.5 s .. 30 s. In milliseconds. */
export function backoff(attempt, random = Math.random) {
  const ceiling = Math.min(BACKOFF_CAP_MS, BACKOFF_BASE_MS * 2 ** Math.min(attempt, 16));
  return Math.round(random() * ceiling);
}

/** A request's refusal: `code` is the contract's error code, or 'lost' / 'timeout' / 'busy' of this side. */
export class RequestError extends Error {
  constructor(code, message, extra = {}) {
    super(message || code);
    this.code = code;
    Object.assign(this, extra);
  }
}

export class Client {
  /**
   * `hooks`: hello() gives hello's fields; onHello(answer), onEvent(ev), onState(state),
   * onStop(code, reason). States: off, connecting, online, waiting (see `retryAt`), stopped.
   */
  constructor(url, hooks, { WebSocketClass = globalThis.WebSocket, random = Math.random } = {}) {
    this.url = url;
    this.hooks = hooks;
    this.WebSocketClass = WebSocketClass;
    this.random = random;
    this.state = 'off';
    this.retryAt = 0;
    this.attempt = 0;
    this._socket = null;
    this._pending = new Map();
    this._nextId = 1;
    this._bye = null;
    this._retryTimer = null;
    this._helloTimer = null;
    this._probeTimer = null;
    this._checkTimer = null;
    this._lastHeard = 0;
    this._lastCheck = 0;
    this._onlineSince = 0;
    this._pinging = false;
  }

  get online() {
    return this.state === 'online';
  }

  start() {
    if (this.state === 'connecting' || this.state === 'online') return;
    this._open();
  }

  /** Connects anew at once, with what hello() gives now. */
  restart() {
    this._open();
  }

  /** Ends the connection for good (log-out); requests under way are refused as lost. */
  stop() {
    this._drop();
    this._setState('off');
  }

  /** The user or the browser says that the network is back, or the page came to the front. */
  nudge() {
    if (this.state === 'waiting') this._open();
    else if (this.state === 'online') this._probe();
  }

  /**
   * Sends a request and resolves with its answer. Rejects with RequestError; after 'lost' or 'timeout'
   * the outcome is unknown, after every other code it did not happen.
   */
  request(op, fields = {}) {
    if (this.state !== 'online' && op !== 'hello') {
      return Promise.reject(new RequestError('lost', 'not connected'));
    }
    if (this._pending.size >= PENDING_MAX) {
      return Promise.reject(new RequestError('busy', 'too many requests under way'));
    }
    const id = this._nextId++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        if (!this._pending.delete(id)) return;
        reject(new RequestError('timeout', `no answer to ${op}`));
        this._lost(null, 'no answer');
      }, REQUEST_TIMEOUT_MS);
      this._pending.set(id, { resolve, reject, timer });
      this._send({ op, id, ...fields });
    });
  }

  /** Sends without an id: no answer comes (only `typing` may do so). */
  notify(op, fields = {}) {
    if (this.state === 'online') this._send({ op, ...fields });
  }

  _send(frame) {
    try {
      this._socket.send(JSON.stringify(frame));
    } catch {
      // A socket that is closing: its close event follows and settles what is under way.
    }
  }

  _setState(state) {
    if (this.state === state) return;
    this.state = state;
    this.hooks.onState(state);
  }

  _open() {
    this._drop();
    let socket;
    try {
      socket = new this.WebSocketClass(this.url, 'parley.v1');
    } catch {
      this._retry(null);
      return;
    }
    this._socket = socket;
    this._bye = null;
    this._setState('connecting');
    this._helloTimer = setTimeout(() => this._lost(null, 'hello timed out'), HELLO_TIMEOUT_MS);
    socket.onopen = () => this._hello(socket);
    socket.onmessage = (e) => this._message(socket, e.data);
    socket.onclose = (e) => this._lost(e.code, e.reason);
    socket.onerror = () => {}; // the close event follows and says all there is
  }

  async _hello(socket) {
    try {
      const answer = await this.request('hello', this.hooks.hello());
      if (this._socket !== socket) return;
      clearTimeout(this._helloTimer);
      this._onlineSince = Date.now();
      this._lastCheck = Date.now();
      this._checkTimer = setInterval(() => this._check(), CHECK_MS);
      this._setState('online');
      this.hooks.onHello(answer);
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      if (this._socket !== socket) return; // the loss that caused it is being handled
      if (error.code === 'unauthenticated') this._stopWith(4001, error.message);
      else if (error.code === 'suspended') this._stopWith(4003, error.message);
      else {
        this._bye = { retry_after_ms: error.retry_after_ms };
        this._lost(null, error.code);
      }
    }
  }

  _message(socket, data) {
    if (this._socket !== socket) return;
    this._lastHeard = Date.now();
    let frame;
    try {
      frame = JSON.parse(data);
    } catch {
      return; // no JSON: the server never sends such a frame, and nothing can be done with it
    }
    if (frame.re !== undefined) {
      const pending = this._pending.get(frame.re);
      if (!pending) return;
      this._pending.delete(frame.re);
      clearTimeout(pending.timer);
      if (frame.error) {
        const { code, message, ...extra } = frame.error;
        pending.reject(new RequestError(code, message, extra));
      } else {
        pending.resolve(frame);
      }
    } else if (frame.ev === 'bye') {
      this._bye = frame;
    } else if (frame.ev) {
      this.hooks.onEvent(frame);
    }
  }

  // The watch over a silent socket. After a sleep of the machine the timers come late and the last
  // word is old although the socket may be well: then one probe decides.
  _check() {
    const now = Date.now();
    const late = now - this._lastCheck > CHECK_MS * 3;
    this._lastCheck = now;
    const silent = now - this._lastHeard;
    if (late) this._probe();
    else if (silent > SILENCE_MAX_MS) this._lost(null, 'silent');
    else if (silent > SILENCE_PING_MS) this._ping();
  }

  _ping() {
    if (this._pinging) return;
    this._pinging = true;
    this.request('ping').then(
      () => { this._pinging = false; },
      () => { this._pinging = false; },
    );
  }

  _probe() {
    if (this._probeTimer) return;
    const asked = Date.now();
    this._ping();
    this._probeTimer = setTimeout(() => {
      this._probeTimer = null;
      if (this._lastHeard < asked) this._lost(null, 'silent');
    }, PROBE_MS);
  }

  _lost(code, reason) {
    const bye = this._bye;
    this._drop();
    if (code !== null && closeAction(code) === 'stop') {
      this._stopWith(code, reason);
      return;
    }
    this._retry(bye, code);
  }

  _stopWith(code, reason) {
    this._drop();
    this.stopCode = code;
    this._setState('stopped');
    this.hooks.onStop(code, reason);
  }

  _retry(bye, code = null) {
    if (this._onlineSince && Date.now() - this._onlineSince > STABLE_MS) this.attempt = 0;
    this._onlineSince = 0;
    let delay = backoff(this.attempt, this.random);
    this.attempt++;
    if (code !== null && closeAction(code) === 'wait') {
      delay = BACKOFF_CAP_MS / 2 + Math.round((this.random() * BACKOFF_CAP_MS) / 2);
    }
    if (bye && bye.retry_after_ms > 0) delay = bye.retry_after_ms + Math.round(this.random() * BACKOFF_BASE_MS);
    this.retryAt = Date.now() + delay;
    this._retryTimer = setTimeout(() => this._open(), delay);
    this._setState('waiting');
  }

  // Lets go of the socket at once: its close event may come minutes later on a dead network.
  _drop() {
    clearTimeout(this._retryTimer);
    clearTimeout(this._helloTimer);
    clearTimeout(this._probeTimer);
    clearInterval(this._checkTimer);
    this._probeTimer = null;
    this._pinging = false;
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
      try {
        socket.close();
      } catch {
        // already closed
      }
    }
    const pending = [...this._pending.values()];
    this._pending.clear();
    for (const p of pending) {
      clearTimeout(p.timer);
      p.reject(new RequestError('lost', 'connection lost'));
    }
  }
}

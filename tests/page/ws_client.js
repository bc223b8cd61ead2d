// A WebSocket client of a hundred lines on node:net (RFC 6455, text frames, no extensions), since node 18
// has none and one socket for preparing tests is not worth a package.

import { createHash, randomBytes } from 'node:crypto';
import net from 'node:net';

export class WebSocket {
  constructor(url, protocol) {
    const { hostname, port, pathname } = new URL(url);
    this.buffer = Buffer.alloc(0);
    this.parts = [];
    this.open = false;
    this.code = 1006;
    const key = randomBytes(16).toString('base64');
    const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    this.socket = net.connect(Number(port), hostname);
    this.socket.setNoDelay(true);
    this.opened = new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('handshake timed out')), 30_000);
      this.socket.on('connect', () => {
        this.socket.write(
          `GET ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
            `Sec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: ${protocol}\r\n\r\n`,
        );
      });
      this.socket.on('error', reject);
      this.socket.on('data', (chunk) => {
        this.buffer = Buffer.concat([this.buffer, chunk]);
        if (!this.open) {
          const end = this.buffer.indexOf('\r\n\r\n');
          if (end < 0) return;
          const head = this.buffer.subarray(0, end).toString('latin1');
          this.buffer = this.buffer.subarray(end + 4);
          clearTimeout(timer);
          if (!head.startsWith('HTTP/1.1 101') || !head.includes(accept)) {
            this.socket.destroy();
            reject(new Error(`handshake refused: ${head.split('\r\n')[0]}`));
            return;
          }
          this.open = true;
          resolve();
        }
        while (this._frame());
      });
      this.socket.on('close', () => {
        clearTimeout(timer);
        reject(new Error('closed'));
        this.onclose?.(this.code);
      });
    });
  }

  _frame() {
    const b = this.buffer;
    if (b.length < 2) return false;
    let at = 2;
    let length = b[1] & 0x7f;
    if (length === 126) {
      if (b.length < 4) return false;
      length = b.readUInt16BE(2);
      at = 4;
    } else if (length === 127) {
      if (b.length < 10) return false;
      length = Number(b.readBigUInt64BE(2));
      at = 10;
    }
    if (b.length < at + length) return false;
    const payload = b.subarray(at, at + length);
    const opcode = b[0] & 0x0f;
    this.buffer = b.subarray(at + length);
    if (opcode === 8) {
      if (length >= 2) this.code = payload.readUInt16BE(0);
      this._write(8, payload);
      this.socket.end();
    } else if (opcode === 9) {
      this._write(10, payload);
    } else if (opcode < 3) {
      this.parts.push(payload);
      if (b[0] & 0x80) {
        const whole = Buffer.concat(this.parts).toString('utf8');
        this.parts = [];
        this.onmessage?.(whole);
      }
    }
    return true;
  }

  _write(opcode, payload) {
    if (this.socket.destroyed) return;
    const mask = randomBytes(4);
    const head = payload.length < 126 ? Buffer.from([0x80 | opcode, 0x80 | payload.length]) : Buffer.alloc(4);
    if (payload.length >= 126) {
      head[0] = 0x80 | opcode;
      head[1] = 0x80 | 126;
      head.writeUInt16BE(payload.length, 2);
    }
    const masked = Buffer.from(payload);
    for (let i = 0; i < masked.length; i++) masked[i] ^= mask[i % 4];
    this.socket.write(Buffer.concat([head, mask, masked]));
  }

  send(text) {
    this._write(1, Buffer.from(text, 'utf8'));
  }

  close() {
    this._write(8, Buffer.from([0x03, 0xe8]));
    this.socket.end();
  }
}

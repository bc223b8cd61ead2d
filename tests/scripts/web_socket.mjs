// A WebSocket client of the browser's shape (onopen, onmessage, send) for Nodes that have none of their own; enough for the
// README's example and no more: text frames under 64 KiB, one masked frame per send.

import http from 'node:http'
import crypto from 'node:crypto'

class Small {
  constructor(url, protocol) {
    const headers = {
      Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13',
      'Sec-WebSocket-Key': crypto.randomBytes(16).toString('base64'), 'Sec-WebSocket-Protocol': protocol
    }
    http.get(url.replace('ws:', 'http:'), { headers }).on('upgrade', (response, socket, head) => {
      this.socket = socket
      this.buffer = head
      socket.on('data', (data) => this.#take(data))
      this.onopen?.({})
      this.#take(Buffer.alloc(0))
    })
  }

  #take(data) {
    this.buffer = Buffer.concat([this.buffer, data])
    for (;;) {
      if (this.buffer.length < 2) return
      let length = this.buffer[1] & 127
      let at = 2
      if (length === 126) {
        if (this.buffer.length < 4) return
        length = this.buffer.readUInt16BE(2)
        at = 4
      }
      if (this.buffer.length < at + length) return
      const payload = this.buffer.subarray(at, at + length)
      const opcode = this.buffer[0] & 15
      this.buffer = this.buffer.subarray(at + length)
      if (opcode === 1) this.onmessage?.({ data: payload.toString('utf8') })
    }
  }

  send(text) {
    const payload = Buffer.from(text)
    const head = payload.length < 126 ? Buffer.from([0x81, 0x80 | payload.length]) : Buffer.from([0x81, 0xfe, payload.length >> 8, payload.length & 255])
    const mask = crypto.randomBytes(4)
    for (let i = 0; i < payload.length; i++) payload[i] ^= mask[i & 3]
    this.socket.write(Buffer.concat([head, mask, payload]))
  }
}

export const WebSocket = globalThis.WebSocket ?? Small

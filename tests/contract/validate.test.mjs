// The validator against itself: a sound recording passes, and every way of tampering with one is caught, on every message.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { Contract, root } from './lib/contract.mjs'
import { documented } from './lib/recording.mjs'
import { httpLines, reportOf, webSocketLines } from './lib/sample.mjs'

const contract = new Contract()
const sound = [...webSocketLines(), ...httpLines(contract)]
const faults = (lines) => reportOf(contract, lines).faults

/** The recording with one line changed by `change(line)`. */
const changed = (index, change) => {
  const lines = structuredClone(sound)
  change(lines[index])
  return lines
}

/** That line alone, changed; a line from the server is judged by itself. */
const alone = (index, change) => {
  const line = structuredClone(sound[index])
  change(line)
  return [line]
}

/** Fails where the change of any line that `which` chooses goes unnoticed; says how many there were. */
function caughtOnEvery(which, change) {
  let count = 0
  sound.forEach((line, index) => {
    if (!which(line)) return
    count++
    const what = JSON.stringify(line).slice(0, 140)
    assert.ok(faults(alone(index, change)).length > 0, `not caught: ${what}`)
  })
  return count
}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value)
const free = new Set(['/openapi.json', '/asyncapi.json'])
const described = (line) => line.dir === 'in' && isObject(line.body) && !free.has(line.path)

test('a sound recording has no fault and shows all that is documented', () => {
  const report = reportOf(contract, sound)
  assert.deepEqual(report.faults, [])
  sound.forEach((line, index) => assert.deepEqual(faults(alone(index, () => {})), [], JSON.stringify(line)))
  const missing = documented(contract).filter((name) => !report.seen.has(name))
  assert.deepEqual(missing, ['GET /ws'].filter((name) => missing.includes(name)))
})

test('an undocumented field is caught in every answer, event and body', () => {
  const count = caughtOnEvery(described, (line) => (line.body.surprise = 1))
  assert.ok(count > 100, `only ${count}`)
})

test('an undocumented field is caught at every depth', () => {
  let count = 0
  const places = (value, at = []) =>
    !value || typeof value !== 'object' ? [] : [
      ...(isObject(value) && at.length ? [at] : []),
      ...Object.entries(value).flatMap(([k, v]) => places(v, [...at, k]))
    ]
  sound.forEach((line, index) => {
    if (!described(line)) return
    for (const at of places(line.body)) {
      if (at.includes('params')) continue
      count++
      const lines = alone(index, (l) => (at.reduce((node, k) => node[k], l.body).surprise = 1))
      assert.ok(faults(lines).length > 0, `${JSON.stringify(line.body).slice(0, 80)} at ${at.join('.')}`)
    }
  })
  assert.ok(count > 40, `only ${count}`)
})

test('a missing field is caught wherever it is required', () => {
  let count = 0
  sound.forEach((line, index) => {
    if (!described(line)) return
    const definition = definitionOf(line)
    const required = definition.required ?? []
    for (const key of required) {
      count++
      assert.ok(faults(alone(index, (l) => delete l.body[key])).length > 0, `${JSON.stringify(line.body).slice(0, 80)} without ${key}`)
    }
  })
  assert.ok(count > 250, `only ${count}`)
})

test('a wrong type is caught in every field', () => {
  let count = 0
  sound.forEach((line, index) => {
    if (!described(line)) return
    for (const key of Object.keys(line.body)) {
      count++
      const wrong = isObject(line.body[key]) ? 'text' : { wrong: true }
      assert.ok(faults(alone(index, (l) => (l.body[key] = wrong))).length > 0, `${JSON.stringify(line.body).slice(0, 80)} ${key}`)
    }
  })
  assert.ok(count > 300, `only ${count}`)
})

test('a wrong type or a missing field of a request is caught unless it was answered with an error', () => {
  const index = sound.findIndex((line) => line.dir === 'out' && line.op === 'message.send')
  const id = sound[index].body.id
  for (const change of [(l) => (l.body.text = 7), (l) => delete l.body.room]) {
    const lines = changed(index, change)
    assert.ok(faults(lines).length > 0)
    const error = { re: id, error: { code: 'bad_request', message: 'text must be a string' } }
    lines[index + 1] = { dir: 'in', kind: 'ws', op: 'message.send', body: error }
    assert.deepEqual(faults(lines), [])
    lines.splice(index + 1, 1)
    assert.ok(faults(lines).length > 0, 'never answered')
    lines[index].hostile = true
    assert.deepEqual(faults(lines), [], 'a hostile one may be cut off instead')
  }
})

test('an accepted HTTP request that breaks its schema is caught, a refused one is not', () => {
  const index = sound.findIndex((line) => line.dir === 'out' && line.method === 'POST' && line.path.endsWith('/messages'))
  const lines = changed(index, (l) => delete l.body.text)
  assert.equal(faults(lines).length, 1)
  const body = { type: 'about:blank', title: 'Bad request', status: 400, code: 'bad_request' }
  Object.assign(lines[index + 1], { status: 400, content_type: 'application/problem+json', body })
  assert.deepEqual(faults(lines), [])
})

test('unknown events, ops, kinds and close codes are caught', () => {
  const extra = [
    { dir: 'in', kind: 'ws', body: { ev: 'surprise', room: 'r_1' } },
    { dir: 'in', kind: 'ws', body: { ev: 'durable' } },
    { dir: 'in', kind: 'ws', body: { ev: 'constructor' } },
    { dir: 'in', kind: 'ws', body: { ok: true } },
    { dir: 'in', kind: 'ws', body: [] },
    { dir: 'in', kind: 'ws', body: { ev: 'bye', code: 4999, reason: 'Unlisted' } },
    { dir: 'in', kind: 'ws', op: 'surprise', body: { re: 1, ok: true } },
    { dir: 'in', kind: 'ws', body: { re: 99999, ok: true, surprise: 1 } },
    { dir: 'in', kind: 'ws', body: { re: 1, error: { code: 'teapot', message: 'No such code' } } },
    { dir: 'out', kind: 'ws', op: 'surprise', body: { op: 'surprise', id: 1 } },
    { dir: 'in', kind: 'smoke', body: {} }
  ]
  for (const line of extra) assert.equal(faults([...sound, line]).length, 1, JSON.stringify(line))
})

test('undocumented paths, methods, statuses and types are caught', () => {
  const ok = { dir: 'in', kind: 'http', content_type: 'application/json', status: 200, body: {} }
  const problem = { type: 'about:blank', title: 'Not found', status: 404, code: 'not_found' }
  const extra = [
    { ...ok, method: 'GET', path: '/api/v1/surprise' },
    { ...ok, method: 'DELETE', path: '/api/v1/me' },
    { ...ok, method: 'GET', path: '/livez', status: 299 },
    { ...ok, method: 'GET', path: '/livez', content_type: 'text/html', body: 'ok' },
    { ...ok, method: 'GET', path: '/api/v1/surprise', status: 404, content_type: 'text/plain', body: 'no' },
    { ...ok, method: 'GET', path: '/api/v1/me', status: 404, content_type: 'application/problem+json', body: { ...problem, status: 403 } },
    { ...ok, method: 'GET', path: '/api/v1/surprise', status: 404, content_type: 'application/problem+json', body: { ...problem, extra: 1 } }
  ]
  for (const line of extra) assert.equal(faults([...sound, line]).length, 1, JSON.stringify(line))
  const refused = { ...ok, method: 'GET', path: '/api/v1/surprise', status: 404, content_type: 'application/problem+json', body: problem }
  assert.deepEqual(faults([...sound, refused]), [])
})

test('a recording that is empty or no JSON is caught', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'parley-recording-'))
  const file = path.join(folder, 'frames-1.jsonl')
  fs.writeFileSync(file, '{"dir":"in",\n')
  const run = (...args) => spawnSync(process.execPath, [path.join(root, 'tests/contract/validate.mjs'), ...args], { encoding: 'utf8' })
  assert.equal(run(path.join(folder, 'none')).status, 2)
  const broken = run(folder)
  assert.equal(broken.status, 1)
  assert.match(broken.stderr, /frames-1\.jsonl:1: not JSON/)
  fs.writeFileSync(file, '')
  const empty = run(folder)
  assert.equal(empty.status, 1)
  assert.match(empty.stderr, /no recorded line/)
  fs.writeFileSync(file, sound.map((line) => JSON.stringify(line) + '\n').join(''))
  assert.equal(run(folder).status, 0)
  assert.equal(run('--require-coverage', folder).status, 0)
  const short = sound.filter((line) => line.body?.ev !== 'sync' && line.op !== 'message.send')
  fs.writeFileSync(file, short.map((line) => JSON.stringify(line) + '\n').join(''))
  assert.equal(run(folder).status, 0)
  const missing = run('--require-coverage', folder)
  assert.equal(missing.status, 1)
  assert.match(missing.stderr, /answer message\.send/)
  assert.equal(run().status, 2)
  assert.equal(run('--surprise', folder).status, 2)
  fs.rmSync(folder, { recursive: true })
})

function definitionOf(line) {
  let [group, name] = ['problem', 'problem']
  if (line.kind === 'ws') {
    if ('ev' in line.body) [group, name] = ['events', line.body.ev]
    else [group, name] = ['answers', 'error' in line.body ? 'error' : line.op]
  } else if (line.status < 400) {
    const { operation } = contract.route(line.method, line.path)
    ;[group, name] = contract.bodyDefinition(contract.resolve(operation.responses[line.status]).content, line.content_type)
  }
  let found = contract.schemas[group].$defs[name]
  while (found.$ref) {
    const [file, pointer] = found.$ref.split('#/$defs/')
    if (file) group = file.replace('.schema.json', '')
    found = contract.schemas[group].$defs[pointer]
  }
  return found
}

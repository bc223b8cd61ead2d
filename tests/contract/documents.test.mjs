// The two documents are valid by their own specifications, complete, and agree with the schemas.

import assert from 'node:assert/strict'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import test from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import Ajv from 'ajv'
import addFormats from 'ajv-formats'
import { Contract, loadSchemas, readJson, root } from './lib/contract.mjs'
import { documented } from './lib/recording.mjs'

const require = createRequire(import.meta.url)
const contract = new Contract()
const { openapi, asyncapi } = contract

// AsyncAPI's own schema carries the draft 07 meta-schema within itself, hence no second one here.
const asyncapiCheck = () =>
  addFormats(new Ajv({ strict: false, meta: false, validateSchema: false })).compile(
    readJson(require.resolve('@asyncapi/specs/schemas/3.0.0.json'))
  )

test('the OpenAPI document is valid OpenAPI 3.1', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(openapi))
  assert.ok(valid, JSON.stringify(errors, null, 1))
})

test('the AsyncAPI document is valid AsyncAPI 3.0', () => {
  const check = asyncapiCheck()
  assert.ok(check(asyncapi), JSON.stringify(check.errors, null, 1))
})

test('a broken document is refused', async () => {
  const noTitle = structuredClone(openapi)
  delete noTitle.info.title
  assert.equal((await new Validator().validate(noTitle)).valid, false)
  const check = asyncapiCheck()
  const noAction = structuredClone(asyncapi)
  delete noAction.operations.ping.action
  assert.equal(check(noAction), false)
})

test('every schema compiles under JSON Schema 2020-12', () => {
  for (const [group, schema] of Object.entries(contract.schemas))
    for (const name of Object.keys(schema.$defs)) assert.ok(Array.isArray(contract.check(group, name, null)), `${group} ${name}`)
})

test('what the server sends is closed, what a client sends is open', () => {
  const clientSent = new Set(Object.keys(contract.schemas.requests.$defs).map((n) => `requests.${n}`))
  for (const { methods } of contract.operations)
    for (const operation of Object.values(methods)) {
      const body = contract.resolve(operation.requestBody)
      if (body) clientSent.add(contract.bodyDefinition(body.content, 'application/json').join('.'))
    }
  const look = (node, place, open) => {
    if (node === null || typeof node !== 'object') return
    if (Array.isArray(node)) return node.forEach((item, i) => look(item, `${place}/${i}`, open))
    if (node.type === 'object' && node.properties)
      assert.equal(node.additionalProperties, open ? undefined : false, `${place} must be ${open ? 'open' : 'closed'}`)
    for (const [key, value] of Object.entries(node)) if (key !== 'if' && key !== 'not') look(value, `${place}/${key}`, open)
  }
  for (const [group, schema] of Object.entries(contract.schemas))
    for (const [name, definition] of Object.entries(schema.$defs))
      look(definition, `${group}.${name}`, clientSent.has(`${group}.${name}`))
})

test('only keywords that JSON Schema draft 07 reads alike are used, so that AsyncAPI tools understand them', () => {
  const allowed = new Set(['$ref', 'title', 'description', 'type', 'enum', 'const', 'properties', 'required', 'items',
    'additionalProperties', 'pattern', 'format', 'minimum', 'maximum', 'exclusiveMinimum', 'minLength', 'maxLength',
    'minItems', 'maxItems', 'minProperties', 'maxProperties', 'oneOf', 'not', 'if', 'then', 'else'])
  const look = (node, place) => {
    if (typeof node !== 'object') return
    for (const [key, value] of Object.entries(node)) {
      assert.ok(allowed.has(key), `${place}: ${key}`)
      if (key === 'properties') for (const [name, sub] of Object.entries(value)) look(sub, `${place}/${name}`)
      else if (['items', 'additionalProperties', 'not', 'if', 'then', 'else'].includes(key)) look(value, `${place}/${key}`)
      else if (key === 'oneOf') value.forEach((sub, i) => look(sub, `${place}/${i}`))
    }
  }
  for (const [group, schema] of Object.entries(contract.schemas))
    for (const [name, definition] of Object.entries(schema.$defs)) look(definition, `${group}.${name}`)
})

test('every op has its request, its answer and its operation; every event its message', () => {
  const { requests, answers, events } = loadSchemas()
  const ops = Object.keys(requests.$defs)
  for (const op of ops) {
    assert.equal(requests.$defs[op].properties.op.const, op)
    assert.ok(answers.$defs[op], `answer of ${op}`)
    const operation = asyncapi.operations[op]
    assert.deepEqual(operation.messages, [{ $ref: `#/channels/ws/messages/request.${op}` }])
    assert.deepEqual(operation.reply.messages.map((m) => m.$ref.split('/').pop()), [`answer.${op}`, 'answer.error'])
  }
  const evs = Object.keys(events.$defs).filter((e) => e !== 'durable')
  for (const ev of evs) assert.equal(events.$defs[ev].properties.ev.const, ev)
  assert.deepEqual(asyncapi.operations.events_sent.messages.map((m) => m.$ref.split('/').pop()), evs.map((e) => `event.${e}`))
  assert.equal(Object.keys(asyncapi.operations).length, ops.length + 1)
  const named = Object.keys(asyncapi.channels.ws.messages)
  assert.deepEqual(named, Object.keys(asyncapi.components.messages))
  assert.equal(named.length, 2 * ops.length + 1 + evs.length)
})

test('no definition stands unused', () => {
  const used = new Set([...Object.keys(openapi.components.schemas), ...Object.keys(asyncapi.components.schemas)])
  for (const [group, schema] of Object.entries(contract.schemas))
    for (const name of Object.keys(schema.$defs)) assert.ok(used.has(`${group}.${name}`), `${group}.${name}`)
})

test('no parameter, response or header of the OpenAPI document stands unused', () => {
  const text = fs.readFileSync(path.join(root, 'schemas/openapi.yaml'), 'utf8')
  for (const kind of ['parameters', 'responses', 'headers'])
    for (const name of Object.keys(openapi.components[kind]))
      assert.ok(text.includes(`"#/components/${kind}/${name}"`), `${kind}/${name}`)
})

test('error codes and close codes are listed once each, and the codes are those of the schema', () => {
  assert.deepEqual(asyncapi['x-error-codes'].map((e) => e.code).sort(), [...contract.schemas.common.$defs.error_code.enum].sort())
  const codes = asyncapi['x-close-codes'].map((c) => c.code)
  assert.deepEqual([...new Set(codes)], codes)
  for (const code of [1001, 1002, 1003, 1007, 1008, 1009, 1011, 1012, 1013, 4001, 4003, 4008, 4009, 4029])
    assert.ok(codes.includes(code), String(code))
  for (const c of asyncapi['x-close-codes']) assert.ok(['resume', 'wait', 'stop'].includes(c.then), String(c.code))
})

test('every operation may be refused by what stands before it', () => {
  for (const { template, methods } of contract.operations)
    for (const [method, operation] of Object.entries(methods))
      for (const status of ['400', '408', '413', '429', '431', '500', '503'])
        assert.ok(operation.responses[status], `${method} ${template} ${status}`)
})

test('the documents carry the version of the program', () => {
  const version = /project\(parley VERSION (\S+)/.exec(fs.readFileSync(path.join(root, 'CMakeLists.txt'), 'utf8'))[1]
  assert.equal(openapi.info.version, version)
  assert.equal(asyncapi.info.version, version)
})

test('what must be seen is documented', () => {
  const all = new Set(documented(contract))
  for (const name of readJson(path.join(root, 'tests/contract/must-see.json'))) assert.ok(all.has(name), name)
})

test('paths are routed to the most exact template', () => {
  assert.equal(contract.route('GET', '/livez').template, '/livez')
  assert.equal(contract.route('GET', '/').template, '/')
  assert.equal(contract.route('GET', '/chat.js').template, '/{asset}')
  assert.equal(contract.route('PUT', '/api/v1/rooms/r_1/read?x=1').template, '/api/v1/rooms/{room}/read')
  assert.equal(contract.route('GET', '/api/v1/rooms/r_1/members/u_1').operation, undefined)
  assert.equal(contract.route('GET', '/api/v1/nothing'), null)
  assert.equal(contract.route('GET', '/%'), null)
})

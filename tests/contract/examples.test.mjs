// The examples of schemas/json/examples, which the published documents carry: one at least of each message, all valid.

import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import test from 'node:test'
import { Contract, jsonFolder, readJson } from './lib/contract.mjs'

const contract = new Contract()
const folder = path.join(jsonFolder, 'examples')
const examples = Object.fromEntries(
  fs.readdirSync(folder).map((file) => [path.basename(file, '.json'), readJson(path.join(folder, file))])
)

test('every example fits its definition', () => {
  let count = 0
  for (const [group, all] of Object.entries(examples))
    for (const [name, value] of Object.entries(all)) {
      assert.ok(contract.has(group, name), `${group} ${name} is no definition`)
      for (const one of [value].flat()) {
        assert.deepEqual(contract.check(group, name, one), [], `${group} ${name}`)
        count++
      }
    }
  assert.ok(count > 80, `only ${count} examples`)
})

test('every message has an example', () => {
  for (const op of Object.keys(contract.schemas.requests.$defs)) {
    assert.ok(examples.requests[op], `request ${op}`)
    assert.ok(examples.answers[op], `answer ${op}`)
  }
  for (const ev of Object.keys(contract.schemas.events.$defs)) if (ev !== 'durable') assert.ok(examples.events[ev], `event ${ev}`)
  for (const group of ['http', 'problem', 'admin'])
    for (const [name, schema] of Object.entries(contract.schemas[group].$defs)) {
      const inAList = ['actor', 'room', 'session'].includes(name) && group === 'admin'
      assert.ok(examples[group][name] || schema.$ref || inAList, `${group} ${name}`)
    }
})

test('the bundled documents carry the examples', () => {
  const shown = contract.asyncapi.components.schemas['events.sync'].examples
  assert.deepEqual(shown, [examples.events.sync])
})

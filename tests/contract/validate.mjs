#!/usr/bin/env node
// node tests/contract/validate.mjs [--require-coverage] [--fields] DIR|FILE
// Holds recorded traffic (see lib/recording.mjs) against the published contract. Prints what breaks it, and which documented
// messages never occurred. Ends with 1 where anything breaks it or, with --require-coverage, where a message that
// must-see.json names did not occur; with 2 on wrong usage. --fields lists documented fields that the server never sent.

import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { Contract, readJson } from './lib/contract.mjs'
import { documented, validate } from './lib/recording.mjs'

const flags = new Set(process.argv.slice(2).filter((a) => a.startsWith('--')))
const targets = process.argv.slice(2).filter((a) => !a.startsWith('--'))
const known = ['--require-coverage', '--fields']
if (targets.length !== 1 || [...flags].some((f) => !known.includes(f))) {
  console.error('usage: validate.mjs [--require-coverage] [--fields] DIR|FILE')
  process.exit(2)
}

const contract = new Contract()
let report
try {
  report = validate(contract, targets[0])
} catch (error) {
  console.error(`validate.mjs: ${error.message}`)
  process.exit(2)
}

// The same fault tells itself once, with its first place and how often it occurred.
const kinds = new Map()
for (const fault of report.faults) {
  const at = fault.indexOf(': ')
  const kind = kinds.get(fault.slice(at)) ?? { first: fault, count: 0 }
  kind.count++
  kinds.set(fault.slice(at), kind)
}
const shown = 100
for (const { first, count } of [...kinds.values()].slice(0, shown)) console.error(count > 1 ? `${first} (${count} times)` : first)
if (kinds.size > shown) console.error(`… and ${kinds.size - shown} more kinds`)

const unseen = documented(contract).filter((name) => !report.seen.has(name))
console.log(`${report.lines} lines, ${report.faults.length} faults, ${report.seen.size} documented messages seen`)
if (unseen.length) console.log(`never seen: ${unseen.join(', ')}`)
if (flags.has('--fields')) {
  const missing = contract.properties().filter((name) => !contract.seen.has(name))
  console.log(`fields never seen: ${missing.join(', ') || 'none'}`)
}

let failed = report.faults.length > 0
if (flags.has('--require-coverage')) {
  const must = readJson(path.join(path.dirname(fileURLToPath(import.meta.url)), 'must-see.json'))
  const missing = must.filter((name) => !report.seen.has(name))
  if (missing.length) {
    console.error(`must occur and did not: ${missing.join(', ')}`)
    failed = true
  }
}
process.exit(failed ? 1 : 0)

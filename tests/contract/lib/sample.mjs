// Recordings made of the examples: a sound one with every documented message, for the validator's self-test.

import path from 'node:path'
import { jsonFolder, readJson } from './contract.mjs'
import { Report, validateLines } from './recording.mjs'

const examples = (group) => readJson(path.join(jsonFolder, 'examples', `${group}.json`))
const list = (value) => [value].flat()

/** Lines in which every request, answer and event of the examples occurs once. */
export function webSocketLines() {
  const requests = examples('requests')
  const answers = examples('answers')
  const lines = []
  let id = 0
  for (const [op, all] of Object.entries(requests))
    list(all).forEach((request, index) => {
      const ok = list(answers[op])[index] ?? list(answers[op])[0]
      id++
      const silent = op === 'typing' && !('id' in request)
      lines.push({ dir: 'out', kind: 'ws', op, body: silent ? request : { ...request, id } })
      if (!silent) lines.push({ dir: 'in', kind: 'ws', op, body: { ...ok, re: id } })
    })
  lines.push({ dir: 'out', kind: 'ws', op: 'typing', body: { op: 'typing', id: 'late', room: 'r_lobby' } })
  lines.push({ dir: 'in', kind: 'ws', op: 'typing', body: { re: 'late', ok: true } })
  for (const error of list(answers.error)) lines.push({ dir: 'in', kind: 'ws', body: error })
  for (const [ev, all] of Object.entries(examples('events')))
    for (const body of list(all)) lines.push({ dir: 'in', kind: 'ws', ev, body })
  return lines
}

/** Lines in which every operation is answered with every success that is documented, and once with an error. */
export function httpLines(contract) {
  const lines = []
  const example = ([group, name]) => {
    const direct = examples(group)[name]
    if (direct !== undefined) return list(direct)[0]
    if (group === 'admin') return Object.values(examples('admin')[`${name}s`])[0][0]
    return { user: 'u_anna', name: 'anna', display_name: 'Anna' } // a profile, which is the common one's
  }
  for (const { template, methods } of contract.operations)
    for (const [method, operation] of Object.entries(methods)) {
      const target = template
        .replace('{room}', 'r_lobby').replace('{user}', 'u_anna').replace('{session}', 's_1').replace('{id}', '3')
        .replace('{asset}', 'chat.js')
      const base = { kind: 'http', method: method.toUpperCase(), path: target }
      const wanted = contract.resolve(operation.requestBody)
      const sent = wanted ? example(contract.bodyDefinition(wanted.content, 'application/json')) : null
      for (const [status, response] of Object.entries(operation.responses)) {
        if (Number(status) >= 400 && status !== '404') continue
        const content = contract.resolve(response).content
        const type = Object.keys(content ?? {})[0]
        let body = null
        if (status === '404') body = examples('problem').problem
        else if (type === 'application/json') {
          const definition = contract.bodyDefinition(content, type)
          body = definition ? example(definition) : {}
        } else if (type) body = 'text'
        lines.push({ dir: 'out', ...base, body: structuredClone(sent) })
        lines.push({ dir: 'in', ...base, status: Number(status), content_type: type, body })
      }
    }
  return lines
}

/** The report of a recording with these lines. */
export function reportOf(contract, lines) {
  const report = new Report()
  validateLines(contract, lines.map((line, index) => ({ ...line, where: `sample:${index + 1}` })), report)
  return report
}

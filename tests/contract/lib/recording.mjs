// Reads recordings of real traffic and holds every frame and body of them against the contract.
// A recording is a file of JSON lines, as seen by a client:
//   {"dir":"out"|"in", "kind":"ws", "body":…, "op"?, "conn"?, "hostile"?}
//   {"dir":"out"|"in", "kind":"http", "method", "path", "body"?, "status"?, "content_type"?, "hostile"?}
// `raw` in place of `body` holds bytes that are no JSON, in base64. What a client sent to provoke an error carries
// `hostile`; whatever the schemas refuse must have been answered with an error, hostile or not.

import fs from 'node:fs'
import path from 'node:path'

/** What every validation ends with: faults (what breaks the contract, with its place) and what was seen. */
export class Report {
  faults = []
  lines = 0
  seen = new Map() // documented message -> how often

  fault(where, what) {
    this.faults.push(`${where}: ${what}`)
  }

  saw(name) {
    this.seen.set(name, (this.seen.get(name) ?? 0) + 1)
  }
}

/** Names of all that is documented, as `Report.seen` counts it. */
export function documented(contract) {
  const names = []
  for (const op of Object.keys(contract.schemas.requests.$defs)) names.push(`request ${op}`, `answer ${op}`)
  names.push('answer error')
  for (const ev of Object.keys(contract.schemas.events.$defs)) if (ev !== 'durable') names.push(`event ${ev}`)
  for (const entry of contract.operations)
    for (const method of Object.keys(entry.methods)) names.push(`${method.toUpperCase()} ${entry.template}`)
  return names
}

/** Validates all *.jsonl files of a folder, or one file. */
export function validate(contract, target) {
  const report = new Report()
  const stat = fs.statSync(target)
  const files = stat.isDirectory()
    ? fs.readdirSync(target).filter((f) => f.endsWith('.jsonl')).sort().map((f) => path.join(target, f))
    : [target]
  for (const file of files) validateFile(contract, file, report)
  if (report.lines === 0) report.fault(target, 'no recorded line was found')
  return report
}

function validateFile(contract, file, report) {
  const lines = []
  fs.readFileSync(file, 'utf8').split('\n').forEach((text, index) => {
    if (!text) return
    const where = `${path.basename(file)}:${index + 1}`
    try {
      lines.push({ ...JSON.parse(text), where })
    } catch (error) {
      report.fault(where, `not JSON: ${error.message}`)
    }
  })
  validateLines(contract, lines, report)
}

/** Validates the lines of one recording, each with its place as `where`, into `report`. */
export function validateLines(contract, lines, report) {
  report.lines += lines.length
  const state = { asked: new Map(), refused: new Map(), http: new Map() }
  for (const line of lines) {
    if (line.kind === 'ws') (line.dir === 'in' ? frameIn : frameOut)(contract, line, report, state)
    else if (line.kind === 'http') (line.dir === 'in' ? responseIn : requestOut)(contract, line, report, state)
    else report.fault(line.where, `unknown kind ${JSON.stringify(line.kind)}`)
  }
  for (const { where, faults, hostile } of state.refused.values())
    if (!hostile) report.fault(where, `breaks the schema and was never answered with an error: ${faults.join('; ')}`)
}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value)
const key = (line, id) => `${line.conn ?? ''}|${JSON.stringify(id)}`

// ---- WebSocket

function frameOut(contract, line, report, state) {
  const body = line.body
  if (!isObject(body) || typeof body.op !== 'string' || !contract.has('requests', body.op)) {
    if (!line.hostile) report.fault(line.where, `undocumented request ${JSON.stringify(body)?.slice(0, 120)}`)
    else if (isObject(body) && 'id' in body) state.refused.set(key(line, body.id), refusal(line, ['undocumented op']))
    return
  }
  report.saw(`request ${body.op}`)
  if ('id' in body) state.asked.set(key(line, body.id), body.op)
  const faults = contract.check('requests', body.op, body)
  if (!faults.length) return
  if ('id' in body && ['string', 'number'].includes(typeof body.id)) {
    state.refused.set(key(line, body.id), refusal(line, faults))
  } else if (!line.hostile) report.fault(line.where, `request ${body.op}: ${faults.join('; ')}`)
}

// A hostile client may well be cut off instead of answered; then nothing is owed.
const refusal = (line, faults) => ({ where: line.where, op: line.body.op, faults, hostile: Boolean(line.hostile) })

function frameIn(contract, line, report, state) {
  const body = line.body
  if (!isObject(body)) return report.fault(line.where, 'a frame that is no JSON object')
  if ('re' in body) return answerIn(contract, line, report, state)
  if (typeof body.ev !== 'string' || body.ev === 'durable' || !contract.has('events', body.ev))
    return report.fault(line.where, `undocumented event ${JSON.stringify(body).slice(0, 160)}`)
  report.saw(`event ${body.ev}`)
  for (const fault of contract.check('events', body.ev, body)) report.fault(line.where, `event ${body.ev}: ${fault}`)
  if (body.ev === 'bye' && !contract.closeCodes.has(body.code))
    report.fault(line.where, `event bye: undocumented close code ${body.code}`)
  // A hello is refused by a close with its reason, not by an answer.
  if (body.ev === 'bye')
    for (const [id, { op }] of state.refused)
      if (op === 'hello' && id.startsWith(`${line.conn ?? ''}|`)) state.refused.delete(id)
  contract.note('events', body.ev, body)
}

function answerIn(contract, line, report, state) {
  const body = line.body
  const id = key(line, body.re)
  const broken = state.refused.get(id)
  state.refused.delete(id)
  if ('error' in body) {
    report.saw('answer error')
    for (const fault of contract.check('answers', 'error', body)) report.fault(line.where, `error: ${fault}`)
    contract.note('answers', 'error', body)
    return
  }
  const op = line.op ?? state.asked.get(id)
  if (op === undefined) {
    // Its request was left out of the recording (sampled load); then it must be one of the documented answers.
    const fits = Object.keys(contract.schemas.requests.$defs).some((o) => !contract.check('answers', o, body).length)
    if (!fits) report.fault(line.where, `an answer that is none of the documented ones: ${JSON.stringify(body).slice(0, 160)}`)
    return
  }
  if (!contract.has('requests', op)) return report.fault(line.where, `ok to an undocumented op ${JSON.stringify(op)}`)
  if (broken) report.fault(line.where, `${op} was answered ok, though it breaks the schema: ${broken.faults.join('; ')}`)
  report.saw(`answer ${op}`)
  for (const fault of contract.check('answers', op, body)) report.fault(line.where, `answer ${op}: ${fault}`)
  contract.note('answers', op, body)
}

// ---- HTTP

function requestOut(contract, line, report, state) {
  const id = `${line.conn ?? ''}|${line.method} ${line.path}`
  const waiting = state.http.get(id) ?? []
  state.http.set(id, waiting)
  const route = contract.route(line.method ?? '', line.path ?? '')
  let faults = []
  if (!route?.operation) faults = ['undocumented path or method']
  else {
    const wanted = contract.resolve(route.operation.requestBody)
    const definition = wanted && contract.bodyDefinition(wanted.content, 'application/json')
    const body = bodyOf(line)
    if (definition && !(body === null && !wanted.required)) faults = contract.check(...definition, body)
  }
  waiting.push({ where: line.where, faults })
}

/** A request's body as JSON: null where there is none, text where it is no JSON. */
function bodyOf(line) {
  if (line.raw === undefined) return line.body ?? null
  const text = Buffer.from(line.raw, 'base64').toString('utf8')
  try {
    return text === '' ? null : JSON.parse(text)
  } catch {
    return text
  }
}

function responseIn(contract, line, report, state) {
  const id = `${line.conn ?? ''}|${line.method} ${line.path}`
  const asked = state.http.get(id)?.shift()
  const route = contract.route(line.method ?? '', line.path ?? '')
  const name = `${line.method} ${route?.template ?? line.path}`
  const status = line.status
  const type = (line.content_type ?? '').split(';')[0].trim().toLowerCase()
  if (status >= 400 && type === 'application/problem+json')
    for (const fault of problemFaults(contract, line)) report.fault(line.where, `${name} ${status}: ${fault}`)
  if (!route?.operation) {
    if (status < 400) report.fault(line.where, `undocumented path or method ${name} answered ${status}`)
    else if (type && type !== 'application/problem+json')
      report.fault(line.where, `${name} ${status}: an error as ${type}, not application/problem+json`)
    return
  }
  if (asked?.faults.length && status < 400)
    report.fault(line.where, `${name} was answered ${status}, though it breaks the schema: ${asked.faults.join('; ')}`)
  const documentedResponse = contract.resolve(route.operation.responses[String(status)])
  if (!documentedResponse) return report.fault(line.where, `${name}: undocumented status ${status}`)
  if (status < 400) report.saw(`${line.method === 'HEAD' ? 'GET' : line.method} ${route.template}`)
  if (line.method === 'HEAD' || status === 304) return
  const content = documentedResponse.content ?? {}
  if (!type) {
    if (Object.keys(content).length && line.body != null)
      report.fault(line.where, `${name} ${status}: a body without Content-Type`)
    return
  }
  if (!Object.hasOwn(content, type)) return report.fault(line.where, `${name} ${status}: undocumented type ${type}`)
  if (type === 'application/problem+json') return
  const definition = contract.bodyDefinition(content, type)
  if (!definition) return
  for (const fault of contract.check(...definition, line.body)) report.fault(line.where, `${name} ${status}: ${fault}`)
  contract.note(...definition, line.body)
}

function problemFaults(contract, line) {
  if (line.method === 'HEAD' || line.body == null) return []
  const faults = contract.check('problem', 'problem', line.body)
  if (!faults.length && line.body.status !== line.status)
    faults.push(`the body says status ${line.body.status}, the head ${line.status}`)
  contract.note('problem', 'problem', line.body)
  return faults
}

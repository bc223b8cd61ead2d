// The published contract, loaded and compiled: the schemas of schemas/json and the two bundled documents.
// Called by the tests and by validate.mjs. Knows nothing of recordings, and never talks to a server.

import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import Ajv2020 from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..')
export const jsonFolder = path.join(root, 'schemas/json')
const base = 'https://parley.example/schemas/json/'
const groups = ['common', 'requests', 'answers', 'events', 'http', 'problem', 'admin']
const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']

export const readJson = (file) => JSON.parse(fs.readFileSync(file, 'utf8'))

/** The schema documents by group name. */
export function loadSchemas() {
  return Object.fromEntries(groups.map((g) => [g, readJson(path.join(jsonFolder, `${g}.schema.json`))]))
}

/** {openapi, asyncapi} exactly as the build packs them into the server. */
export function bundleDocuments() {
  const out = fs.mkdtempSync(path.join(os.tmpdir(), 'parley-docs-'))
  try {
    execFileSync(path.join(root, 'scripts/bundle_schemas'), ['--out', out], { stdio: ['ignore', 'inherit', 'inherit'] })
    return { openapi: readJson(path.join(out, 'openapi.json')), asyncapi: readJson(path.join(out, 'asyncapi.json')) }
  } finally {
    fs.rmSync(out, { recursive: true, force: true })
  }
}

const describe = (errors) =>
  (errors ?? []).map((e) => {
    const what = e.params?.additionalProperty ?? e.params?.allowedValue ?? ''
    return `${e.instancePath || '/'} ${e.message}${what === '' ? '' : ` (${what})`}`
  })

/** Compiles on demand; `check(group, name, value)` gives the list of what is wrong, empty where nothing is. */
export class Contract {
  constructor() {
    this.schemas = loadSchemas()
    const { openapi, asyncapi } = bundleDocuments()
    this.openapi = openapi
    this.asyncapi = asyncapi
    this.ajv = addFormats(new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false, strictTypes: false }))
    for (const schema of Object.values(this.schemas)) this.ajv.addSchema(schema)
    this.closeCodes = new Set(asyncapi['x-close-codes'].map((c) => c.code))
    this.operations = operationsOf(openapi)
    this.seen = new Set() // `group.definition.property`, of everything the server sent
  }

  has(group, name) {
    return Object.hasOwn(this.schemas[group].$defs, name)
  }

  check(group, name, value) {
    const validate = this.ajv.getSchema(`${base}${group}.schema.json#/$defs/${name}`)
    return validate(value) ? [] : describe(validate.errors)
  }

  /** Notes which documented properties occur in `value`, which fits the definition. */
  note(group, name, value) {
    this.#walk(this.schemas[group].$defs[name], group, name, value)
  }

  #walk(schema, group, name, value) {
    if (typeof schema !== 'object') return
    if (schema.$ref) {
      const [file, pointer] = schema.$ref.split('#/$defs/')
      const other = file ? file.replace('.schema.json', '') : group
      this.#walk(this.schemas[other].$defs[pointer], other, pointer, value)
    }
    for (const one of schema.oneOf ?? []) {
      const ev = one.$ref && this.#definition(one.$ref, group)
      if (ev?.schema.properties?.ev?.const === value?.ev) this.#walk(ev.schema, ev.group, ev.name, value)
    }
    if (Array.isArray(value)) for (const item of value) this.#walk(schema.items ?? {}, group, name, item)
    else if (value && typeof value === 'object') {
      for (const [key, sub] of Object.entries(schema.properties ?? {})) {
        if (!Object.hasOwn(value, key)) continue
        this.seen.add(`${group}.${name}.${key}`)
        this.#walk(sub, group, `${name}.${key}`, value[key])
      }
    }
  }

  #definition(ref, group) {
    const [file, name] = ref.split('#/$defs/')
    const other = file ? file.replace('.schema.json', '') : group
    return { schema: this.schemas[other].$defs[name], group: other, name }
  }

  /** Every documented property of what the server sends, in the names that `note` uses. */
  properties() {
    const found = new Set()
    const visited = new Set()
    const walk = (schema, group, name) => {
      if (typeof schema !== 'object') return
      if (schema.$ref) {
        const other = this.#definition(schema.$ref, group)
        if (visited.has(`${other.group}.${other.name}`)) return
        visited.add(`${other.group}.${other.name}`)
        walk(other.schema, other.group, other.name)
      }
      for (const one of schema.oneOf ?? []) walk(one, group, name)
      if (schema.items) walk(schema.items, group, name)
      for (const [key, sub] of Object.entries(schema.properties ?? {})) {
        found.add(`${group}.${name}.${key}`)
        walk(sub, group, `${name}.${key}`)
      }
    }
    const roots = [['answers', 'error'], ['problem', 'problem']]
    for (const op of Object.keys(this.schemas.requests.$defs)) roots.push(['answers', op])
    for (const ev of Object.keys(this.schemas.events.$defs)) roots.push(['events', ev])
    for (const { methods: all } of this.operations)
      for (const operation of Object.values(all))
        for (const response of Object.values(operation.responses))
          for (const type of Object.keys(this.resolve(response).content ?? {})) {
            const definition = this.bodyDefinition(this.resolve(response).content, type)
            if (definition) roots.push(definition)
          }
    for (const [group, name] of roots) walk(this.schemas[group].$defs[name], group, name)
    return [...found].sort()
  }

  /** The operation that a method and a request target stand for: {template, item?, operation?}, or null. */
  route(method, target) {
    let pathname
    try {
      pathname = decodeURI(target.replace(/^https?:\/\/[^/]*/, '').split(/[?#]/)[0] || '/')
    } catch {
      return null
    }
    for (const entry of this.operations) {
      if (!entry.pattern.test(pathname)) continue
      const found = entry.methods[method.toLowerCase()] ?? (method === 'HEAD' ? entry.methods.get : undefined)
      return { template: entry.template, operation: found }
    }
    return null
  }

  /** The same object with `$ref` followed, in the OpenAPI document. */
  resolve(node) {
    while (node?.$ref) node = node.$ref.slice(2).split('/').reduce((at, part) => at[part], this.openapi)
    return node
  }

  /** [group, name] of a media type's schema, or null where it is described by none of ours. */
  bodyDefinition(content, type) {
    const found = content?.[type]
    const ref = found?.schema?.$ref
    if (!ref) return null
    const [group, ...name] = ref.replace('#/components/schemas/', '').split('.')
    return [group, name.join('.')]
  }
}

/** The OpenAPI paths as [{template, pattern, methods}], those without parameters first. */
function operationsOf(openapi) {
  const list = Object.entries(openapi.paths).map(([template, item]) => {
    const parameters = new Map()
    for (const holder of [item, ...methods.map((m) => item[m] ?? {})]) {
      for (let parameter of holder.parameters ?? []) {
        if (parameter.$ref) parameter = openapi.components.parameters[parameter.$ref.split('/').pop()]
        if (parameter.in === 'path') parameters.set(parameter.name, pathPattern(openapi, parameter.schema))
      }
    }
    const source = template
      .split(/(\{[^}]+\})/)
      .map((part) => (part.startsWith('{') ? `(?:${parameters.get(part.slice(1, -1)) ?? '[^/]+'})` : escape(part)))
      .join('')
    const found = Object.fromEntries(methods.filter((m) => item[m]).map((m) => [m, item[m]]))
    return { template, pattern: new RegExp(`^${source}$`, 'u'), methods: found }
  })
  const parameters = (t) => (t.match(/\{/g) ?? []).length
  return list.sort((a, b) => parameters(a.template) - parameters(b.template))
}

function pathPattern(openapi, schema) {
  const found = schema.$ref ? openapi.components.schemas[schema.$ref.split('/').pop()] : schema
  return found.pattern?.replace(/^\^|\$$/g, '')
}

const escape = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')

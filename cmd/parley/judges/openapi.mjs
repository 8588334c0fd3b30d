// Validates the server's OpenAPI 3.1 description with an independent implementation, its
// examples with their schemas, and answers of the running server with the description.
import assert from 'node:assert/strict'
import { Validator } from '@seriousme/openapi-schema-validator'
import Ajv from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

const base = process.argv[2]
const document = await (await fetch(`${base}/openapi.json`)).json()

const judged = await new Validator().validate(structuredClone(document))
assert.ok(judged.valid, JSON.stringify(judged.errors, null, 1))
const broken = structuredClone(document)
broken.paths['/messages'].post.responses['201'].description = 7
assert.ok(!(await new Validator().validate(broken)).valid, 'the validator lets everything pass')

const ajv = new Ajv({ strict: false, allErrors: true })
addFormats(ajv)
ajv.addSchema(document, 'doc')

// pointer returns a reference to a schema of the document, from a JSON pointer.
const pointer = (...steps) => ({ $ref: `doc#/${steps.map((s) => encodeURIComponent(s.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}` })

let examples = 0
for (const [path, methods] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    for (const [media, content] of Object.entries(operation.requestBody?.content ?? {})) {
      const check = ajv.compile(pointer('paths', path, method, 'requestBody', 'content', media, 'schema'))
      assert.ok(check(content.example), `${method} ${path}: the example ${JSON.stringify(content.example)} does not match: ${ajv.errorsText(check.errors)}`)
      examples++
    }
  }
}
assert.ok(examples > 20, `only ${examples} examples`)
const send = ajv.compile(pointer('components', 'schemas', 'Send'))
assert.ok(!send({ type: 'one', encrypted_payload: 'QQ' }), 'the schemas let everything pass')

// answered makes a request and validates the answer with the schema of its status.
let answers = 0
async function answered(method, path, route, status) {
  const response = await fetch(base + path, { method })
  assert.equal(response.status, status, path)
  let declared = document.paths[route][method.toLowerCase()].responses[String(status)]
  let steps = ['paths', route, method.toLowerCase(), 'responses', String(status)]
  if (declared.$ref) {
    steps = declared.$ref.slice(2).split('/')
    declared = document.components.responses[steps.at(-1)]
  }
  const check = ajv.compile(pointer(...steps, 'content', 'application/json', 'schema'))
  const body = await response.json()
  assert.ok(check(body), `${method} ${path} ${status}: ${JSON.stringify(body)}: ${ajv.errorsText(check.errors)}`)
  assert.ok(response.headers.get('x-request-id') && declared.headers['X-Request-ID'])
  answers++
}
await answered('GET', '/', '/', 200)
await answered('GET', '/health', '/health', 200)
await answered('GET', '/version', '/version', 200)
await answered('GET', '/.well-known/jwks.json', '/.well-known/jwks.json', 200)
await answered('GET', '/directory/groups', '/directory/groups', 200)
await answered('GET', '/directory/groups?cursor=x', '/directory/groups', 400)
await answered('GET', '/directory/groups?limit=x', '/directory/groups', 422)
await answered('GET', '/org', '/org', 401)
await answered('GET', '/poll/none', '/poll/{token}', 404)
await answered('POST', '/auth/register', '/auth/register', 422)
await answered('POST', '/oauth/token', '/oauth/token', 401)
await answered('POST', '/a2a/nobody', '/a2a/{handle}', 401) // in the form of JSON-RPC

const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods)).length
console.log(`OpenAPI 3.1: valid, ${operations} operations, ${Object.keys(document.webhooks).length} webhooks, ${examples} examples and ${answers} answers match their schemas`)

// Verifies signed deliveries with the standardwebhooks package, and with
// node:crypto alone.
import assert from 'node:assert/strict'
import { createHmac, timingSafeEqual } from 'node:crypto'
import http from 'node:http'
import { Webhook, WebhookVerificationError } from 'standardwebhooks'
import { call, checked, createAgent, register, send } from './parley.mjs'

const org = await register()
const sender = await createAgent(org, 'sender')
const reader = await createAgent(org, 'reader')
const { token } = org
const as = { headers: { 'X-Svc-Agent': sender.id } }

const got = []
let answer = 204
const sink = http.createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    got.push({ body: Buffer.concat(chunks), headers: request.headers, method: request.method, url: request.url })
    response.writeHead(answer).end()
  })
})
await new Promise((done) => sink.listen(0, '127.0.0.1', done))

async function deliveries(n) {
  for (let waited = 0; got.length < n; waited += 20) {
    assert.ok(waited < 20_000, `${got.length} of ${n} deliveries came`)
    await new Promise((done) => setTimeout(done, 20))
  }
  return got.splice(0, n)
}

// plainly is the check of the specification: HMAC-SHA256 of the raw body, keyed
// with the secret's text. During a rotation another header has the signature by
// the former secret.
function plainly(delivery, secret) {
  const expected = createHmac('sha256', secret).update(delivery.body).digest()
  return ['x-svc-signature', 'x-svc-signature-previous'].map((name) => delivery.headers[name]).filter(Boolean).some((part) => {
    assert.match(part, /^sha256=[0-9a-f]{64}$/)
    return timingSafeEqual(Buffer.from(part.slice('sha256='.length), 'hex'), expected)
  })
}

function standardly(delivery, secret, change = {}) {
  const body = change.body ?? delivery.body.toString('utf8')
  return new Webhook(secret).verify(body, { ...delivery.headers, ...change.headers })
}

function accepted(delivery, secret) {
  assert.ok(plainly(delivery, secret))
  assert.deepEqual(standardly(delivery, secret), JSON.parse(delivery.body))
}

function refused(delivery, secret) {
  assert.ok(!plainly(delivery, secret))
  assert.throws(() => standardly(delivery, secret), WebhookVerificationError)
}

const url = `http://127.0.0.1:${sink.address().port}/hook?for=reader`
const hook = (await call('POST', '/webhooks', { token, body: { agent_id: reader.id, url }, expect: 201 })).json
assert.match(hook.secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
const other = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

const sent = await send(org, reader, 'hello', as)
const [first] = await deliveries(1)
assert.equal(first.method, 'POST')
assert.equal(first.url, '/hook?for=reader')
assert.equal(first.headers['content-type'], 'application/json')
accepted(first, hook.secret)
const told = JSON.parse(first.body)
assert.deepEqual(Object.keys(told).sort(), ['agent_id', 'event', 'message_id', 'timestamp'])
assert.deepEqual([told.event, told.message_id, told.agent_id], ['message.received', sent.id, reader.id])
assert.ok(Math.abs(Date.now() - Date.parse(told.timestamp)) < 60_000)
checked('a delivery verifies with standardwebhooks and with plain crypto, and its body is the payload of the specification')

refused(first, other)
const tampered = { ...first, body: Buffer.from(first.body.toString().replace('received', 'recalled')) }
refused(tampered, hook.secret)
for (const [name, value] of [['webhook-id', 'another'], ['webhook-timestamp', String(Number(first.headers['webhook-timestamp']) - 1)]]) {
  assert.throws(() => standardly(first, hook.secret, { headers: { [name]: value } }), WebhookVerificationError)
}
checked('neither another secret, nor a changed body, id or time verifies')

const old = { ...first.headers, 'webhook-timestamp': String(Math.floor(Date.now() / 1000) - 360) }
assert.throws(() => standardly(first, hook.secret, { headers: old }), WebhookVerificationError)
checked('a delivery that is kept and played again later is too old')

const rotated = (await call('POST', `/webhooks/${hook.id}/rotate-secret`, { token })).json
assert.notEqual(rotated.secret, hook.secret)
await send(org, reader, 'while the secret is replaced', as)
const [both] = await deliveries(1)
accepted(both, hook.secret)
accepted(both, rotated.secret)
refused(both, other)
refused(first, rotated.secret)
checked('while a secret is replaced, receivers with the old and with the new one both verify')

const tested = (await call('POST', `/webhooks/${hook.id}/test`, { token })).json
const [test] = await deliveries(1)
accepted(test, rotated.secret)
assert.equal(test.headers['webhook-id'], tested.id)
assert.equal(JSON.parse(test.body).event, 'webhook.test')
assert.equal(JSON.parse(test.body).message_id, null)
checked('a test event verifies, under the id of its job')

answer = 500
const failed = await send(org, reader, 'twice', as)
const [before] = await deliveries(1)
answer = 200
await new Promise((done) => setTimeout(done, 1100)) // signatures contain the time in seconds
const job = before.headers['webhook-id']
await call('POST', `/webhooks/${hook.id}/deliveries/${job}/retry`, { token })
const [again] = await deliveries(1)
accepted(before, rotated.secret)
accepted(again, rotated.secret)
assert.equal(JSON.parse(again.body).message_id, failed.id)
assert.equal(again.headers['webhook-id'], job)
assert.deepEqual(again.body, before.body)
assert.ok(Number(again.headers['webhook-timestamp']) > Number(before.headers['webhook-timestamp']))
checked('a retry is the same body under the same id, signed at its own time')

sink.close()
process.exit(0)

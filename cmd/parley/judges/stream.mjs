// Reads an agent's stream with a major version of the eventsource package, through a relay
// that cuts the connection in the middle of an event.
import assert from 'node:assert/strict'
import net from 'node:net'
import { base, call, checked, createAgent, register, send } from './parley.mjs'

const version = process.argv[3]
const named = await import(`eventsource-${version}`)
const EventSource = named.EventSource ?? named.default // version 2 exports it alone

const org = await register()
const sender = await createAgent(org, 'sender')
const reader = await createAgent(org, 'reader')
const as = { headers: { 'X-Svc-Agent': sender.id } }
const sent = []
const sendSome = async (n, label) => {
  for (let i = 0; i < n; i++) sent.push((await send(org, reader, `${label} ${i}`, as)).id)
}

// relay forwards bytes. When armed, it forwards half of the next chunk, closes both
// connections and rejects new ones until it is opened again. Version 2 takes the id of an
// event before it has the rest, and would go on behind what it lost: it gets the whole chunk.
const part = version === '2' ? 1 : 0.5
const target = new URL(base)
const resumedAfter = []
const relay = { armed: false, closed: false, cuts: 0, refused: 0 }
const gate = net.createServer((near) => {
  near.on('error', () => {})
  if (relay.closed) {
    relay.refused++
    near.destroy()
    return
  }
  const far = net.connect(Number(target.port), target.hostname)
  far.on('error', () => near.destroy())
  near.on('close', () => far.destroy())
  near.once('data', (head) => resumedAfter.push(/^last-event-id: (.*)\r$/im.exec(head.toString())?.[1] ?? null))
  near.pipe(far)
  far.on('data', (chunk) => {
    if (!relay.armed) return near.write(chunk)
    relay.armed = false
    relay.closed = true
    relay.cuts++
    near.write(chunk.subarray(0, chunk.length * part), () => { near.destroy(); far.destroy() })
  })
  far.on('end', () => near.end())
})
await new Promise((done) => gate.listen(0, '127.0.0.1', done))

const got = []
const statuses = []
let opened = 0
await sendSome(5, 'before the stream')

const source = new EventSource(`http://127.0.0.1:${gate.address().port}/agents/${reader.id}/stream`, {
  headers: { Authorization: `Bearer ${org.token}` }, // for version 2; the others ask fetch
  fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, Authorization: `Bearer ${org.token}` } }),
})
source.addEventListener('open', () => opened++)
source.addEventListener('message', (event) => {
  const message = JSON.parse(event.data)
  assert.equal(event.lastEventId, message.id)
  got.push(message.id)
})
source.addEventListener('status', (event) => statuses.push(JSON.parse(event.data)))

async function until(what, condition) {
  for (let waited = 0; waited < 20_000; waited += 20) {
    if (condition()) return
    await new Promise((done) => setTimeout(done, 20))
  }
  assert.fail(`still waiting for ${what}: sent ${sent.length}, got ${got.length}, opened ${opened}, ${JSON.stringify(relay)}`)
}

await until('the catch-up', () => got.length >= 5)
assert.deepEqual(got, sent)
assert.deepEqual(resumedAfter, [null])
checked(`eventsource ${version}: the stream opens with a bearer token and catches up, oldest first`)

await sendSome(5, 'live')
await until('live messages', () => got.length >= 10)
assert.deepEqual(got, sent)
checked('then messages arrive as they are sent')

relay.armed = true
await sendSome(10, 'while the wire is cut')
await until('the cut', () => relay.cuts === 1)
await sendSome(10, 'while nobody listens')
const last = got.at(-1)
assert.ok(got.length < sent.length, 'the cut lost nothing, so it showed nothing')
relay.closed = false
await sendSome(10, 'across the seam')
await until('everything after the cut', () => got.length >= sent.length)
assert.equal(opened, 2)
assert.equal(resumedAfter.at(-1), last)
assert.deepEqual(got, sent)
checked(`after a cut ${part < 1 ? 'in the middle of an event' : 'between events'} it resumes by Last-Event-ID: nothing lost, nothing twice`)

const answered = await call('POST', `/messages/${sent[0]}/reply`, {
  token: org.token, headers: { 'X-Svc-Agent': reader.id }, body: { type: 'svc.v1.dm', encrypted_payload: 'eWVz' },
})
await until('the status event', () => statuses.length > 0)
assert.deepEqual(statuses, [{ conversation_id: answered.json.conversation_id, status: 'open' }])
checked('a first reply is seen as a status event')

const inbox = []
for (let cursor = ''; cursor !== null; ) {
  const page = (await call('GET', `/agents/${reader.id}/messages?limit=7${cursor && `&cursor=${encodeURIComponent(cursor)}`}`, { token: org.token })).json
  inbox.push(...page.items.map((m) => m.id))
  cursor = page.next_cursor
}
assert.deepEqual(inbox.reverse(), got)
checked('the inbox, read from its end, is in the order of the stream')

source.close()
gate.close()
process.exit(0)

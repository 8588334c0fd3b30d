// The requests, against a server that answers as it is told.
import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { Api, ApiError, signingKey } from '../src/api.ts'
import { trustServer } from '../src/trust.ts'

interface Answer {
  status?: number
  body?: unknown
  headers?: Record<string, string>
}

const newKey = () => signingKey(generateKeyPairSync('ed25519').privateKey)
const xOf = (key: Uint8Array) => Buffer.from(key).toString('base64url')
const kidOf = (key: Uint8Array) => createHash('sha256').update(`{"crv":"Ed25519","kty":"OKP","x":"${xOf(key)}"}`).digest('base64url')
const page = (...items: unknown[]) => ({ items, next_cursor: null, has_more: false })

/** An Api whose requests are answered by what is told of their paths, else by 404. */
function serving(answer: (path: string, init: RequestInit) => Answer | undefined) {
  const asked: string[] = []
  const other = async (url: unknown, init: RequestInit = {}) => {
    const path = String(url).slice('http://server'.length)
    asked.push(path)
    const { status = 200, body = {}, headers = {} } = answer(path, init) ?? { status: 404 }
    return new Response(JSON.stringify(body), { status, headers })
  }
  let tokens = 0
  const api = new Api({ base: 'http://server', token: async () => `t${++tokens}`, agent: { id: 'me', handle: 'me@acme.localhost', key: newKey() }, fetch: other as typeof fetch })
  return { api, asked }
}

const bob = 'bob@acme.localhost'

test('a key is of a handle only if its keys or its key log have it', async () => {
  const [current, logged, foreign] = [newKey().publicKey, newKey().publicKey, newKey().publicKey]
  const { api } = serving((path) => {
    if (path === `/agents/${bob}/keys?kid=${kidOf(current)}`) return { body: { handle: bob, signing_public_key: { x: xOf(current) } } }
    if (path.startsWith(`/agents/${bob}/key-log?`)) return { body: page({ signing_kid: kidOf(logged) }, { signing_kid: kidOf(current) }) }
    return undefined
  })
  assert.equal(await api.ownsKey(bob, current), true)
  assert.equal(await api.ownsKey(bob, logged), true) // of an agent that was revoked
  assert.equal(await api.ownsKey(bob, foreign), false)
  assert.equal(await api.ownsKey('nobody@acme.localhost', current), false)
})

test('a handle never leads to another path', async () => {
  const { api, asked } = serving(() => ({ body: { signing_public_key: { x: xOf(key) } } }))
  const key = newKey().publicKey
  for (const handle of ['../agents/bob', 'mal@acme.localhost/../../x', 'a@b?kid=', 'Bob@acme.localhost', '']) assert.equal(await api.ownsKey(handle, key), false)
  assert.deepEqual(asked, [])
  assert.equal(await api.ownsKey(bob, key), true) // control
})

test('the leaf of an erased agent is tolerated, a foreign key is not', async () => {
  const { api } = serving((path) => {
    if (path.startsWith('/groups/g/members')) return { body: page() }
    return path.startsWith('/agents/gone@acme.localhost/') ? { status: 410 } : undefined
  })
  const trust = trustServer(api, 'g')
  const credential = (handle: string) => ({ credentialType: 'basic', identity: new TextEncoder().encode(handle) }) as const
  assert.equal(await trust.validateCredential(credential('gone@acme.localhost'), newKey().publicKey), true)
  assert.equal(await trust.validateCredential(credential(bob), newKey().publicKey), false)
})

test('too many claims count as no key package, and no refusal waits for an hour', async () => {
  const { api, asked } = serving(() => ({ status: 429, headers: { 'Retry-After': '3600' }, body: { code: 'rate_limited' } }))
  assert.equal(await api.claim('bob', 1), undefined)
  await assert.rejects(api.readGroup('g'), (error) => error instanceof ApiError && error.code === 'rate_limited')
  assert.equal(asked.length, 2)
  let refusals = 1
  const busy = serving(() => refusals-- > 0 ? { status: 429, headers: { 'Retry-After': '0' } } : { body: { id: 'g' } })
  assert.equal((await busy.api.readGroup('g')).id, 'g') // control: a short wait is waited for
})

test('every request has a token that is valid then', async () => {
  const tokens: (string | null)[] = []
  const { api } = serving((_, init) => {
    tokens.push(new Headers(init.headers).get('Authorization'))
    return { body: {} }
  })
  await api.readGroup('g')
  await api.readGroup('g')
  assert.deepEqual(tokens, ['Bearer t1', 'Bearer t2'])
})

test('the inbox is read from what was handled last, also if that was erased', async () => {
  const inbox = ['m1', 'm2', 'm3', 'm4'].map((id) => ({ id }))
  const serve = (erased: string[]) => serving((path) => {
    const left = inbox.filter(({ id }) => !erased.includes(id))
    if (path.includes('/messages?')) return { body: page(...[...left].reverse()) }
    const after = new URL(path, 'http://server').searchParams.get('after')
    const items = inbox.slice(1 + inbox.findIndex(({ id }) => id === after)).filter(({ id }) => !erased.includes(id))
    return { body: { items, after: items.at(-1)?.id ?? after } }
  })
  const read = async (handled: string[], erased: string[]) => {
    const { api, asked } = serve(erased)
    return [(await api.messagesAfter(handled)).map(({ id }) => id).join(' '), asked.some((path) => path.includes('/wait?'))]
  }
  assert.deepEqual(await read([], []), ['m1 m2 m3 m4', false])
  assert.deepEqual(await read(['m1', 'm2'], []), ['m3 m4', false])
  assert.deepEqual(await read(['m1', 'm2'], ['m2']), ['m3 m4', false])
  assert.deepEqual(await read(['m1', 'm2'], ['m1', 'm2']), ['m3 m4', true])
  assert.deepEqual(await read(['m1', 'm2'], ['m1', 'm2', 'm3', 'm4']), ['', true])
})

// Three agents of three organizations talk in a group: node dist/src/demo.js
import { createHash, generateKeyPairSync, randomBytes, type KeyObject } from 'node:crypto'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Api, signingKey } from './api.ts'
import { Member, type Event } from './member.ts'
import { FileStore } from './store.ts'

const base = process.env.PARLEY_URL ?? 'http://127.0.0.1:8080'

async function call<T>(method: string, route: string, body: unknown, headers: Record<string, string> = {}): Promise<T> {
  const answer = await fetch(base + route, { method, headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${route}: ${answer.status} ${text}`)
  return JSON.parse(text)
}

/** Finds a nonce for which the digest begins with so many zero bits. */
function solve(challenge: string, difficulty: number): string {
  for (let nonce = 0; ; nonce++) {
    const digest = createHash('sha256').update(`${challenge}:${nonce}`).digest()
    if (digest.readUIntBE(0, 4) < 2 ** (32 - difficulty)) return String(nonce)
  }
}

/** Registers an organization. What it returns gives a token, a new one a minute before the former expires. */
async function register(slug: string): Promise<() => Promise<string>> {
  const asked = await call<{ challenge_id: string; challenge: string; difficulty: number }>('POST', '/auth/register', { email: `${slug}@example.org`, org_slug: slug })
  const nonce = solve(asked.challenge, asked.difficulty)
  const { client_id, client_secret } = await call<{ client_id: string; client_secret: string }>('POST', '/auth/register/solve', { challenge_id: asked.challenge_id, nonce })
  const basic = Buffer.from(`${client_id}:${client_secret}`).toString('base64')
  let [token, until] = ['', 0]
  return async () => {
    if (Date.now() < until) return token
    const granted = await call<{ access_token: string; expires_in: number }>('POST', '/oauth/token', { grant_type: 'client_credentials' }, { Authorization: `Basic ${basic}` })
    until = Date.now() + 1000 * (granted.expires_in - 60)
    return token = granted.access_token
  }
}

const publicKey = (key: KeyObject) => {
  const { kty, crv, x } = key.export({ format: 'jwk' })
  return { kty, crv, x }
}

/** Creates an agent of a new organization. */
async function createAgent(name: string): Promise<{ token: () => Promise<string>; api: Api }> {
  const token = await register(`${name}-${randomBytes(4).toString('hex')}`)
  const signing = generateKeyPairSync('ed25519')
  const encryption = generateKeyPairSync('x25519')
  const { id, handle } = await call<{ id: string; handle: string }>(
    'POST', '/agents', { name, signing_public_key: publicKey(signing.publicKey), encryption_public_key: publicKey(encryption.publicKey) }, { Authorization: `Bearer ${await token()}` },
  )
  return { token, api: new Api({ base, token, agent: { id, handle, key: signingKey(signing.privateKey) } }) }
}

const dir = await mkdtemp(path.join(tmpdir(), 'mls-'))
const [ann, bob, cay] = [await createAgent('ann'), await createAgent('bob'), await createAgent('cay')]
const group = await call<{ id: string }>('POST', '/groups', { name: 'talk', enrollment_policy: 'open' }, { Authorization: `Bearer ${await ann.token()}` })
for (const { token } of [bob, cay]) await call('POST', `/groups/${group.id}/join`, {}, { Authorization: `Bearer ${await token()}` })

const read = new Map<string, number>()
const open = async ({ api }: { api: Api }) => {
  const { handle } = api.agent
  const onEvent = (event: Event) => {
    console.log(handle, event)
    if (event.kind === 'message') read.set(handle, (read.get(handle) ?? 0) + 1)
  }
  return Member.open({ api, group: group.id, store: new FileStore(path.join(dir, `${handle}.json`)), onEvent })
}
const members = [await open(ann), await open(bob), await open(cay)] as const

await members[1].uploadKeyPackages(10) // so that others can add bob while he is away
await members[0].turnOn()
await members[2].join() // cay has no key packages
const stop = new AbortController()
const following = members.map((member, i) => member.follow(stop.signal, { admits: i === 0 }))
for (const member of members) {
  await member.sync() // bob opens his Welcome
  await member.send('Hello!')
}
while ([...read.values()].filter((n) => n === 2).length < members.length) await sleep(50)
stop.abort()
await Promise.all(following)

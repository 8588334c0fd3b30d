// Shared by the judges of MLS groups: members by the client of examples/mls-ts. The judge
// records what each of them asks and is answered, and can come between.
import assert from 'node:assert/strict'
import { decodeGroupState, getCiphersuiteFromName, getCiphersuiteImpl, mlsExporter } from 'ts-mls'
import { Api, signingKey } from '../../../examples/mls-ts/dist/src/api.js'
import { Member } from '../../../examples/mls-ts/dist/src/member.js'
import { Session } from '../../../examples/mls-ts/dist/src/session.js'
import { MemoryStore } from '../../../examples/mls-ts/dist/src/store.js'
import { base, call, createAgent, register } from './parley.mjs'

const suite = await getCiphersuiteImpl(getCiphersuiteFromName('MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519'))

// Person is an agent with its client: what it stored, what it read, what it asked.
export class Person {
  store = new MemoryStore()
  events = []
  requests = []
  // disturb, if set, gets each request, decides when it is sent, and what the client gets of
  // the answer.
  disturb

  constructor(org, agent) {
    this.token = org.token
    this.id = agent.id
    this.handle = agent.handle
    this.name = agent.name
    this.key = signingKey(agent.signing.privateKey)
  }

  // open starts the person's program anew: it knows what its store has. The former program,
  // if it still runs, gets no more answers.
  async open(group) {
    const program = this.program = Symbol()
    const alive = (url, init) => this.program === program ? this.ask(url, init) : new Promise(() => {})
    this.group = group
    this.api = new Api({ base, token: () => this.token, agent: { id: this.id, handle: this.handle, key: this.key }, fetch: alive })
    this.member = await Member.open({ api: this.api, group, store: this.store, onEvent: (event) => { this.events.push(event) } })
    return this
  }

  // ask sends a request as fetch does.
  async ask(url, init) {
    const request = { method: init.method, path: url.slice(base.length), body: init.body ? JSON.parse(init.body) : undefined }
    const send = async () => {
      const begun = performance.now()
      const answer = await fetch(url, init)
      const text = await answer.text()
      Object.assign(request, { status: answer.status, json: text ? JSON.parse(text) : undefined, ms: performance.now() - begun })
      this.requests.push(request)
      return new Response(text || null, answer)
    }
    return this.disturb ? this.disturb(request, send) : send()
  }

  // asked returns the answered requests of a kind since a number of requests.
  asked(method, path, since = 0) {
    return this.requests.slice(since).filter((request) => request.method === method && path.test(request.path))
  }

  commits(since) {
    return this.asked('POST', /\/mls\/commits$/, since)
  }

  // session is what the person knew when it stored last, apart from its program.
  async session() {
    return Session.load((await this.store.load()).session, { group: this.group, suite, trust: { validateCredential: async () => true } })
  }

  // secrets are the epoch, its authenticator and a secret exported from it.
  async secrets() {
    const [state] = decodeGroupState(Buffer.from((await this.store.load()).session, 'base64url'), 0)
    const { epochAuthenticator, exporterSecret } = state.keySchedule
    const exported = await mlsExporter(exporterSecret, 'judge', new Uint8Array([1]), 32, suite)
    return [state.groupContext.epoch, Buffer.from(epochAuthenticator).toString('hex'), Buffer.from(exported).toString('hex')].join(' ')
  }

  as = (method, path, body, expect) => call(method, path, { token: this.token, body, headers: { 'X-Svc-Agent': this.id }, ...(expect ? { expect } : {}) })
}

// people creates agents of several organizations, without a client yet.
export async function people(count) {
  const orgs = await Promise.all(Array.from({ length: Math.min(count, 4) }, () => register()))
  return Promise.all(Array.from({ length: count }, async (_, i) => {
    const org = orgs[i % orgs.length]
    return new Person(org, await createAgent(org, `member${i}`))
  }))
}

// found creates a group that anybody may join, of the first person.
export async function found([founder, ...others]) {
  const group = (await founder.as('POST', '/groups', { name: 'talk', enrollment_policy: 'open' })).json.id
  await founder.open(group)
  await enter(group, others)
  return group
}

// enter makes people members of a group, who have no leaf in its MLS group.
export async function enter(group, who) {
  for (const one of who) {
    await one.as('POST', `/groups/${group}/join`, {})
    if (one.group === undefined) await one.open(group)
  }
}

export const readGroup = async (one) => (await one.as('GET', `/groups/${one.group}`)).json

// converge lets everybody read, and checks that all are in one epoch, have its secrets and
// see the same leaves.
export async function converge(who, leaves = who) {
  await Promise.all(who.map((one) => one.member.sync()))
  const secrets = await Promise.all(who.map((one) => one.secrets()))
  for (const [i, one] of who.entries()) assert.equal(secrets[i], secrets[0], `the secrets of ${one.handle}`)
  const handles = leaves.map((one) => one.handle.toLowerCase()).sort()
  for (const one of who) assert.deepEqual(one.member.handles.sort(), handles, `the leaves that ${one.handle} sees`)
  return who[0].member.epoch
}

// readable checks that everybody could read all that came.
export function readable(who) {
  for (const one of who) assert.deepEqual(one.events.filter((event) => event.kind === 'unreadable'), [], one.handle)
}

// talk lets everybody send, and checks that everybody gets each text of the others, once.
export async function talk(who) {
  const texts = who.map((one, i) => `${i}: ${crypto.randomUUID()}`)
  for (const [i, one] of who.entries()) await one.member.send(texts[i])
  const before = who.map((one) => one.events.length)
  await Promise.all(who.map((one) => one.member.sync()))
  for (const [i, one] of who.entries()) {
    const got = one.events.slice(before[i]).filter((event) => event.kind === 'message').map(({ from, text }) => `${from} ${text}`)
    const want = who.map((other, j) => `${other.handle.toLowerCase()} ${texts[j]}`)
    want.splice(i, 1)
    assert.deepEqual(got.sort(), want.sort(), `what ${one.handle} read`)
  }
  readable(who)
}

export const median = (figures) => figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)]

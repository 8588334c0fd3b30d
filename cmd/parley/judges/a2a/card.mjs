// Checks the A2A cards of agents: with jose and canonicalize as a strict client does that
// knows only RFC 7515 and RFC 8785, and with the client of @a2a-js/sdk. It prints the
// handles of the agents for the other client.
import assert from 'node:assert/strict'
import canonicalize from 'canonicalize'
import * as jose from 'jose'
import { AgentCard, canonicalizeAgentCard, verifyAgentCardSignature } from '@a2a-js/sdk'
import { ClientFactory, DefaultAgentCardResolver } from '@a2a-js/sdk/client'
import { base, call, checked, createAgent, register } from '../parley.mjs'

const org = await register()
const publish = async (name, card) => {
  const agent = await createAgent(org, name)
  await call('PUT', `/agents/${agent.id}/card`, { token: org.token, body: card })
  return agent
}
const bare = await publish('bare', { name: 'Bare', description: '', svc: { a2a_enabled: true } })
const full = await publish('full', {
  name: 'Prüfer 🧾', description: 'Checks <b>invoices</b> & "orders" — \u2028 line by line.', version: '2.1.0', provider: { organization: 'Acme', url: 'https://acme.example' },
  capabilities: { streaming: false, pushNotifications: false }, defaultInputModes: ['application/json'], defaultOutputModes: ['text/plain'],
  skills: [
    { id: 'check', name: 'Check', description: 'Compares.', tags: ['invoices'], examples: ['', 'Is invoice 17 correct?'], inputModes: ['image/png'], outputModes: ['text/csv'] },
    { id: 'explain', name: 'Explain', description: '', tags: [], examples: [] },
  ],
  svc: {
    a2a_enabled: true, a2a_accept_cleartext: false, categories: ['finance'], languages: ['en', 'de-AT'], pricing_model: 'free', jurisdiction: 'AT',
    sla: { response_time_p95_ms: 800, availability_percent: 99.95 }, message_types_accepted: ['acme.v1.invoice'], payload_schemas: { 'acme.v1.invoice': 'https://acme.example/s.json' },
  },
  is_public: true,
})
const cardOf = async ({ handle }) => (await call('GET', `/a2a/${handle}/agent.json`)).json
const published = async () => (await call('GET', '/.well-known/jwks.json')).json.keys
const headerOf = (card) => jose.decodeProtectedHeader(card.signatures[0])

// strict verifies a card with nothing but the text that was served and the key document
// that its header names.
async function strict(card, keys) {
  const { signatures, ...rest } = card
  assert.equal(signatures.length, 1)
  const payload = jose.base64url.encode(canonicalize(rest))
  return jose.flattenedVerify({ ...signatures[0], payload }, keys, { algorithms: ['EdDSA'] })
}
const empty = (value) =>
  value === null || value === '' || value === false || value === 0 || (typeof value === 'object' && (Object.keys(value).length === 0 || Object.values(value).some(empty)))
for (const planted of [null, '', false, 0, [], {}]) assert.ok(empty({ a: ['b', planted] }))

const known = 'name description supportedInterfaces provider version capabilities securitySchemes securityRequirements defaultInputModes defaultOutputModes skills signatures'.split(' ')
for (const agent of [bare, full]) {
  const card = await cardOf(agent)
  const { jku, kid, alg, typ } = headerOf(card)
  assert.deepEqual([jku, alg, typ], [`${base}/.well-known/jwks.json`, 'EdDSA', 'JOSE'])
  const { protectedHeader } = await strict(card, jose.createRemoteJWKSet(new URL(jku)))
  assert.equal(protectedHeader.kid, kid)
  assert.deepEqual(Object.keys(card).filter((member) => !known.includes(member)), [])
  assert.ok(!empty(card), JSON.stringify(card))
  assert.deepEqual(card, (await call('GET', `/a2a/${agent.handle}/.well-known/agent-card.json`)).json)
  for (const change of [{ name: 'Mallory' }, { iconUrl: 'https://x.example/' }, { supportedInterfaces: [] }]) {
    await assert.rejects(strict({ ...card, ...change }, jose.createRemoteJWKSet(new URL(jku))), jose.errors.JWSSignatureVerificationFailed)
  }
}
checked('jose verifies the canonical form of a bare and of a full card with the key that the header names; a changed card does not verify')

const tokenKid = jose.decodeProtectedHeader(org.token).kid
const cardKid = headerOf(await cardOf(bare)).kid
assert.notEqual(tokenKid, cardKid)
const only = async (kid) => jose.importJWK((await published()).find((key) => key.kid === kid), 'EdDSA')
await strict(await cardOf(bare), await only(cardKid))
await jose.jwtVerify(org.token, await only(tokenKid))
await assert.rejects(strict(await cardOf(bare), await only(tokenKid)), jose.errors.JWSSignatureVerificationFailed)
await assert.rejects(jose.jwtVerify(org.token, await only(cardKid)), jose.errors.JWSSignatureVerificationFailed)
checked('cards and tokens are signed with different keys of the key document')

const verified = verifyAgentCardSignature(async (kid, jku) => {
  const { keys } = await (await fetch(jku)).json()
  return jose.importJWK(keys.find((key) => key.kid === kid), 'EdDSA')
})
const quietly = async (run) => {
  const debug = console.debug // the SDK tells each signature that fails
  console.debug = () => {}
  try { return await run() } finally { console.debug = debug }
}
// The SDK verifies what was received. Of a card that it has parsed, it leaves the security
// schemes out of the canonical form: https://github.com/a2aproject/a2a-js/issues/663
for (const agent of [bare, full]) {
  const card = await cardOf(agent)
  const { signatures, ...rest } = card
  assert.equal(canonicalizeAgentCard(card), canonicalize(rest))
  assert.deepEqual(AgentCard.toJSON(AgentCard.fromJSON(card)), card)
  await verified(card)
  await verified({ ...card, svc: { handle: agent.handle } })
  await quietly(() => assert.rejects(verified({ ...card, name: 'Mallory' }), /No valid signatures/))
}
checked('@a2a-js/sdk reads every member, makes the same canonical form and verifies the signature, also with members that A2A does not have; a changed card does not verify')

for (const [url, path] of [[`${base}/a2a/${full.handle}/agent.json`, ''], [`${base}/a2a/${full.handle}/`, '.well-known/agent-card.json']]) {
  assert.equal((await new DefaultAgentCardResolver().resolve(url, path)).name, 'Prüfer 🧾')
  const client = await new ClientFactory().createFromUrl(url, path)
  assert.equal(client.protocolVersion, '1.0')
}
checked('the client of @a2a-js/sdk connects by the URL of the card, with protocol version 1.0')

console.log(`agents ${bare.handle} ${full.handle}`)

// Checks signed receipts of messages with the jose package.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import * as jose from 'jose'
import { base, call, checked, createAgent, register, send } from './parley.mjs'

const org = await register()
const alice = await createAgent(org, 'alice')
const bob = await createAgent(org, 'bob')
const jwks = jose.createRemoteJWKSet(new URL(`${base}/.well-known/jwks.json`))
const issuer = (await call('GET', '/.well-known/oauth-authorization-server')).json.issuer
const expected = { issuer, typ: 'svc-receipt+jwt', algorithms: ['EdDSA'] }
const digest = (payload) => createHash('sha256').update(payload).digest('hex')
const receiptOf = async (id) => (await call('GET', `/messages/${id}/receipt`, { token: org.token })).json.receipt

const message = await send(org, bob, 'a sealed order', { headers: { 'X-Svc-Agent': alice.id } })
const receipt = await receiptOf(message.id)
const { payload, protectedHeader } = await jose.jwtVerify(receipt, jwks, expected)
assert.equal(payload.message_id, message.id)
assert.equal(payload.conversation_id, message.conversation_id)
assert.equal(payload.position, 1)
assert.equal(payload.from_agent_id, alice.id)
assert.equal(payload.to_agent_id, bob.id)
assert.equal(payload.accepted_at, message.created_at)
assert.equal(payload.iat, Math.floor(Date.parse(message.created_at) / 1000))
assert.equal(payload.payload_sha256, digest(message.encrypted_payload))
checked('a receipt verifies against the published key set, and says what was accepted')

assert.equal(await receiptOf(message.id), receipt)
checked('a receipt that is requested again is the same')

assert.notEqual(payload.payload_sha256, digest(`${message.encrypted_payload}A`))
const [head, , signature] = receipt.split('.')
const other = jose.base64url.encode(JSON.stringify({ ...payload, payload_sha256: digest('another order') }))
await assert.rejects(jose.jwtVerify([head, other, signature].join('.'), jwks, expected), jose.errors.JWSSignatureVerificationFailed)
const flipped = (signature[0] === 'A' ? 'B' : 'A') + signature.slice(1)
await assert.rejects(jose.jwtVerify([...receipt.split('.').slice(0, 2), flipped].join('.'), jwks, expected), jose.errors.JWSSignatureVerificationFailed)
checked('a receipt for another payload, or with another signature, does not verify')

const token = await jose.jwtVerify(org.token, jwks)
assert.notEqual(token.protectedHeader.kid, protectedHeader.kid)
await assert.rejects(jose.jwtVerify(org.token, jwks, expected), jose.errors.JWTClaimValidationFailed)
await call('GET', '/org', { token: receipt, expect: 401 })
checked('a token is no receipt and a receipt is no token: their types and their keys differ')

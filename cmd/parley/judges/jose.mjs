// Checks tokens, key sets and attestations with the jose package.
import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import * as jose from 'jose'
import { base, call, checked, createAgent, register, send } from './parley.mjs'

const org = await register()
const metadata = (await call('GET', '/.well-known/oauth-authorization-server')).json
const jwks = jose.createRemoteJWKSet(new URL(`${base}/.well-known/jwks.json`))
const expected = { issuer: metadata.issuer, audience: metadata.issuer, typ: 'at+jwt', algorithms: ['EdDSA'] }

const { payload, protectedHeader } = await jose.jwtVerify(org.token, jwks, expected)
assert.equal(payload.sub, org.org_id)
assert.equal(payload.org_id, org.org_id)
assert.equal(payload.org_slug, org.org_slug)
assert.equal(payload.client_id, org.client_id)
assert.equal(payload.exp - payload.iat, 900)
assert.ok(payload.jti)
checked('an access token verifies against the published key set: issuer, audience, typ at+jwt, 15 minutes')

for (const { keys } of [(await call('GET', '/.well-known/jwks.json')).json]) {
  assert.ok(keys.length > 0 && keys.some((k) => k.kid === protectedHeader.kid))
  for (const key of keys) {
    assert.equal(key.kid, await jose.calculateJwkThumbprint(key))
    assert.equal(key.d, undefined)
  }
}
checked('every published key has its RFC 7638 thumbprint as kid and no private part')

await assert.rejects(jose.jwtVerify(org.token, jwks, { ...expected, audience: 'https://elsewhere.example' }), jose.errors.JWTClaimValidationFailed)
const [head, claims, signature] = org.token.split('.')
const forgedClaims = jose.base64url.encode(JSON.stringify({ ...jose.decodeJwt(org.token), sub: 'another' }))
await assert.rejects(jose.jwtVerify([head, forgedClaims, signature].join('.'), jwks, expected), jose.errors.JWSSignatureVerificationFailed)
await call('GET', '/org', { token: [head, forgedClaims, signature].join('.'), expect: 401 })
const none = [jose.base64url.encode(JSON.stringify({ alg: 'none', typ: 'at+jwt' })), claims, ''].join('.')
await call('GET', '/org', { token: none, expect: 401 })
checked('a token with other claims, or with alg none, is refused by jose and by the server alike')

const alice = await createAgent(org, 'alice')
const bob = await createAgent(org, 'bob')
const kid = await jose.calculateJwkThumbprint(alice.signing.publicKey.export({ format: 'jwk' }))
const keys = (await call('GET', `/agents/${alice.id}/keys`)).json
assert.equal(keys.signing_public_key.kid, kid)
assert.equal(keys.encryption_public_key.kid, await jose.calculateJwkThumbprint(alice.encryption.publicKey.export({ format: 'jwk' })))
await jose.importJWK(keys.signing_public_key, 'EdDSA')
checked("an agent's served keys import, and their kids are their thumbprints")

const statement = new TextEncoder().encode(JSON.stringify({ claim: 'audited', at: '2026-01-01T00:00:00Z' }))
const compact = (key, id = kid) => new jose.CompactSign(statement).setProtectedHeader({ alg: 'EdDSA', kid: id }).sign(key)
const attest = (attestation, expect) =>
  send(org, bob, 'attested', { extra: { sender_attestations: [attestation] }, headers: { 'X-Svc-Agent': alice.id }, expect })

const good = await compact(alice.signing.privateKey)
assert.deepEqual((await attest(good, 201)).sender_attestations, [good])
const flattened = await new jose.FlattenedSign(statement).setProtectedHeader({ alg: 'EdDSA', kid }).sign(alice.signing.privateKey)
assert.deepEqual((await attest(flattened, 201)).sender_attestations, [flattened])
checked('an attestation signed by jose is accepted, compact and flattened, and kept as it was sent')

const stranger = generateKeyPairSync('ed25519')
assert.equal((await attest(await compact(stranger.privateKey), 403)).code, 'signature_invalid')
const [h, , s] = good.split('.')
assert.equal((await attest([h, jose.base64url.encode('{"claim":"other"}'), s].join('.'), 403)).code, 'signature_invalid')
checked('an attestation by another key, or over other words, is refused with signature_invalid')

await attest(await compact(stranger.privateKey, await jose.calculateJwkThumbprint(stranger.publicKey.export({ format: 'jwk' }))), 201)
checked('an attestation whose kid nobody here has is recorded')

const body = JSON.stringify({ to_agent_id: bob.id, type: 'svc.v1.dm', encrypted_payload: 'c2lnbmVk' })
const words = `svc-msg-v1\n${createHash('sha256').update(body).digest('hex')}`
const signed = (text, expect) =>
  call('POST', '/messages', {
    token: org.token, body, expect,
    headers: { 'X-Svc-Agent': alice.id, 'X-Svc-Message-Signature': sign(null, Buffer.from(text), alice.signing.privateKey).toString('base64url') },
  })
await signed(words, 201)
assert.equal((await signed(`${words} `, 403)).json.code, 'signature_invalid')
checked('a signature over the raw body is accepted, one over anything else refused')

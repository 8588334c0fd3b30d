// Holds verifiers and clients over a rotation of the key that signs access tokens: jose's
// remote key set with its cool-down, oauth4webapi with its cache of keys, and openid-client.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import * as jose from 'jose'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { base, call, checked, register } from './parley.mjs'

const [binary, admin, data] = process.argv.slice(3)
const rotate = (...flags) => execFileSync(binary, ['key', 'rotate', '--admin', admin, '--data', data, ...flags])
const published = 65 * 60 // seconds for which a new key is published before it signs: docs/operations.md

const org = await register()
const insecure = { [oauth.allowInsecureRequests]: true } // plain http, on loopback only
const config = await openid.discovery(new URL(base), org.client_id, org.client_secret, openid.ClientSecretBasic(org.client_secret), {
  algorithm: 'oauth2', execute: [openid.allowInsecureRequests],
})
const grant = async () => (await openid.clientCredentialsGrant(config)).access_token
const kidOf = (token) => jose.decodeProtectedHeader(token).kid
const issuer = config.serverMetadata().issuer
const expected = { issuer, audience: issuer, typ: 'at+jwt', algorithms: ['EdDSA'] }

// Each verifier notes how often it fetches the keys.
const fetched = { patient: 0, eager: 0, oauth: 0 }
const counting = (name) => (...args) => (fetched[name]++, fetch(...args))
const keysURL = new URL(config.serverMetadata().jwks_uri)
const patient = jose.createRemoteJWKSet(keysURL, { [jose.customFetch]: counting('patient') }) // waits 30 s before it fetches again
const eager = jose.createRemoteJWKSet(keysURL, { cooldownDuration: 500, [jose.customFetch]: counting('eager') })
const keys = {} // the cache of oauth4webapi, which fetches again after a minute
const server = await oauth.processDiscoveryResponse(new URL(base), await oauth.discoveryRequest(new URL(base), { algorithm: 'oauth2', ...insecure }))
const validated = (token) => // a copy of the metadata, because it remembers keys beside the cache for each object
  oauth.validateJwtAccessToken({ ...server }, new Request(`${base}/org`, { headers: { Authorization: `Bearer ${token}` } }), issuer, {
    ...insecure, [oauth.jwksCache]: keys, [oauth.customFetch]: counting('oauth'),
  })

async function usable(token) {
  const answer = await openid.fetchProtectedResource(config, token, new URL(`${base}/org`), 'GET')
  assert.equal(answer.status, 200)
}

const before = await grant()
for (const keySet of [patient, eager]) await jose.jwtVerify(before, keySet, expected)
await validated(before)
await usable(before)
assert.deepEqual(fetched, { patient: 1, eager: 1, oauth: 1 })
checked('openid-client discovers the server, gets a token and uses it; jose and oauth4webapi verify it')

const response = await fetch(keysURL)
const maxAge = Number(/max-age=(\d+)/.exec(response.headers.get('cache-control'))[1])
assert.ok(maxAge + 60 < published, `keys may be kept for ${maxAge} s, and the next one signs after ${published} s`)
const known = (await response.json()).keys.map((key) => key.kid)
rotate()
const now = (await call('GET', '/.well-known/jwks.json')).json.keys.map((key) => key.kid)
assert.equal(now.filter((kid) => !known.includes(kid)).length, 1)
const after = await grant()
assert.equal(kidOf(after), kidOf(before), 'the new key signs before verifiers have it')
for (const keySet of [patient, eager]) await jose.jwtVerify(after, keySet, expected)
await validated(after)
await usable(after)
assert.deepEqual(fetched, { patient: 1, eager: 1, oauth: 1 })
checked(`a rotation publishes the next key ${published} s ahead, ${maxAge} s are kept: no verifier fetches, none fails`)

rotate('--now')
const atOnce = await grant()
assert.ok(!known.includes(kidOf(atOnce)) && !now.includes(kidOf(atOnce)))
await usable(atOnce)
await usable(before)
await assert.rejects(jose.jwtVerify(atOnce, patient, expected), jose.errors.JWKSNoMatchingKey)
await new Promise((done) => setTimeout(done, 600))
await jose.jwtVerify(atOnce, eager, expected)
await assert.rejects(validated(atOnce), (e) => e.code === 'OAUTH_KEY_SELECTION_FAILED')
keys.uat -= 61 // a minute later
await validated(atOnce)
for (const token of [before, after]) {
  await jose.jwtVerify(token, eager, expected)
  await validated(token)
}
assert.deepEqual(fetched, { patient: 1, eager: 2, oauth: 2 })
checked('with --now the next token has the new key: verifiers fetch once, after their cool-down, and former tokens stay valid')

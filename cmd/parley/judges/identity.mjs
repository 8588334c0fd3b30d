// Resolves agents from their handles alone, as strangers do: by name, over https, with
// webfinger.js and web-did-resolver. The hosts of organizations are below the domain that
// the second argument names; all of them are this machine.
import assert from 'node:assert/strict'
import dns from 'node:dns'
import * as jose from 'jose'
import { Resolver } from 'did-resolver'
import { getResolver } from 'web-did-resolver'
import WebFinger, { WebFingerError } from 'webfinger.js'
import { base, call, checked, createAgent, register } from './parley.mjs'

const domain = process.argv[3]
const systemLookup = dns.lookup
dns.lookup = (host, options, done) => {
  if (typeof options === 'function') [options, done] = [{}, options]
  if (!host.endsWith(`.${domain.split(':')[0]}`)) return systemLookup(host, options, done)
  const address = { address: '127.0.0.1', family: 4 }
  process.nextTick(() => (options.all ? done(null, [address]) : done(null, address.address, address.family)))
}

const acme = await register()
const globex = await register()
const alice = await createAgent(acme, 'alice')
const namesake = await createAgent(globex, 'alice')
const host = `${acme.org_slug}.${domain}`
assert.equal(alice.handle, `alice@${host}`)

const finger = new WebFinger({ allow_private_addresses: true, tls_only: true })
const { object } = await finger.lookup(alice.handle)
const link = (rel) => object.links.filter((l) => l.rel === rel)
assert.equal(object.subject, `acct:${alice.handle}`)
assert.deepEqual(link('self').map((l) => l.href), [`${base}/agents/${alice.id}/card`])
assert.deepEqual(link('agent-card').map((l) => l.href), [`${base}/.well-known/agent-cards/${alice.id}.json`])
assert.deepEqual(link('did').map((l) => l.href), [`https://${host}/agents/alice/did.json`])
checked("webfinger.js finds an agent's card and DID document by its handle")

for (const stranger of [`nobody@${host}`, `alice@nobody-here.${domain}`]) {
  await assert.rejects(finger.lookup(stranger), (error) => error instanceof WebFingerError && error.status === 404)
}
checked('it is told 404 about an unknown agent and an unknown organization')

const resolver = new Resolver(getResolver())
const did = object.aliases[0]
assert.equal(did, `did:web:${host.replace(':', '%3A')}:agents:alice`)
const { didDocument: document, didResolutionMetadata: result } = await resolver.resolve(did)
assert.equal(result.error, undefined, result.message)
assert.equal(document.id, did)
assert.deepEqual(document, JSON.parse(await (await fetch(link('did')[0].href)).text()))
checked('web-did-resolver resolves the DID to the document that WebFinger links to, whose id is the DID')

const keyOf = (id) => {
  const methods = document.verificationMethod.filter((m) => m.id === id)
  assert.equal(methods.length, 1)
  assert.equal(methods[0].type, 'JsonWebKey2020')
  assert.equal(methods[0].controller, did)
  return methods[0].publicKeyJwk
}
assert.deepEqual(document.authentication, document.assertionMethod)
const [signing] = document.authentication.map(keyOf)
const [encryption] = document.keyAgreement.map(keyOf)
for (const [key, pair] of [[signing, alice.signing], [encryption, alice.encryption]]) {
  assert.equal(key.x, pair.publicKey.export({ format: 'jwk' }).x)
  assert.equal(key.kid, await jose.calculateJwkThumbprint(key))
  assert.equal(key.d, undefined)
}
const served = (await call('GET', `/agents/${alice.id}/keys`)).json
assert.deepEqual([signing, encryption], [served.signing_public_key, served.encryption_public_key])
checked('its keys are those of the agent, with thumbprints as kids and without private parts, and those that the keys endpoint serves')

const statement = await new jose.CompactSign(new TextEncoder().encode('hello')).setProtectedHeader({ alg: 'EdDSA', kid: signing.kid }).sign(alice.signing.privateKey)
const { payload } = await jose.compactVerify(statement, await jose.importJWK(signing, 'EdDSA'))
assert.equal(new TextDecoder().decode(payload), 'hello')
const sealed = await new jose.CompactEncrypt(new TextEncoder().encode('secret')).setProtectedHeader({ alg: 'ECDH-ES', enc: 'A256GCM' }).encrypt(await jose.importJWK(encryption, 'ECDH-ES'))
const opened = await jose.compactDecrypt(sealed, alice.encryption.privateKey)
assert.equal(new TextDecoder().decode(opened.plaintext), 'secret')
await assert.rejects(jose.compactVerify(statement, await jose.importJWK((await call('GET', `/agents/${namesake.id}/keys`)).json.signing_public_key, 'EdDSA')), jose.errors.JWSSignatureVerificationFailed)
checked("jose verifies what the agent signed, and encrypts to it, with the document's keys")

const other = await resolver.resolve(did.replace(acme.org_slug, globex.org_slug))
assert.equal(other.didDocument.verificationMethod[0].publicKeyJwk.x, namesake.signing.publicKey.export({ format: 'jwk' }).x)
for (const wrong of [did.replace(/alice$/, 'bob'), did.replace(acme.org_slug, 'nobody-here'), did.replace(/alice$/, alice.id)]) {
  const { didResolutionMetadata } = await resolver.resolve(wrong)
  assert.equal(didResolutionMetadata.error, 'notFound', wrong)
}
checked('an agent of the same name on the host of another organization has its own document; an unknown one has none')

await call('DELETE', `/agents/${alice.id}`, { token: acme.token, expect: 204 })
assert.equal((await resolver.resolve(did)).didResolutionMetadata.error, 'notFound')
await assert.rejects(finger.lookup(alice.handle), (error) => error.status === 404)
checked('neither finds a revoked agent')

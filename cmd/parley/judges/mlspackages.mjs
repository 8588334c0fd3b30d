// Uploads key packages that npm's ts-mls makes with an agent's own key, in a suite of RFC
// 9420 and in one that IANA has no number for yet, and reads how many there are.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { base64url, keyPackage, keyPair, lastResort, lifetimeOf, message, suite } from './mls.mjs'
import { call, checked, createAgent, register } from './parley.mjs'

const org = await register()
const agent = await createAgent(org, 'packed')
const path = `/agents/${agent.id}/mls/key-packages`
const own = keyPair(agent.signing)

async function made(number, { handle = agent.handle, keys = own, ...rest } = {}) {
  const cs = await suite(number)
  if (number === 2) keys = await cs.signature.keygen()
  const { publicPackage } = await keyPackage(cs, handle, keys, rest)
  return base64url(message('mls_key_package', publicPackage))
}

const upload = (key_packages, { last_resort, expect = 200 } = {}) => call('POST', path, { token: org.token, body: { key_packages, last_resort }, expect })
const count = async () => (await call('GET', `${path}/count`, { token: org.token })).json

assert.deepEqual(await count(), { available: 0, last_resort: false })
const first = await made(1)
assert.deepEqual((await upload([first, await made(1), await made(83)], { last_resort: await made(1, { extensions: [lastResort] }) })).json, { stored: 3, available: 3 })
assert.deepEqual(await count(), { available: 3, last_resort: true })
checked('key packages of ts-mls are stored, with X25519 and with X-Wing')

assert.deepEqual((await upload([first])).json, { stored: 0, available: 3 })
checked('a repeated upload stores nothing')

for (const [why, bad] of [
  ['the key of another agent', await made(1, { keys: keyPair(generateKeyPairSync('ed25519')) })],
  ['another handle', await made(1, { handle: `x${agent.handle}` })],
  ['P-256 signatures', await made(2)],
  ['a lifetime that is over', await made(1, { lifetime: lifetimeOf(-1) })],
]) {
  const refused = await upload([await made(1), bad], { expect: 422 })
  assert.equal(refused.json.code, 'key_package_invalid', why)
  assert.deepEqual(refused.json.detail[0].loc, ['body', 'key_packages', 1], why)
  checked(`refused: ${why}`)
}
assert.deepEqual(await count(), { available: 3, last_resort: true })

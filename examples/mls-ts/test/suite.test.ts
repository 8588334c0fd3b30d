// node:crypto computes what ts-mls does by WebCrypto.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { getCiphersuiteFromName, getCiphersuiteImpl } from 'ts-mls'
import { defaultSuite, loadSuite } from '../src/suite.ts'

const ours = await loadSuite()
const theirs = await getCiphersuiteImpl(getCiphersuiteFromName(defaultSuite))
const random = (length: number) => new Uint8Array(randomBytes(length))

test('hashes, MACs and derived keys are those of ts-mls', async () => {
  for (const length of [0, 1, 31, 32, 33, 200]) {
    const [key, data] = [random(32), random(length)]
    assert.deepEqual(await ours.hash.digest(data), await theirs.hash.digest(data))
    const mac = await theirs.hash.mac(key, data)
    assert.deepEqual(await ours.hash.mac(key, data), mac)
    assert.ok(await ours.hash.verifyMac(key, mac, data))
    assert.deepEqual(await ours.kdf.extract(key, data), await theirs.kdf.extract(key, data))
    for (const size of [1, 12, 32, 33, 100]) assert.deepEqual(await ours.kdf.expand(key, data, size), await theirs.kdf.expand(key, data, size))
  }
})

test('a wrong MAC does not verify', async () => {
  const [key, data] = [random(32), random(9)]
  const mac = await ours.hash.mac(key, data)
  assert.equal(await ours.hash.verifyMac(key, mac.slice(1), data), false)
  assert.equal(await ours.hash.verifyMac(key, mac.map((byte) => byte ^ 1), data), false)
})

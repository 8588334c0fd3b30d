// Verifies the key log as the standards describe it, with node:crypto alone: the checkpoint is
// a signed note (c2sp.org/signed-note) in the form of c2sp.org/tlog-checkpoint, and proofs
// are those of RFC 9162, sections 2.1.3 and 2.1.4.
import assert from 'node:assert/strict'
import { createHash, createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { base, call, checked, createAgent, register } from './parley.mjs'

const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest()
const leafHash = (leaf) => sha256(Buffer.from([0]), leaf)
const nodeHash = (left, right) => sha256(Buffer.from([1]), left, right)

// openNote verifies a signed note with a verifier key and returns its text.
function openNote(note, vkey) {
  const [, name, hex, encoded] = vkey.match(/^([^+\s]+)\+([0-9a-f]{8})\+(.+)$/)
  const key = Buffer.from(encoded, 'base64')
  assert.equal(key.length, 33)
  assert.equal(key[0], 1, 'the algorithm is Ed25519')
  const keyID = sha256(Buffer.from(`${name}\n`), key).subarray(0, 4)
  assert.equal(keyID.toString('hex'), hex)
  const end = note.lastIndexOf('\n\n')
  assert.ok(end > 0 && note.endsWith('\n'))
  const text = note.slice(0, end + 1)
  const lines = note.slice(end + 2, -1).split('\n')
  const own = lines.map((line) => line.match(/^\u2014 (\S+) (\S+)$/)).filter((m) => m[1] === name)
  assert.equal(own.length, 1)
  const signature = Buffer.from(own[0][2], 'base64')
  assert.equal(signature.length, 68)
  assert.deepEqual(signature.subarray(0, 4), keyID)
  const x = key.subarray(1).toString('base64url')
  const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  assert.ok(verify(null, Buffer.from(text), publicKey, signature.subarray(4)), 'the signature of the note')
  return text
}

// openCheckpoint reads origin, tree size and root hash.
function openCheckpoint(note, vkey, origin) {
  const [first, size, root] = openNote(note, vkey).split('\n')
  assert.equal(first, origin)
  assert.match(size, /^(0|[1-9][0-9]*)$/)
  assert.equal(Buffer.from(root, 'base64').length, 32)
  return { size: Number(size), root: Buffer.from(root, 'base64') }
}

// included is RFC 9162, section 2.1.3.2.
function included(path, leaf, index, size, root) {
  if (index >= size) return false
  let fn = index
  let sn = size - 1
  let r = leafHash(leaf)
  for (const p of path) {
    if (sn === 0) return false
    if (fn % 2 === 1 || fn === sn) {
      r = nodeHash(p, r)
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn >> 1, sn >> 1]
    } else {
      r = nodeHash(r, p)
    }
    ;[fn, sn] = [fn >> 1, sn >> 1]
  }
  return sn === 0 && r.equals(root)
}

// consistent is RFC 9162, section 2.1.4.2.
function consistent(proof, first, second, firstRoot, secondRoot) {
  if (first === second) return proof.length === 0 && firstRoot.equals(secondRoot)
  const path = Number.isInteger(Math.log2(first)) ? [firstRoot, ...proof] : proof
  if (path.length === 0) return false
  let fn = first - 1
  let sn = second - 1
  while (fn % 2 === 1) [fn, sn] = [fn >> 1, sn >> 1]
  let fr = path[0]
  let sr = path[0]
  for (const c of path.slice(1)) {
    if (sn === 0) return false
    if (fn % 2 === 1 || fn === sn) {
      fr = nodeHash(c, fr)
      sr = nodeHash(c, sr)
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn >> 1, sn >> 1]
    } else {
      sr = nodeHash(sr, c)
    }
    ;[fn, sn] = [fn >> 1, sn >> 1]
  }
  return sn === 0 && fr.equals(firstRoot) && sr.equals(secondRoot)
}

// commitment is the leaf of an entry, by docs/key-log.md.
const commitment = (e) =>
  sha256(Buffer.from([
    'parley-key-log-v1', e.agent_id, e.address, e.number, e.kind, e.signing_kid, e.encryption_kid,
    e.pq_kid ?? '', e.subject ?? '', e.at, e.salt,
  ].join('\n')))

const { json: log } = await call('GET', '/key-log')
const checkpoint = async () => (await fetch(`${base}/key-log/checkpoint`)).text()
const entriesOf = async (agent) => (await call('GET', `/agents/${agent.id}/key-log`)).json.items
const proofOf = async (path) => (await call('GET', path)).json.hashes.map((h) => Buffer.from(h, 'base64'))
const opened = (note) => openCheckpoint(note, log.verifier_key, log.origin)

// grown waits until the log has so many entries, and returns its checkpoint.
async function grown(size) {
  for (;;) {
    const tree = opened(await checkpoint())
    if (tree.size >= size) return tree
    await sleep(20)
  }
}

const org = await register()
const agents = []
const trees = [opened(await checkpoint())]
assert.equal(trees[0].size, 0)
assert.ok(trees[0].root.equals(sha256()), 'the root hash of an empty tree')
while (agents.length < 6) {
  agents.push(await createAgent(org, `a${agents.length}`))
  trees.push(await grown(agents.length))
}
const { publicKey } = generateKeyPairSync('ed25519')
const { kty, crv, x } = publicKey.export({ format: 'jwk' })
await call('POST', `/agents/${agents[2].id}/keys`, { token: org.token, body: { signing_public_key: { kty, crv, x } } })
trees.push(await grown(7))
assert.deepEqual(trees.map((t) => t.size), [0, 1, 2, 3, 4, 5, 6, 7])
checked('checkpoints are signed notes of 0 to 7 entries')

const leaves = []
for (const agent of agents) for (const e of await entriesOf(agent)) leaves[e.index] = { leaf: commitment(e), entry: e }
assert.equal(leaves.filter(Boolean).length, 7)
assert.deepEqual(leaves[6].entry.kind, 'keys')
assert.equal(leaves[6].entry.signing_kid, sha256(Buffer.from(JSON.stringify({ crv, kty, x }))).toString('base64url'))
assert.equal(new Set(leaves.map((l) => l.entry.salt)).size, 7)
checked('each event about keys has one entry, and names the keys by their RFC 7638 thumbprints')

for (let size = 1; size <= 7; size++) {
  for (let index = 0; index < size; index++) {
    const path = await proofOf(`/key-log/proofs/inclusion?index=${index}&size=${size}`)
    assert.ok(included(path, leaves[index].leaf, index, size, trees[size].root), `leaf ${index} of ${size}`)
    assert.ok(!included(path, leaves[(index + 1) % 7].leaf, index, size, trees[size].root), 'control: another leaf')
  }
  for (let from = 1; from <= size; from++) {
    const path = await proofOf(`/key-log/proofs/consistency?from=${from}&to=${size}`)
    assert.ok(consistent(path, from, size, trees[from].root, trees[size].root), `${from} in ${size}`)
    if (from !== size) assert.ok(!consistent(path, from, size, trees[size].root, trees[size].root), 'control: another tree')
  }
}
checked('proofs of inclusion and of consistency verify for every size from 1 to 7')

const note = await checkpoint()
assert.throws(() => openNote(note.replace('\n7\n', '\n8\n'), log.verifier_key))
const forged = { ...leaves[6].entry, signing_kid: leaves[0].entry.signing_kid }
const path = await proofOf('/key-log/proofs/inclusion?index=6&size=7')
assert.ok(!included(path, commitment(forged), 6, 7, trees[7].root))
checked('controls: a changed checkpoint and a changed entry do not verify')

for (const query of ['inclusion?index=7&size=7', 'inclusion?index=0&size=8', 'inclusion?index=0&size=0', 'inclusion?size=1', 'consistency?from=0&to=1', 'consistency?from=3&to=2', 'consistency?from=1&to=9']) {
  await call('GET', `/key-log/proofs/${query}`, { expect: 422 })
}
checked('sizes that the log does not have are refused')

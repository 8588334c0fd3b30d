// Writes http/mls/testdata/ts-mls.json: messages of npm's ts-mls and what a reader of their
// headers has to find. Run it anew to see whether another release of ts-mls writes others:
// node mlsvectors.mjs > ../../../http/mls/testdata/ts-mls.json
import { generateKeyPairSync } from 'node:crypto'
import {
  createApplicationMessage, createCommit, createGroup, createGroupInfoWithExternalPub, createGroupInfoWithExternalPubAndRatchetTree,
  createProposal, emptyPskIndex, encodeMlsMessage, joinGroup, joinGroupExternal, proposeAddExternal,
} from 'ts-mls'
import { encodeKeyPackage, makeKeyPackageRef } from 'ts-mls/keyPackage.js'
import { encodeWelcome } from 'ts-mls/welcome.js'
import { encodeGroupInfo } from 'ts-mls/groupInfo.js'
import { base64url, keyPackage, keyPair, lastResort, message, suite } from './mls.mjs'

const groupID = '019a6b00-0000-7000-8000-00000000ab1e'
const lifetime = { notBefore: 1700000000n, notAfter: 1900000000n }
const keys = () => keyPair(generateKeyPairSync('ed25519'))
const vectors = { key_packages: [], messages: [], welcomes: [], group_infos: [] }

async function addKeyPackage(name, number, cs, kp, { last_resort = false, ed25519 = true } = {}) {
  vectors.key_packages.push({
    name, suite: number, message: base64url(message('mls_key_package', kp)), bare: base64url(encodeKeyPackage(kp)),
    init_key: base64url(kp.initKey), encryption_key: base64url(kp.leafNode.hpkePublicKey), signature_key: base64url(kp.leafNode.signaturePublicKey),
    identity: Buffer.from(kp.leafNode.credential.identity).toString(), not_before: Number(lifetime.notBefore), not_after: Number(lifetime.notAfter),
    last_resort, ed25519, reference: number < 77 ? base64url(await makeKeyPackageRef(kp, cs.hash)) : '',
  })
}

const addMessage = (name, encoded, expected) => vectors.messages.push({ name, message: base64url(encoded), group_id: groupID, authenticated_data: '', sender: 0, leaf: 0, ...expected })

const [Public, Private] = [1, 2]
const [application, proposal, commit] = [1, 2, 3]
const [member, newMemberProposal, newMemberCommit] = [1, 3, 4]

for (const number of [1, 2, 83]) {
  const cs = await suite(number)
  const own = number === 2 ? async () => ({ ...(await cs.signature.keygen()) }) : async () => keys()
  const made = await keyPackage(cs, 'Ann@Acme.localhost', await own(), { lifetime })
  await addKeyPackage(`suite ${number}`, number, cs, made.publicPackage, { ed25519: number !== 2 })
  const again = await keyPackage(cs, 'ann@acme.localhost', await own(), { lifetime, extensions: [lastResort] })
  await addKeyPackage(`suite ${number}, last resort`, number, cs, again.publicPackage, { last_resort: true, ed25519: number !== 2 })
}

{ // the structures of other suites differ in the lengths of their keys only
  const number = 1
  const cs = await suite(number)
  const client = (handle) => keyPackage(cs, handle, keys())
  const [ann, bob, cay, dan] = await Promise.all(['ann', 'bob', 'cay', 'dan'].map((name) => client(`${name}@acme.localhost`)))
  const add = (who) => ({ proposalType: 'add', add: { keyPackage: who.publicPackage } })
  let state = await createGroup(new TextEncoder().encode(groupID), ann.publicPackage, ann.privatePackage, [], cs)
  const first = await createCommit({ state, cipherSuite: cs }, { extraProposals: [add(bob)], wireAsPublicMessage: true, ratchetTreeExtension: true, authenticatedData: new Uint8Array([1, 2]) })
  addMessage('public commit', encodeMlsMessage(first.commit), { format: Public, epoch: 0, content: commit, sender: member, leaf: 0, authenticated_data: 'AQI' })
  const second = await createCommit({ state: first.newState, cipherSuite: cs }, { extraProposals: [add(cay)], ratchetTreeExtension: true })
  addMessage('private commit', encodeMlsMessage(second.commit), { format: Private, epoch: 1, content: commit })
  for (const [name, result, epoch, joiner] of [['one', first, 1, bob], ['another', second, 2, cay]]) {
    vectors.welcomes.push({
      name: `Welcome for ${name}`, suite: number, message: base64url(message('mls_welcome', result.welcome)), bare: base64url(encodeWelcome(result.welcome)),
      references: [base64url(await makeKeyPackageRef(joiner.publicPackage, cs.hash))],
    })
    const whole = await createGroupInfoWithExternalPubAndRatchetTree(result.newState, [], cs)
    const treeless = await createGroupInfoWithExternalPub(result.newState, [], cs)
    for (const [what, info, ratchet_tree] of [['GroupInfo', whole, true], ['GroupInfo without the tree', treeless, false]]) {
      vectors.group_infos.push({
        name: `${what}, epoch ${epoch}`, suite: number, message: base64url(message('mls_group_info', info)), bare: base64url(encodeGroupInfo(info)),
        group_id: groupID, epoch, ratchet_tree, external_pub: true,
      })
    }
  }
  state = second.newState
  const info = await createGroupInfoWithExternalPubAndRatchetTree(state, [], cs)
  const joined = await joinGroupExternal(info, dan.publicPackage, dan.privatePackage, false, cs)
  addMessage('external commit', message('mls_public_message', joined.publicMessage), { format: Public, epoch: 2, content: commit, sender: newMemberCommit })
  addMessage('proposal of a new member', encodeMlsMessage(await proposeAddExternal(info, dan.publicPackage, dan.privatePackage, cs)), { format: Public, epoch: 2, content: proposal, sender: newMemberProposal })
  const removal = { proposalType: 'remove', remove: { removed: 1 } }
  addMessage('public proposal', encodeMlsMessage((await createProposal(state, true, removal, cs)).message), { format: Public, epoch: 2, content: proposal, sender: member, leaf: 0 })
  addMessage('private proposal', encodeMlsMessage((await createProposal(state, false, removal, cs)).message), { format: Private, epoch: 2, content: proposal })
  const empty = await createCommit({ state, cipherSuite: cs }, { wireAsPublicMessage: true })
  addMessage('public commit without proposals', encodeMlsMessage(empty.commit), { format: Public, epoch: 2, content: commit, sender: member, leaf: 0 })
  const bobs = await joinGroup(first.welcome, bob.publicPackage, bob.privatePackage, emptyPskIndex, cs)
  const said = await createApplicationMessage(bobs, new TextEncoder().encode('hello'), cs, new Uint8Array([9]))
  addMessage('application message', message('mls_private_message', said.privateMessage), { format: Private, epoch: 1, content: application, authenticated_data: 'CQ' })
}

console.log(JSON.stringify(vectors, null, 1))

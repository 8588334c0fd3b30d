// What members with the client of examples/mls-ts do not trust: leaves of agents that are not
// in the group, and foreign keys. And what must not lock them out: the leaf of an agent whose
// organization was erased, and a member without a leaf that is removed.
// Usage: node mlsforeign.mjs <base url>
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { makeKeyPackage } from '../../../examples/mls-ts/dist/src/keypackages.js'
import { signingKey } from '../../../examples/mls-ts/dist/src/api.js'
import { loadSuite } from '../../../examples/mls-ts/dist/src/suite.js'
import { call, checked, createAgent, register } from './parley.mjs'
import { converge, enter, found, people, Person, readGroup, talk } from './mlsclient.mjs'

const suite = await loadSuite()
const own = (one, key = one.key) => makeKeyPackage(one.handle, key, suite)

// commits makes a member commit what its client would not.
async function commits(one, session, { add = [], added = [] }) {
  const pending = await session.commit(add)
  const { epoch, commit, groupInfo, welcome } = pending
  await one.api.commit(one.group, { epoch, commit, group_info: groupInfo, ...(added.length ? { welcome, added } : {}) })
  session.adopt(pending)
}

// foreignHandle: rob adds mal, who has an agent, and whom the server does not hear of.
async function foreignHandle([ann, rob, cay, mal]) {
  const group = await found([ann, rob, cay])
  for (const one of [rob, cay]) await one.member.uploadKeyPackages(1)
  await ann.member.turnOn()
  const epoch = await converge([ann, rob, cay])
  const session = await rob.session()
  await commits(rob, session, { add: [(await own(mal)).message] })
  for (const one of [ann, cay]) {
    await assert.rejects(one.member.sync(), /no member of the group/)
    assert.equal(one.member.epoch, epoch)
    assert.ok(!one.member.handles.includes(mal.handle.toLowerCase()))
  }
  checked('a commit that adds an agent that is no member is refused')

  await commits(rob, session, {}) // the group goes on
  await cay.member.send('not for mal')
  assert.ok(!cay.member.handles.includes(mal.handle.toLowerCase()))
  await ann.member.sync()
  assert.equal(ann.events.at(-1).text, 'not for mal')
  checked('if the others go on, its leaf is removed before anything is sent')
  return { group, session }
}

// foreignKey: rob adds a pending member, but with a key of his own making.
async function foreignKey([ann, rob, cay, dan], group, session) {
  await enter(group, [dan])
  for (const { commit } of (await rob.api.commits(group, session.epoch)).items) await session.apply(commit)
  const false_ = await own(dan, signingKey(generateKeyPairSync('ed25519').privateKey))
  const epoch = await converge([ann, cay], [ann, rob, cay])
  await commits(rob, session, { add: [false_.message], added: [dan.id] })
  for (const one of [ann, cay]) {
    await assert.rejects(one.member.sync(), /validate credential/)
    assert.equal(one.member.epoch, epoch)
  }
  checked('a commit that adds a member with a foreign key is refused')
}

// erasedMember: who comes later joins, and the leaf goes.
async function erasedMember([ann, bob, cay, dan, eve]) {
  const org = await register()
  const gone = new Person(org, await createAgent(org, 'gone'))
  const group = await found([ann, bob, gone])
  for (const one of [bob, gone]) await one.member.uploadKeyPackages(1)
  await ann.member.turnOn()
  await converge([ann, bob, gone])
  await call('DELETE', `/orgs/${org.org_id}`, { token: org.token })

  await enter(group, [cay])
  await cay.member.join()
  assert.ok(cay.member.handles.includes(gone.handle.toLowerCase()))
  checked('an agent joins by external commit while the leaf of an erased agent is there')
  ann.disturb = async ({ path }, send) => {
    const answer = await send()
    if (!/\/mls\/commits\?/.test(path)) return answer
    const page = await answer.json()
    return Response.json({ ...page, items: page.items.map((item) => ({ ...item, committed_by: bob.id })) })
  }
  await assert.rejects(ann.member.sync(), /another agent made the commit/)
  ann.disturb = undefined
  await ann.member.sync()
  checked('an external commit that another agent sent than the leaf is of is refused')
  await enter(group, [dan])
  await dan.member.uploadKeyPackages(1)
  await ann.member.admit()
  assert.ok(!ann.member.handles.includes(gone.handle.toLowerCase()))
  await ann.member.send('the server is told that the leaf is gone')
  await converge([ann, bob, cay, dan])
  await talk([ann, bob, cay, dan])
  assert.equal((await readGroup(ann)).mls_pending, false)
  checked('who is admitted then can open the Welcome, and the leaf of the erased agent is gone')

  await enter(group, [eve])
  await ann.member.kick(eve.id)
  const members = (await ann.api.members(group)).map((one) => one.agent_id)
  assert.ok(!members.includes(eve.id) && members.includes(dan.id))
  await converge([ann, bob, cay, dan])
  checked('a member without a leaf is removed')
}

const some = await people(5)
const { group, session } = await foreignHandle(some)
await foreignKey([...some.slice(0, 3), some[4]], group, session)
await erasedMember(await people(5))

// Members with the client of examples/mls-ts, which is npm's ts-mls, talk in a group: MLS is
// turned on, members come from outside, leave, commit at once, lose answers and stay away.
// Usage: node mlsgroup.mjs <base url> <members> [all]. With all, every member stays away for
// the hundred epochs but two; without, one of each way in.
import assert from 'node:assert/strict'
import { checked } from './parley.mjs'
import { converge, enter, found, median, people, readable, readGroup, talk } from './mlsclient.mjs'

const size = Number(process.argv[3])
const everybody = await people(Math.max(size, 5))
const seated = everybody.slice(0, Math.min(size, 5))
const [admin, bob, cay] = seated
const outsiders = everybody.slice(-2)
const group = await found(seated)

// turnsOn: the members are there before the MLS group.
async function turnsOn() {
  const others = seated.slice(1)
  for (const one of others) await one.member.uploadKeyPackages(2)
  assert.equal((await readGroup(bob)).mls_enabled, false)
  const during = []
  admin.disturb = async ({ method, path }, send) => {
    const answer = await send()
    if (method === 'POST' && path.endsWith('/mls/commits')) during.push(await readGroup(bob), (await bob.as('GET', `/groups/${group}/members`)).json.items)
    return answer
  }
  await admin.member.turnOn()
  admin.disturb = undefined
  const [first, second, ...more] = admin.commits()
  assert.deepEqual([first.status, first.body.epoch, first.body.added, first.body.welcome], [201, 0, [], undefined])
  assert.deepEqual([second.status, second.body.epoch, second.body.added.sort(), typeof second.body.welcome], [201, 1, others.map((one) => one.id).sort(), 'string'])
  assert.deepEqual(more, [])
  checked(`the first commit adds nobody, the second all ${others.length} with one Welcome`)

  assert.deepEqual([during[0].mls_enabled, during[0].mls_pending, during[2].mls_pending], [true, true, false])
  assert.deepEqual(during[1].filter((one) => one.mls_seated).map((one) => one.agent_id), [admin.id])
  assert.ok(during[3].every((one) => one.mls_seated))
  const claims = admin.asked('POST', /\/mls\/key-packages\/claim$/)
  assert.deepEqual(claims.map(({ path, status }) => `${path} ${status}`).sort(), others.map((one) => `/agents/${one.id}/mls/key-packages/claim 200`).sort())
  for (const one of others) assert.deepEqual(await one.api.countKeyPackages(), { available: 1, last_resort: true })
  checked('a key package of each is claimed, between the two commits')

  assert.equal(await converge(seated), 2)
  for (const one of others) {
    assert.deepEqual(one.events, [{ kind: 'joined', epoch: 2 }])
    assert.deepEqual(await one.api.welcomes(group), [])
  }
  await talk(seated)
  checked(`${seated.length} members have the same secrets and read each other`)
}

// joinsFromOutside: the admin's program does not run.
async function joinsFromOutside(members) {
  const before = admin.requests.length
  await enter(group, outsiders)
  await assert.rejects(outsiders[0].member.send('too early'), /no leaf/)
  await Promise.all([...outsiders.map((one) => one.member.join()), bob.member.send('Welcome!')])
  for (const one of outsiders) {
    const won = one.commits().filter(({ status }) => status === 201)
    assert.deepEqual(won.map(({ body }) => [body.added, body.removed, body.welcome]), [[[one.id], [], undefined]])
  }
  assert.equal(admin.requests.length, before)
  await outsiders[0].member.send('Here I am')
  await bob.member.sync()
  assert.equal(bob.events.at(-1).text, 'Here I am')
  checked('two pending members join by external commit while the admin is offline')
  await converge([...members, ...outsiders])
  await talk([...members, ...outsiders])
  checked(`the admin and the others follow, ${members.length + outsiders.length} read each other`)
}

// admits lets the admin add all that wait, with one commit.
async function admits(members, others) {
  await enter(group, others)
  await Promise.all(others.map((one) => one.member.uploadKeyPackages(1)))
  const before = admin.requests.length
  await admin.member.admit()
  assert.deepEqual(admin.commits(before).map(({ status, body }) => [status, body.added.length]), [[201, others.length]])
  await converge([...members, ...others])
  checked(`one Welcome admits ${others.length} more`)
}

// leaves: a member that is not an admin removes the leaf with the next message.
async function leaves(leaver, members) {
  const former = await leaver.session() // what it knew, which its client deletes
  const stays = await cay.session()
  await leaver.member.leave()
  assert.equal((await readGroup(bob)).mls_pending, true)
  const before = bob.requests.length
  await bob.member.send('without you')
  const asked = bob.requests.slice(before).filter(({ method }) => method === 'POST')
  assert.deepEqual(asked.map(({ status, json }) => json.code ?? status), ['mls_removal_pending', 201, 201])
  const [refused, commit, sent] = asked
  assert.deepEqual([refused.json.removed, commit.body.removed, commit.body.added], [[leaver.id], [leaver.id], []])
  assert.equal((await readGroup(bob)).mls_pending, false)
  checked('the leaf of a leaver is removed by the next sender, who is no admin')

  for (const session of [former, stays]) await session.apply(commit.body.commit)
  assert.ok(former.removed)
  await assert.rejects(former.decrypt(sent.body.encrypted_payload))
  assert.equal((await stays.decrypt(sent.body.encrypted_payload)).text, 'without you')
  checked('what the leaver knew does not decrypt the message; what another knew does')
  await converge(members.filter((one) => one !== leaver))
}

// kicks: an admin removes a member.
async function kicks(one, members) {
  const rest = members.filter((other) => other !== one)
  const former = await one.session()
  await admin.member.kick(one.id)
  await bob.member.send('only for those who stay')
  await one.as('GET', `/groups/${group}/mls/group-info`, undefined, 403)
  await former.apply(admin.commits().at(-1).body.commit)
  await assert.rejects(former.decrypt(bob.asked('POST', /^\/messages$/).at(-1).body.encrypted_payload))
  const before = one.events.length
  await one.member.sync()
  assert.deepEqual(one.events.slice(before), [{ kind: 'removed' }])
  await assert.rejects(one.member.send('I am still here'), { code: 'not_member' })
  await converge(rest)
  assert.equal(admin.events.at(-1).text, 'only for those who stay')
  checked('a removed member learns that it was removed, and reads nothing more')
  await enter(group, [one])
  await one.member.join()
}

// together holds the commits of some people until all of them have made one.
function together(...who) {
  let arrived, count = 0
  const all = new Promise((resolve) => { arrived = resolve })
  for (const one of who) {
    one.disturb = async ({ method, path }, send) => {
      if (method !== 'POST' || !path.endsWith('/mls/commits')) return send()
      one.disturb = undefined
      if (++count === who.length) arrived()
      await all
      return send()
    }
  }
}

// commitsAtOnce: the server accepts one; the other processes that and commits again.
async function commitsAtOnce(members) {
  for (let round = 0; round < (size > 10 ? 1 : 3); round++) {
    await converge(members)
    const epoch = admin.member.epoch
    const since = new Map([bob, cay].map((one) => [one, one.requests.length]))
    together(bob, cay)
    await Promise.all([bob.member.update(), cay.member.update()])
    const [won, lost] = [bob, cay].toSorted((a, b) => a.commits(since.get(a)).length - b.commits(since.get(b)).length)
    assert.deepEqual(won.commits(since.get(won)).map(({ status, body }) => [status, body.epoch]), [[201, epoch]])
    assert.deepEqual(lost.commits(since.get(lost)).map(({ status, body }) => [status, body.epoch]), [[409, epoch], [201, epoch + 1]])
    const [refused] = lost.commits(since.get(lost))
    assert.deepEqual([refused.json.code, refused.json.current_epoch], ['epoch_conflict', epoch + 1])
    const seen = lost.events.filter((event) => event.kind === 'commit' && event.epoch >= epoch).map(({ by }) => by)
    assert.deepEqual(seen, [won, lost].map((one) => one.handle.toLowerCase()))
    assert.equal(await converge(members), epoch + 2)
  }
  checked('of two commits at once one gets 409, processes the other, and commits again')
}

// sendsMeanwhile: a message is encrypted again if a commit came first.
async function sendsMeanwhile(members) {
  await converge(members)
  const [since, want] = [cay.events.length, []]
  let commits = size > 10 ? 5 : 20
  const committing = (async () => { while (commits-- > 0) await admin.member.update() })()
  const sending = (async () => {
    while (commits > 0) {
      want.push(crypto.randomUUID())
      await bob.member.send(want.at(-1))
    }
  })()
  while (commits > 0) await cay.member.sync()
  await Promise.all([committing, sending])
  await converge(members)
  assert.deepEqual(cay.events.slice(since).filter(({ kind }) => kind === 'message' || kind === 'unreadable').map(({ text, reason }) => text ?? reason), want)
  readable(members)
  assert.ok(want.length > 1)
  checked('messages that are sent while another member commits arrive once, in order, and readable')
}

// losing makes the answers to a person's requests on a path get lost, so many of them.
function losing(one, ending, times) {
  one.disturb = async ({ method, path }, send) => {
    const hit = method === 'POST' && path.endsWith(ending) && times-- > 0
    const answer = await send()
    if (hit) throw new TypeError('the judge lost the answer')
    return answer
  }
}

// losesAnswers: the same request again tells how the first one went.
async function losesAnswers(members) {
  const epoch = await converge(members)
  let since = bob.requests.length
  losing(bob, '/mls/commits', 2)
  await bob.member.update()
  const answers = bob.commits(since)
  assert.deepEqual(answers.map(({ status, json }) => [status, json]), [[201, { epoch: epoch + 1 }], [200, { epoch: epoch + 1 }], [200, { epoch: epoch + 1 }]])
  for (const { body } of answers) assert.deepEqual(body, answers[0].body)
  assert.equal(await converge(members), epoch + 1)
  checked('a winner that lost its answer repeats its commit and learns that it won')

  losing(bob, '/mls/commits', 1000)
  await assert.rejects(bob.member.update(), /lost the answer/)
  bob.disturb = undefined
  for (const one of [cay, admin]) await one.member.update()
  await cay.member.send('meanwhile')
  since = bob.requests.length
  await bob.open(group) // its program had ended
  await bob.member.sync()
  assert.deepEqual(bob.commits(since).map(({ status, json }) => [status, json]), [[200, { epoch: epoch + 2 }]])
  assert.equal(bob.member.epoch, epoch + 4)
  assert.equal(bob.events.at(-1).text, 'meanwhile')
  await converge(members)
  checked('it learns so after its program ended and two others have committed')

  losing(bob, '/messages', 2)
  await bob.member.send('once')
  bob.disturb = undefined
  await converge(members)
  for (const one of members) assert.equal(one.events.filter(({ text }) => text === 'once').length, one === bob ? 0 : 1, one.handle)
  checked('a message whose answers were lost arrives once')
}

// refuses: the controls.
async function refuses(members) {
  const epoch = await converge(members)
  await bob.member.update()
  const { body } = bob.commits().at(-1)
  await cay.as('POST', `/groups/${group}/mls/commits`, body, 409) // the very commit, but not by its committer
  const changed = (text, at) => {
    const bytes = Buffer.from(text, 'base64url')
    bytes[at] ^= 1
    return bytes.toString('base64url')
  }
  for (const [why, wrong, status] of [
    ['a stale epoch', { ...body, commit: changed(body.commit, 100) }, 409],
    ['another wire format', { ...body, commit: changed(body.commit, 3) }, 422],
    ['another group', { ...body, commit: changed(body.commit, 10) }, 422],
    ['another group of the GroupInfo', { ...body, group_info: changed(body.group_info, 12) }, 422],
  ]) {
    await bob.as('POST', `/groups/${group}/mls/commits`, wrong, status)
    checked(`the server refuses ${why}`)
  }
  let flipped = 0
  cay.disturb = async ({ path }, send) => {
    const answer = await send()
    if (!/\/mls\/commits\?/.test(path)) return answer
    const page = await answer.json()
    for (const item of page.items) item.commit = changed(item.commit, 100 + flipped++)
    return Response.json(page)
  }
  await assert.rejects(cay.member.sync())
  cay.disturb = undefined
  assert.deepEqual([flipped, cay.member.epoch], [1, epoch])
  assert.equal(await converge(members), epoch + 1)
  checked('a member refuses a commit with a wrong byte, and takes the right one')
}

const epochs = 100

// staysAway: everything waits for who was away, in order.
async function staysAway(away) {
  const begun = await converge(members)
  const since = admin.requests.length
  const sent = []
  for (let i = 0; i < epochs; i++) {
    const text = `in epoch ${begun + i}`
    await bob.member.send(text) // catches up first
    sent.push({ epoch: begun + i, from: bob.handle.toLowerCase(), text })
    await admin.member.update()
  }
  const times = admin.commits(since).map(({ status, ms }) => assert.equal(status, 201) ?? ms)
  assert.equal(times.length, epochs)
  const catchUps = []
  for (const one of away) {
    const [before, asked] = [one.events.length, one.requests.length]
    await one.open(group)
    await one.member.sync()
    const events = one.events.slice(before)
    assert.deepEqual(events.filter(({ kind }) => kind === 'message').map(({ epoch, from, text }) => ({ epoch, from, text })), sent)
    assert.deepEqual(events.filter(({ kind }) => kind === 'commit').map(({ epoch }) => epoch), sent.map(({ epoch }) => epoch))
    catchUps.push(one.requests.slice(asked))
  }
  assert.equal(await converge([admin, bob, ...away], members), begun + epochs)
  await talk([admin, bob, ...away])
  checked(`${away.length} who were away for ${epochs} epochs read everything that was sent in them`)
  const served = catchUps.map((requests) => requests.reduce((sum, { ms }) => sum + ms, 0))
  console.log(`# commit in a group of ${size}: median ${median(times).toFixed(1)} ms to the 201`)
  console.log(`# catch-up of ${epochs} epochs: ${catchUps[0].length} requests, ${median(served).toFixed(0)} ms of the server's answers`)
}

await turnsOn()
await joinsFromOutside(seated)
let members = [...seated, ...outsiders]
if (size > members.length) {
  const others = everybody.slice(seated.length, -outsiders.length)
  await admits(members, others)
  members = [...members, ...others]
}
const leavers = size < members.length ? outsiders : outsiders.slice(1)
for (const one of leavers) {
  await leaves(one, members)
  members = members.filter((other) => other !== one)
}
if (size > members.length) {
  await enter(group, leavers)
  for (const one of leavers) await one.member.join()
  members = [...members, ...leavers]
}
await kicks(members.at(-1), members)
await commitsAtOnce(members)
await sendsMeanwhile(members)
await losesAnswers(members)
await refuses(members)
await converge(members)
assert.equal(members.length, size)
await talk(members)
checked(`all ${size} have the same secrets and read each other`)
await staysAway(process.argv[4] === 'all' ? members.filter((one) => one !== admin && one !== bob) : [...new Set([cay, members.at(-1)])])
readable(members)

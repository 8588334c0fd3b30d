// Kills the server in the middle of admissions to an MLS group, again and again, while others
// send. Members with the client of examples/mls-ts go on, and must all come to the same state.
// Usage: node mlscrash.mjs <base url> <binary> <data directory> <journals>
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { base, checked } from './parley.mjs'
import { converge, enter, found, people, readable, readGroup, talk } from './mlsclient.mjs'

const [binary, data, journals] = process.argv.slice(3)
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PARLEY_')))
let server, listening, kills = 0

function start() {
  const flags = ['--dev', '--listen', new URL(base).host, '--admin-listen', '127.0.0.1:0', '--data', data, '--journals', journals]
  server = spawn(binary, ['serve', ...flags], { env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise((resolve) => server.once('exit', resolve))
  server.ended = ended
  listening = new Promise((resolve, reject) => {
    createInterface(server.stdout).on('line', (line) => { if (line.startsWith('parley: listening on ')) resolve() })
    ended.then((code) => reject(new Error(`the server ended with ${code}`)))
  })
  listening.catch(() => {}) // of a server that was killed
}

async function kill() {
  kills++
  server.kill('SIGKILL')
  await server.ended
  start()
}

process.on('exit', () => server?.kill('SIGKILL'))
start()
await listening

const isCommit = ({ method, path }) => method === 'POST' && path.endsWith('/mls/commits')
const isClaim = ({ path }) => path.endsWith('/mls/key-packages/claim')
const isAcknowledgment = ({ method, path }) => method === 'DELETE' && path.includes('/mls/welcomes/')

// waits makes a person's requests wait until the server listens.
const waits = (one) => { one.disturb = async (_, send) => { await listening; return send() } }

// crash kills the server at the n-th request of a kind by a person, once: before it is sent,
// so many milliseconds after, or at its answer, which gets lost. It resolves when that happened.
const crash = (one, kind, at, n = 1) => new Promise((happened) => {
  const gone = async () => {
    await kill()
    happened(true)
    throw new TypeError('the server was gone')
  }
  one.disturb = async (request, send) => {
    await listening
    if (!kind(request) || --n !== 0) return send()
    if (at === 'before') return gone()
    const answer = send()
    if (at === 'answer') return answer.then(gone)
    await Promise.allSettled([answer, sleep(at).then(kill)])
    happened(true)
    return answer
  }
})

const rounds = [
  ['at the answer to a claim', (admin) => crash(admin, isClaim, 'answer', 2)],
  ['before the commit', (admin) => crash(admin, isCommit, 'before')],
  ['as the commit is sent', (admin) => crash(admin, isCommit, 0)],
  ['1 ms after the commit was sent', (admin) => crash(admin, isCommit, 1)],
  ['2 ms after the commit was sent', (admin) => crash(admin, isCommit, 2)],
  ['at the answer to the commit', (admin) => crash(admin, isCommit, 'answer')],
  ['at the answer to a newcomer that has joined', (_, [newcomer]) => crash(newcomer, isAcknowledgment, 'answer')],
  ['at the answer to the commit, and of the admin', (admin) => crash(admin, isCommit, 'answer'), 'the admin too'],
]

const first = await people(3 + 2 * rounds.length)
let members = first.splice(0, 3)
const [admin, bob, cay] = members
const group = await found(members)
for (const one of [...members, ...first]) waits(one)
for (const one of members) await one.member.uploadKeyPackages(1)
await admin.member.turnOn()
await converge(members)

// sends sends until the signal, whatever happens to the server, and returns what it sent.
async function sends(one, signal) {
  const texts = []
  while (!signal.aborted) {
    texts.push(crypto.randomUUID())
    await one.member.send(texts.at(-1))
    await sleep(5)
  }
  return texts
}

// admitted admits newcomers, with a new program of the admin if the former ends at the crash.
async function admitted(newcomers, crashed) {
  const before = admin.events.length
  const admission = admin.member.admit()
  if (crashed) {
    await crashed
    waits(admin)
    await admin.open(group)
    await admin.member.sync()
  } else {
    await admission
  }
  for (const one of newcomers) await one.member.join()
  await admin.member.sync()
  const added = admin.events.slice(before).flatMap((event) => event.added ?? [])
  assert.deepEqual(added.sort(), newcomers.map((one) => one.handle.toLowerCase()).sort())
}

for (const [when, arm, adminToo] of rounds) {
  const newcomers = first.splice(0, 2)
  await enter(group, newcomers)
  for (const one of newcomers) await one.member.uploadKeyPackages(2)
  const crashed = arm(admin, newcomers)
  const stop = new AbortController()
  const sending = [bob, cay].map((one) => sends(one, stop.signal))
  await admitted(newcomers, adminToo && crashed).finally(() => stop.abort())
  const [bobs, cays] = await Promise.all(sending)
  assert.ok(await Promise.race([crashed, sleep(0)]), 'the crash did not happen')
  for (const one of [admin, ...newcomers]) waits(one)
  members = [...members, ...newcomers]
  await converge(members)
  for (const [one, want] of [[admin, [...bobs, ...cays]], [bob, cays], [cay, bobs]]) {
    const got = one.events.map(({ text }) => text).filter((text) => want.includes(text))
    assert.deepEqual(got.sort(), want.sort(), `what ${one.name} got of ${want.length} messages`)
  }
  await talk(members)
  assert.equal((await readGroup(admin)).mls_pending, false)
  checked(`kill -9 ${when}: ${members.length} members have the same secrets and read each other; ${bobs.length + cays.length} messages sent meanwhile arrived once`)
}

readable(members)
const commits = (await admin.api.commits(group, 0)).items
assert.deepEqual(commits.map(({ epoch }) => epoch), commits.map((_, i) => i))
assert.equal(commits.length, members[0].member.epoch)
assert.equal(kills, rounds.length)
const answers = admin.commits().map(({ status }) => status) // nobody else commits
assert.ok(answers.every((status) => status === 201 || status === 200), `answers to the admin's commits: ${answers}`)
assert.ok(answers.filter((status) => status === 200).length >= 2, 'a commit whose answer was lost was not repeated')
server.kill('SIGTERM')
assert.equal(await server.ended, 0)
checked(`${commits.length} commits, one for each epoch, after ${kills} kills`)

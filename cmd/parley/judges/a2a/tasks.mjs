// Calls an agent that answers as `parley a2a echo` with the client of a version of
// @a2a-js/sdk: every method, a stream that resumes after a lost connection, and errors. It prints the
// token of the caller for the other client.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { base, call, checked, createAgent, register } from '../parley.mjs'

const [, , , handle, sdk] = process.argv
const { CancelTaskRequest, GetExtendedAgentCardRequest, GetTaskRequest, ListTasksRequest, SendMessageRequest, StreamResponse, SubscribeToTaskRequest, Task } = await import(sdk)
const { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, createAuthenticatingFetchWithRetry } = await import(`${sdk}/client`)

// clientOf returns a client that authenticates as an organization. It remembers the SSE ids
// that it has read and, if cut is set, loses the connection after so many events.
async function clientOf(org) {
  const state = { cut: Infinity, lastID: '' }
  const cutting = async (input, init) => {
    const response = await fetch(input, init)
    if (!response.headers.get('Content-Type')?.startsWith('text/event-stream')) return response
    let events = 0
    const decoder = new TextDecoder()
    let text = ''
    const passing = new TransformStream({
      transform(chunk, out) {
        text += decoder.decode(chunk, { stream: true })
        for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
          const block = text.slice(0, end + 2)
          const id = /^id: (.*)$/m.exec(block)
          if (id) [state.lastID, events] = [id[1], events + 1]
          out.enqueue(new TextEncoder().encode(block))
          if (events === state.cut) return out.terminate()
        }
      },
    })
    return new Response(response.body.pipeThrough(passing), response)
  }
  const fetchImpl = createAuthenticatingFetchWithRetry(cutting, {
    headers: async () => ({ Authorization: `Bearer ${org.token}` }),
    shouldRetryWithHeaders: async () => undefined,
  })
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports: [new JsonRpcTransportFactory({ fetchImpl })] }))
  return { client: await factory.createFromUrl(`${base}/a2a/${handle}/agent.json`, ''), state }
}
const org = await register()
await createAgent(org, 'caller')
const { client, state } = await clientOf(org)

const message = (text, more = {}) => ({ messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more })
const request = (text, more, configuration = {}) => SendMessageRequest.fromJSON({ tenant: 'ignored', message: message(text, more), configuration })
const send = async (...args) => Task.toJSON(await client.sendMessage(request(...args)))
const get = async (id, more = {}) => Task.toJSON(await client.getTask(GetTaskRequest.fromJSON({ id, ...more })))
const textOf = (object) => object.parts.map(({ text }) => text).join()
async function collect(stream) {
  const events = []
  let lost
  try { for await (const event of stream) events.push(StreamResponse.toJSON(event)) } catch (error) { lost = error }
  return { events, lost }
}
const summary = (event) => event.task ? ['task', event.task.status.state]
  : event.artifactUpdate ? ['artifact', textOf(event.artifactUpdate.artifact)]
  : [event.statusUpdate.status.state, event.statusUpdate.status.message ? textOf(event.statusUpdate.status.message) : '']
const rejects = (promise, reason) => assert.rejects(promise, (error) => {
  assert.match(JSON.stringify([error.name, error.message, error.errorInfo, error.data, error.cause, error.errorResponse]), reason)
  return true
})

const parts = [{ text: 'Grüß Gott 🧾' }, { data: { a: [1, null, 'x'] }, mediaType: 'application/json' }, { raw: 'AAEC', filename: 'a.bin', mediaType: 'application/octet-stream' }, { url: 'https://files.example/a' }]
const echoed = await send('', { parts })
assert.equal(echoed.status.state, 'TASK_STATE_COMPLETED')
assert.deepEqual(echoed.artifacts.map((artifact) => artifact.parts), [parts])
assert.ok(echoed.contextId && echoed.status.timestamp)
assert.equal(textOf((await send('fail: no paper')).status.message), 'no paper')
assert.equal((await send('reject: no')).status.state, 'TASK_STATE_REJECTED')
assert.equal((await send('message: on it')).history.at(-1).role, 'ROLE_AGENT')
checked('SendMessage waits for the result, a failure, a rejection and a reply')

const asked = await send('input: Which language?')
assert.deepEqual([asked.status.state, textOf(asked.status.message)], ['TASK_STATE_INPUT_REQUIRED', 'Which language?'])
const continued = await send('French', { taskId: asked.id, contextId: asked.contextId })
assert.deepEqual([continued.id, continued.status.state, continued.history.length], [asked.id, 'TASK_STATE_COMPLETED', 2])
const sibling = await send('again', { contextId: asked.contextId })
assert.notEqual(sibling.id, asked.id)
assert.equal(sibling.contextId, asked.contextId)
checked('a task that needs input is continued, and a context gets another task')

const slow = await send('wait:120', {}, { returnImmediately: true })
assert.equal(slow.status.state, 'TASK_STATE_SUBMITTED')
const same = { messageId: 'the-same-message' }
assert.equal((await send('once', same)).id, (await send('once', same)).id)
assert.equal((await get(continued.id, { historyLength: 1 })).history.length, 1)
assert.deepEqual((await get(continued.id, { historyLength: 0 })).history ?? [], [])
assert.equal((await get(continued.id)).history.length, 2)
// The stream has begun before the task ends: one of an ended task is refused.
const stream = client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id: slow.id }))
assert.equal(StreamResponse.toJSON((await stream.next()).value).task.id, slow.id)
const following = collect(stream)
const canceled = Task.toJSON(await client.cancelTask(CancelTaskRequest.fromJSON({ id: slow.id })))
assert.equal(canceled.status.state, 'TASK_STATE_CANCELED')
const { events: seen, lost: fault } = await following
assert.equal(fault, undefined)
assert.equal(seen.at(-1).statusUpdate?.status.state ?? seen.at(-1).task.status.state, 'TASK_STATE_CANCELED')
checked('returnImmediately, the same message, GetTask with and without history, CancelTask')

const spoken = 'one two three four'
const want = [['task', 'TASK_STATE_SUBMITTED'], ['TASK_STATE_WORKING', ''], ...spoken.split(' ').map((word) => ['TASK_STATE_WORKING', word]), ['artifact', spoken], ['TASK_STATE_COMPLETED', '']]
const whole = await collect(client.sendMessageStream(request(`stream: ${spoken}`)))
assert.deepEqual([whole.lost, whole.events.map(summary)], [undefined, want])
const half = await collect(client.sendMessageStream(request('input: who?')))
assert.deepEqual([half.lost, half.events.map(summary).at(-1)], [undefined, ['TASK_STATE_INPUT_REQUIRED', '']])
checked('SendStreamingMessage: every event in order, to the end or until input is required')

for (let cut = 1; cut < want.length; cut++) {
  state.cut = cut
  const begun = await collect(client.sendMessageStream(request(`stream: ${spoken}`)))
  assert.equal(begun.events.length, cut)
  state.cut = Infinity
  const id = begun.events[0].task.id
  const rest = await collect(client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id }), { serviceParameters: { 'Last-Event-ID': state.lastID } }))
  assert.deepEqual([...begun.events.map(summary), ...rest.events.slice(1).map(summary)], want)
  assert.equal(rest.events[0].task.id, id)
}
checked('SubscribeToTask after a connection was lost at each event misses none, also of a task that has ended')

const tasks = []
for (let pageToken = ''; ;) {
  const page = await client.listTasks(ListTasksRequest.fromJSON({ pageSize: 4, pageToken }))
  tasks.push(...page.tasks.map((task) => Task.toJSON(task)))
  if (!(pageToken = page.nextPageToken)) { assert.equal(page.totalSize, tasks.length); break }
}
assert.equal(new Set(tasks.map(({ id }) => id)).size, tasks.length)
for (const { id } of [echoed, continued, sibling, slow]) assert.ok(tasks.some((task) => task.id === id))
const ended = await client.listTasks(ListTasksRequest.fromJSON({ status: 'TASK_STATE_CANCELED', includeArtifacts: true }))
assert.deepEqual(ended.tasks.map(({ id }) => id), [slow.id])
const context = await client.listTasks(ListTasksRequest.fromJSON({ contextId: asked.contextId }))
assert.deepEqual(context.tasks.map(({ id }) => id).sort(), [asked.id, sibling.id].sort())
checked('ListTasks by pages, by state and by context')

const extended = await client.transport.getExtendedAgentCard(GetExtendedAgentCardRequest.fromJSON({}))
assert.equal(extended.supportedInterfaces[0].url, `${base}/a2a/${handle}`)
checked('GetExtendedAgentCard')

await rejects(client.getTask(GetTaskRequest.fromJSON({ id: 'unknown' })), /TASK_NOT_FOUND|TaskNotFound/i)
await rejects(client.cancelTask(CancelTaskRequest.fromJSON({ id: echoed.id })), /NOT_CANCELABLE|NotCancelable/i)
await rejects(client.sendMessage(request('more', { taskId: echoed.id })), /UNSUPPORTED_OPERATION|UnsupportedOperation/i)
await rejects(client.sendMessage(request('x', { contextId: 'mine' })), /contextId/)
for (const stream of [client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id: echoed.id })), client.sendMessageStream(request('more', { taskId: echoed.id }))]) {
  await rejects(collect(stream).then(({ lost }) => { throw lost }), /UNSUPPORTED_OPERATION|UnsupportedOperation/i)
}
const stranger = await register()
await createAgent(stranger, 'stranger')
const other = (await clientOf(stranger)).client
await rejects(other.getTask(GetTaskRequest.fromJSON({ id: echoed.id })), /TASK_NOT_FOUND|TaskNotFound/i)
await rejects(other.cancelTask(CancelTaskRequest.fromJSON({ id: slow.id })), /TASK_NOT_FOUND|TaskNotFound/i)
await rejects((await clientOf({ token: 'wrong' })).client.getTask(GetTaskRequest.fromJSON({ id: echoed.id })), /401|not_authenticated|token/i)
assert.equal((await call('POST', `/a2a/${handle}`, { body: { jsonrpc: '2.0', id: 1, method: 'GetTask' }, expect: 401 })).json.error.code, -32000)
checked('errors become the errors of the SDK; a task of another organization is not found')

console.log(`token ${org.token}`)

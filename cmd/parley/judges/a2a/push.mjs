// Has the events of tasks posted to a local server, with the client of a version of
// @a2a-js/sdk: the four methods of push notification configurations, one that comes with a
// message, and each notification as the SDK reads it. The agent answers as `parley a2a echo`.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import http from 'node:http'
import { base, checked, createAgent, register } from '../parley.mjs'

const [, , , handle, sdk] = process.argv
const {
  DeleteTaskPushNotificationConfigRequest, GetTaskPushNotificationConfigRequest, ListTaskPushNotificationConfigsRequest, SendMessageRequest, StreamResponse, Task, TaskPushNotificationConfig,
} = await import(sdk)
const { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, createAuthenticatingFetchWithRetry } = await import(`${sdk}/client`)

async function clientOf(org) {
  const fetchImpl = createAuthenticatingFetchWithRetry(fetch, { headers: async () => ({ Authorization: `Bearer ${org.token}` }), shouldRetryWithHeaders: async () => undefined })
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports: [new JsonRpcTransportFactory({ fetchImpl })] }))
  return factory.createFromUrl(`${base}/a2a/${handle}/agent.json`, '')
}
const org = await register()
await createAgent(org, 'caller')
const client = await clientOf(org)

// posted has the notifications that came to each path, in their order.
const posted = new Map()
const sink = http.createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const all = posted.get(request.url) ?? []
    posted.set(request.url, [...all, { method: request.method, headers: request.headers, body: JSON.parse(Buffer.concat(chunks)) }])
    response.writeHead(200).end()
  })
})
await new Promise((done) => sink.listen(0, '127.0.0.1', done))
const url = (path) => `http://127.0.0.1:${sink.address().port}${path}`

// notified returns what came to a path, once the task has ended.
async function notified(path) {
  for (const deadline = Date.now() + 30_000; ; await new Promise((done) => setTimeout(done, 20))) {
    const all = posted.get(path) ?? []
    if (all.at(-1)?.body.statusUpdate?.status.state === 'TASK_STATE_COMPLETED') return all
    assert.ok(Date.now() < deadline, `${all.length} notifications came to ${path}: ${JSON.stringify(all.map(({ body }) => body))}`)
  }
}
// events returns the events of notifications as the SDK reads them.
const events = (all) => all.map(({ body }) => {
  assert.equal(Object.keys(body).length, 1)
  const event = StreamResponse.fromJSON(body)
  assert.ok(event.payload, `the SDK reads no event in ${JSON.stringify(body)}`)
  return StreamResponse.toJSON(event)
})
const request = (text, more = {}, configuration = {}) => SendMessageRequest.fromJSON({ message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more }, configuration })
const send = async (...args) => Task.toJSON(await client.sendMessage(request(...args)))
const create = async (config) => TaskPushNotificationConfig.toJSON(await client.createTaskPushNotificationConfig(TaskPushNotificationConfig.fromJSON(config)))
const read = async (taskId, id) => TaskPushNotificationConfig.toJSON(await client.getTaskPushNotificationConfig(GetTaskPushNotificationConfigRequest.fromJSON({ taskId, id })))
const list = async (taskId) => (await client.listTaskPushNotificationConfig(ListTaskPushNotificationConfigsRequest.fromJSON({ taskId }))).configs.map((config) => TaskPushNotificationConfig.toJSON(config))
const remove = (taskId, id) => client.deleteTaskPushNotificationConfig(DeleteTaskPushNotificationConfigRequest.fromJSON({ taskId, id }))
const rejects = (promise, reason) => assert.rejects(promise, (error) => {
  assert.match(JSON.stringify([error.name, error.message, error.errorInfo, error.data, error.cause, error.errorResponse]), reason)
  return true
})

const { id: taskId } = await send('input: which?')
const secret = { scheme: 'Bearer', credentials: 'a-credential' }
const mine = { id: 'mine', taskId, url: url('/mine'), token: 'a-token', authentication: secret }
assert.deepEqual(await create({ ...mine, url: url('/former') }), { ...mine, url: url('/former') })
assert.deepEqual(await create(mine), mine)
assert.deepEqual(await read(taskId, 'mine'), mine)
const plain = await create({ taskId, url: url('/plain') })
assert.ok(plain.id)
const dropped = await create({ id: 'dropped', taskId, url: url('/dropped') })
assert.deepEqual((await list(taskId)).map(({ id }) => id).sort(), [mine.id, plain.id, dropped.id].sort())
await remove(taskId, 'dropped')
await remove(taskId, 'dropped')
await rejects(read(taskId, 'dropped'), /TASK_NOT_FOUND|TaskNotFound/i)
assert.deepEqual((await list(taskId)).find(({ id }) => id === 'mine'), mine)
checked('CreateTaskPushNotificationConfig keeps an id and replaces, Get, List and Delete')

const streamed = []
for await (const event of client.sendMessageStream(request('stream: one two', { taskId }))) streamed.push(StreamResponse.toJSON(event))
const all = await notified('/mine')
for (const { method, headers } of all) {
  assert.equal(method, 'POST')
  assert.equal(headers['content-type'], 'application/a2a+json')
  assert.equal(headers.authorization, 'Bearer a-credential')
  assert.equal(headers['x-a2a-notification-token'], 'a-token')
  assert.equal(headers['a2a-notification-token'], 'a-token')
}
// The stream begins with the task after it was opened again, which is an event for others.
assert.equal(all[0].body.statusUpdate.status.state, 'TASK_STATE_WORKING')
assert.deepEqual(events(all).slice(1), streamed.slice(1))
const others = await notified('/plain')
assert.deepEqual(others.map(({ body }) => body), all.map(({ body }) => body))
for (const { headers } of others) {
  for (const name of ['authorization', 'x-a2a-notification-token', 'a2a-notification-token']) assert.equal(headers[name], undefined)
}
assert.deepEqual([posted.get('/former'), posted.get('/dropped')], [undefined, undefined])
checked('each event of the stream is posted in its order, with the credentials and the token, as the SDK reads it')

const quick = await send('Good morning.', {}, { taskPushNotificationConfig: { ...mine, taskId: undefined, id: undefined, url: url('/inline') } })
const inline = await notified('/inline')
assert.ok(events(inline).some((event) => event.artifactUpdate?.artifact.parts[0].text === 'Good morning.'))
for (const { body, headers } of inline) {
  assert.equal((body.statusUpdate ?? body.artifactUpdate).taskId, quick.id)
  assert.equal(headers.authorization, 'Bearer a-credential')
}
assert.equal((await list(quick.id)).length, 1)
checked('a configuration that comes with a message')

await rejects(create({ taskId, url: 'http://10.0.0.1/' }), /"field":"url"|url: /)
await rejects(create({ taskId: 'unknown', url: url('/mine') }), /TASK_NOT_FOUND|TaskNotFound/i)
const stranger = await register()
await createAgent(stranger, 'stranger')
const other = await clientOf(stranger)
await rejects(other.getTaskPushNotificationConfig(GetTaskPushNotificationConfigRequest.fromJSON({ taskId, id: 'mine' })), /TASK_NOT_FOUND|TaskNotFound/i)
checked('blocked targets, unknown tasks and strangers are refused')
sink.closeAllConnections()
sink.close()

// Calls a server with what openapi-typescript, orval and @hey-api/openapi-ts generate from its
// OpenAPI document. The types of every generated file are checked before.
import createClient from 'openapi-fetch'
import { client } from './hey/client.gen'
import * as hey from './hey'
import * as orval from './orval'
import type { paths } from './schema'

declare const process: { argv: string[] }

const [, , base, token, id] = process.argv
const headers = { Authorization: `Bearer ${token}` }
const unknown = '00000000-0000-7000-8000-000000000000'
const request = { jsonrpc: '2.0' as const, id: 1, method: 'GetTask' }

function check(holds: boolean, what: string, answer: unknown) {
  if (!holds) throw new Error(`${what}: ${JSON.stringify(answer)}`)
}

async function openapiTypescript() {
  const api = createClient<paths>({ baseUrl: base, headers })
  const agent = await api.GET('/agents/{id}', { params: { path: { id } } })
  check(agent.data?.id === id && agent.data.name === 'generated', 'GET /agents/{id}', agent.error)
  const none = await api.GET('/agents/{id}', { params: { path: { id: unknown } } })
  check(none.response.status === 404 && none.error !== undefined && 'code' in none.error && none.error.code === 'not_found', 'an unknown agent', none.error)
  const refused = await api.POST('/a2a/{handle}', { params: { path: { handle: 'nobody' } }, body: request })
  check(refused.error !== undefined && 'jsonrpc' in refused.error && refused.error.error.data?.[0]?.reason === 'NOT_FOUND', 'an unknown handle', refused.error)
  console.log('ok - openapi-typescript, with openapi-fetch: types fit an agent and the refusals of both shapes')
}

async function heyAPI() {
  client.setConfig({ baseUrl: base, auth: token })
  const agent = await hey.getAgent({ path: { id } })
  check(agent.data?.id === id && agent.data.name === 'generated', 'getAgent', agent.error)
  const refused = await hey.callA2A({ path: { handle: 'nobody' }, body: request })
  check(refused.error !== undefined && 'jsonrpc' in refused.error && refused.error.id === null, 'callA2A', refused.error)
  console.log('ok - @hey-api/openapi-ts: the client reads an agent and a refusal of the A2A bridge')
}

async function orvalFetch() {
  const agent = await orval.getAgent(id, { headers })
  check(agent.status === 200 && agent.data.id === id && agent.data.name === 'generated', 'getAgent', agent.data)
  const refused = await orval.callA2A('nobody', request, undefined, { headers })
  check(refused.status === 404 && refused.data.error.code === -32000, 'callA2A', refused.data)
  console.log('ok - orval: the client reads an agent and a refusal of the A2A bridge')
}

openapiTypescript().then(heyAPI).then(orvalFetch)

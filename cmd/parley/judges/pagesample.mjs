// Publishes the sample cards of page-cards.json: three organizations, a hostile card, cards
// that nobody may see, and two groups.
import { readFileSync } from 'node:fs'
import { call, createAgent, register } from './parley.mjs'

// hidden is in cards and groups that no page may show.
export const hidden = 'zq7hiddenzq7'

// hostile is a card of a stranger who attacks the pages.
export const hostile = {
  name: '<script>steal()</script>',
  description: `"><img src=x onerror=steal()> </script><script>steal()</script> \u202egnp.exe \u0007{{.BaseURL}} javascript:steal()`,
  version: '<b>1</b>',
  provider: { organization: '<i onmouseover=steal()>Mallory</i>', url: 'https://mallory.example/"><script>steal()</script>' },
  skills: [{ id: '<s>', name: '<svg onload=steal()>', description: '<iframe src=javascript:steal()>', tags: ['"onfocus=steal() x="'], examples: ['<math><script>steal()</script>'] }],
  svc: {
    categories: ['"><script>steal()</script>'], languages: ['en'], message_types_accepted: ['mallory.v1.x'],
    payload_schemas: { 'mallory.v1.x': 'javascript:steal()', 'mallory.v1.y': 'data:text/html,<script>steal()</script>' },
  },
  is_public: true,
}

export async function publishSample() {
  const orgs = {}
  const agents = {}
  const publish = async (org, name, card) => {
    orgs[org] ??= await register(org)
    agents[name] = await createAgent(orgs[org], name)
    await call('PUT', `/agents/${agents[name].id}/card`, { token: orgs[org].token, body: card })
    return agents[name]
  }
  for (const { org, agent, card } of JSON.parse(readFileSync(new URL('page-cards.json', import.meta.url)))) await publish(org, agent, card)
  await publish('mallory', 'mallory', hostile)
  const secret = { name: `Secret ${hidden}`, description: hidden, svc: { categories: [hidden] } }
  await publish('mallory', 'closed', { ...secret, is_public: false })
  const unlisted = await publish('mallory', 'unlisted', { ...secret, is_public: true })
  await call('PATCH', `/agents/${unlisted.id}`, { token: orgs.mallory.token, body: { unlisted: true } })
  const revoked = await publish('mallory', 'revoked', { ...secret, is_public: true })
  await call('DELETE', `/agents/${revoked.id}`, { token: orgs.mallory.token, expect: 204 })
  const group = (org, agent, body) => call('POST', '/groups', { token: orgs[org].token, headers: { 'X-Svc-Agent': agents[agent].id }, body })
  await group('globex', 'freight', { name: 'ports', enrollment_policy: 'open', description: 'Delays at the ports of the North Sea, as they are known.' })
  await group('acme', 'invoices', { name: 'bookkeepers', enrollment_policy: 'majority', visibility: 'public', description: 'Questions about tax and closing of the books.' })
  await group('mallory', 'mallory', { name: 'secret', enrollment_policy: 'closed', visibility: 'private', description: hidden })
  return { orgs, agents }
}

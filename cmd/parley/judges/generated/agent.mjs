// Registers an organization with one agent, and prints the token and the agent's id.
import { createAgent, register } from '../parley.mjs'

const org = await register()
const agent = await createAgent(org, 'generated')
console.log(JSON.stringify({ token: org.token, id: agent.id }))

// orval takes the base URL when it generates.
import { readFileSync } from 'node:fs'

const output = { target: './orval.ts', client: 'fetch', mode: 'single', baseUrl: readFileSync('base.txt', 'utf8') }
export default { parley: { input: { target: './openapi.json' }, output } }

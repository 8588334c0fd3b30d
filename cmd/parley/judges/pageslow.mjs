// With a slow provider of vectors, what words find is shown at once, and what meaning finds
// follows. A search that is replaced by another one shows nothing any more.
import assert from 'node:assert/strict'
import { chromium } from 'playwright-core'
import { base, call, checked } from './parley.mjs'
import { publishSample } from './pagesample.mjs'

// The provider (argument 4) holds each answer about "slowly" until it is told to release one.
const release = () => fetch(`${process.argv[4]}/release`, { method: 'POST' })

await publishSample()
for (let modes = []; !modes.includes('semantic');) {
  const { items, search_mode: now } = (await call('GET', '/directory/agents?semantic=money')).json
  if (items.length > 1) modes = now
}
const browser = await chromium.launch({ executablePath: process.argv[3], args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] })
const page = await browser.newPage()
page.setDefaultTimeout(20_000)
await page.goto(base)
const box = page.getByRole('searchbox')
const status = page.getByRole('status')
await box.fill('invoice slowly')
await page.getByText('found by words. Looking by meaning…').waitFor()
assert.deepEqual(await page.locator('#results h3').allTextContents(), ['Invoice checker'])
assert.equal(await page.getByRole('heading', { name: 'Found by meaning' }).count(), 0)
await release()
await page.getByRole('heading', { name: 'Found by meaning' }).waitFor()
assert.deepEqual(await page.locator('.live').nth(1).locator('h3').allTextContents(), ['Payroll clerk'])
assert.equal(await status.textContent(), '1 agent found by words, 1 more by meaning.')
checked('words are shown before the provider of vectors has answered, and the rest is added')

await box.fill('lorries slowly')
await page.getByText('found by words. Looking by meaning…').waitFor()
await box.fill('travel')
await page.getByRole('link', { name: 'Travel desk' }).waitFor()
await release()
await page.waitForTimeout(1000)
assert.equal(await page.getByRole('link', { name: 'Freight planner' }).count(), 0)
checked('a search that was replaced adds nothing')
await browser.close()

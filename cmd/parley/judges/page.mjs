// Reads the pages for people as a visitor does, in a real browser: with the mouse, with the
// keyboard alone, without JavaScript, on a narrow screen, light and dark; and as a screen
// reader does, by the accessibility tree. Screenshots go to the directory of the third
// argument. axe-core judges contrast, names and landmarks.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import axe from 'axe-core'
import { chromium } from 'playwright-core'
import { base, call, checked } from './parley.mjs'
import { hidden, publishSample } from './pagesample.mjs'

const [, , , artifacts, browserPath] = process.argv
const treeFile = new URL('page-tree.txt', import.meta.url)
mkdirSync(artifacts, { recursive: true })

const { orgs, agents } = await publishSample()
for (let found = 0; found !== 12;) found = (await call('GET', '/directory/agents')).json.total

const browser = await chromium.launch({
  executablePath: browserPath,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
})
const wide = { width: 1100, height: 900 }
const narrow = { width: 320, height: 700 }
const faults = []

// visitor opens a window of its own. Whatever goes wrong in it is a fault: requests to other
// origins, errors of scripts, violations of the policy, and scripts of strangers.
async function visitor(options = {}) {
  const context = await browser.newContext({ viewport: wide, ...options })
  await context.addInitScript(() => { window.steal = () => { document.documentElement.dataset.stolen = 'yes' } })
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  page.on('request', (request) => { if (new URL(request.url()).origin !== base) faults.push(`a request to ${request.url()}`) })
  page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`))
  page.on('dialog', (dialog) => { faults.push(`${page.url()}: a dialog`); return dialog.dismiss() })
  page.on('console', (message) => {
    if (message.type() === 'error' && !/status of (404|422)/.test(message.text())) faults.push(`${page.url()}: ${message.text()}`)
  })
  return page
}

async function sound(page) {
  assert.equal(await page.evaluate(() => document.documentElement.dataset.stolen ?? 'no'), 'no', `a script of a card ran on ${page.url()}`)
  assert.ok(!(await page.content()).includes(hidden), `${page.url()} shows what nobody may see`)
  assert.deepEqual(faults, [])
}

async function accessible(page, where) {
  await page.evaluate(axe.source)
  const { violations, passes } = await page.evaluate(() => window.axe.run())
  assert.ok(passes.length > 15, 'axe-core checked next to nothing')
  assert.deepEqual(violations.map((v) => `${where}: ${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`), [])
}

const paths = {
  start: '/', agents: '/find/agents', found: '/find/agents?q=contracts+in+french&category=legal', agent: '/a/invoices@acme.localhost', hostile: '/a/mallory@mallory.localhost',
  groups: '/find/groups', group: '/g/bookkeepers@acme.localhost', unknown: '/a/nobody@acme.localhost',
}

// Every page, in every appearance.
const looks = { light: { colorScheme: 'light' }, dark: { colorScheme: 'dark' }, narrow: { colorScheme: 'light', viewport: narrow } }
for (const [look, options] of Object.entries(looks)) {
  const page = await visitor(options)
  for (const [name, path] of Object.entries(paths)) {
    await page.goto(base + path)
    if (path.startsWith('/find/agents')) await page.locator('summary').click()
    await page.screenshot({ path: `${artifacts}/${name}-${look}.png`, fullPage: true })
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    assert.ok(over <= 0, `${path} is ${over} pixels too wide (${look})`)
    await accessible(page, `${path} (${look})`)
    await sound(page)
  }
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number))
  assert.equal(look === 'dark', background[0] < 100, `the background is ${background} (${look})`)
  await page.context().close()
}
checked(`axe-core ${axe.version} finds no fault on ${Object.keys(paths).length} pages, light, dark and narrow; none is too wide, none loads anything from elsewhere`)

{ // Control: axe-core and the watch over scripts notice a page that is broken on purpose.
  const page = await visitor()
  await page.goto(base)
  await page.evaluate(() => {
    document.querySelector('label').remove()
    document.querySelector('input').removeAttribute('placeholder')
    document.querySelector('.lead').style.color = '#ccc'
    window.steal()
  })
  await page.evaluate(axe.source)
  const { violations } = await page.evaluate(() => window.axe.run())
  assert.deepEqual(violations.map((v) => v.id).filter((id) => id === 'color-contrast' || id === 'label').sort(), ['color-contrast', 'label'])
  await assert.rejects(sound(page))
  await page.context().close()
  checked('a page without a label, with pale text, or with a script that ran is noticed')
}

{ // The search while typing.
  const page = await visitor()
  await page.goto(base)
  const said = await page.evaluateHandle(() => {
    const texts = []
    new MutationObserver(() => texts.push(document.getElementById('status').textContent)).observe(document.getElementById('status'), { childList: true, characterData: true, subtree: true })
    return texts
  })
  await page.getByRole('searchbox').pressSequentially('contracts in french', { delay: 15 })
  const words = page.locator('.live', { has: page.getByRole('heading', { name: 'Found by words', exact: true }) })
  const meaning = page.locator('.live', { has: page.getByRole('heading', { name: 'Found by meaning', exact: true }) })
  await meaning.waitFor()
  assert.ok((await words.getByRole('heading', { level: 3 }).allTextContents()).includes('Contract translator'))
  const statuses = await said.jsonValue()
  assert.match(statuses[0], /^\d+ agents? found by words\. Looking by meaning…$/)
  assert.match(statuses.at(-1), /^\d+ agents? found by words, (\d+|none) more by meaning\.$/)
  await page.screenshot({ path: `${artifacts}/live-light.png`, fullPage: true })
  await accessible(page, 'results while typing')

  // Words that no card has, but whose meaning one has.
  await page.getByRole('searchbox').fill('moving cargo abroad')
  await page.locator('.live').nth(1).getByRole('link', { name: 'Freight planner' }).or(page.locator('.live').first().getByRole('link', { name: 'Freight planner' })).first().waitFor()
  await page.getByRole('searchbox').fill('steal')
  await page.getByRole('link', { name: '<script>steal()</script>' }).first().waitFor()
  const shown = await page.locator('#results').textContent()
  assert.ok(!/[\u202e\u0007]/.test(shown), 'a live result has characters that change what follows')
  await sound(page)
  await page.getByRole('searchbox').fill('')
  await page.getByRole('heading', { name: 'Newest agents' }).waitFor()
  await page.getByRole('searchbox').fill('invoice')
  await page.getByRole('searchbox').press('Enter')
  await page.waitForURL('**/find/agents?q=invoice')
  assert.match(await page.locator('#results').textContent(), /found by words and by meaning/)
  await sound(page)
  await page.context().close()
  checked('results appear while typing, by words and then by meaning, and are announced; a cleared search brings the page back')
}

{ // Filters, with and without words.
  const page = await visitor()
  await page.goto(`${base}/find/agents`)
  await page.getByText('Filters and order').click()
  const names = () => page.locator('#results h3').allTextContents()
  const showing = (...wanted) => assert.doesNotReject(page.waitForFunction((all) => {
    const now = [...document.querySelectorAll('#results h3')].map((h) => h.textContent)
    return JSON.stringify(now.sort()) === JSON.stringify(all)
  }, wanted.sort()))
  await page.getByRole('checkbox', { name: /^legal/ }).check()
  await showing('Contract translator', 'Customs broker', 'Lease reader')
  await page.getByLabel('Price').selectOption('subscription')
  await showing('Lease reader')
  assert.equal(new URL(page.url()).search, '?category=legal&pricing_model=subscription')
  await page.reload()
  assert.deepEqual(await names(), ['Lease reader'])
  await page.getByRole('link', { name: 'Remove filter price: subscription' }).click()
  await showing('Contract translator', 'Customs broker', 'Lease reader')
  await page.getByRole('searchbox').fill('tariff')
  await page.getByRole('heading', { name: 'Found by words' }).waitFor()
  await page.waitForFunction(() => document.querySelector('#results h3')?.textContent === 'Customs broker')
  await page.screenshot({ path: `${artifacts}/filtered-light.png`, fullPage: true })
  await sound(page)
  await page.context().close()
  checked('filters work while they are changed, alone and with words, stay in the address, and can be removed one by one')
}

{ // The keyboard alone.
  const page = await visitor()
  await page.goto(base)
  const press = async (key, times = 1) => { for (let i = 0; i < times; i++) await page.keyboard.press(key) }
  const focus = () => page.evaluate(() => {
    const at = document.activeElement
    const { outlineStyle, outlineWidth } = getComputedStyle(at)
    return { text: (at.innerText || at.name || at.tagName).trim(), seen: outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2, top: at.getBoundingClientRect().top, id: at.id }
  })
  const order = []
  for (let i = 0; i < 8; i++) {
    await press('Tab')
    const at = await focus()
    assert.ok(at.seen && at.top >= 0, `the focus on ${at.text} cannot be seen`)
    order.push(at.text)
  }
  assert.deepEqual(order.slice(0, 7), ['Skip to content', 'Parley', 'Agents', 'Groups', 'API', 'q', 'Search'])
  await page.goto(base)
  await press('Tab')
  await press('Enter')
  assert.equal((await focus()).id, 'main')
  await press('Tab')
  await page.keyboard.type('rental contracts')
  await page.getByRole('heading', { name: 'Found by meaning' }).waitFor()
  await press('Tab', 2)
  const first = await focus()
  assert.ok(first.seen)
  await press('Enter')
  await page.waitForURL('**/a/*')
  assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), first.text)
  await page.goto(`${base}/find/agents`)
  await page.getByRole('searchbox').focus()
  await press('Tab', 2)
  assert.equal((await focus()).text, 'Filters and order')
  await press('Enter')
  await press('Tab')
  await press('Space')
  await page.waitForFunction(() => location.search.startsWith('?category='))
  await sound(page)
  await page.context().close()
  checked('everything can be reached and used with the keyboard, in the order of the page, and the focus can be seen')
}

{ // Without JavaScript.
  const page = await visitor({ javaScriptEnabled: false })
  await page.goto(base)
  await page.getByRole('searchbox').fill('rental contracts')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.waitForURL('**/find/agents?q=rental+contracts')
  await page.getByRole('link', { name: 'Lease reader' }).click()
  await page.waitForURL('**/a/lawyer@initech.localhost')
  const { verification_words: words } = (await call('GET', `/agents/${agents.lawyer.id}/card`)).json.svc
  assert.deepEqual(await page.locator('.words li').allTextContents(), words.split(' '))
  await page.goto(`${base}/find/agents`)
  await page.getByText('Filters and order').click()
  await page.getByRole('checkbox', { name: /^logistics/ }).check()
  await page.getByRole('button', { name: 'Apply' }).click()
  assert.deepEqual((await page.locator('#results h3').allTextContents()).sort(), ['Customs broker', 'Freight planner', 'Warehouse counter'])
  for (let i = 0; i < 12; i++) {
    await call('POST', '/groups', { token: orgs.globex.token, headers: { 'X-Svc-Agent': agents.freight.id }, body: { name: `harbour-${i}`, enrollment_policy: 'open', description: 'A harbour.' } })
  }
  for (let i = 0; i < 12; i++) {
    await call('POST', '/groups', { token: orgs.initech.token, headers: { 'X-Svc-Agent': agents.travel.id }, body: { name: `station-${i}`, enrollment_policy: 'open' } })
  }
  await page.goto(base)
  await page.getByRole('navigation', { name: 'Site' }).getByRole('link', { name: 'Groups' }).click()
  const groups = await page.locator('#results h3').allTextContents()
  await page.getByRole('link', { name: 'Next page' }).click()
  groups.push(...await page.locator('#results h3').allTextContents())
  assert.equal(new Set(groups).size, 26)
  await page.getByRole('link', { name: 'station-11' }).click()
  assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'station-11')
  await page.screenshot({ path: `${artifacts}/no-script.png`, fullPage: true })
  await sound(page)
  await page.context().close()
  checked('without JavaScript everything can be searched, filtered, paged and read')
}

{ // What a screen reader is given.
  const page = await visitor()
  let trees = ''
  for (const name of ['start', 'found', 'agent', 'group', 'unknown']) {
    await page.goto(base + paths[name])
    trees += `== ${paths[name]}\n${plainTree(await page.locator('body').ariaSnapshot())}\n`
  }
  if (process.env.PAGE_TREE_UPDATE) writeFileSync(treeFile, trees)
  assert.equal(trees, readFileSync(treeFile, 'utf8'), 'the accessibility tree has changed: if it should, run the test with -update')
  await page.context().close()
  checked('the accessibility tree of five pages is the expected one')
}

// plainTree replaces what differs from run to run.
function plainTree(tree) {
  return tree.replaceAll(base, 'BASE').replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'ID').replace(/"?(?<![\w-])[\w-]{43}(?![\w-])"?/g, 'KEY').replace(/\d{1,2} [A-Z][a-z]+ \d{4}/g, 'DATE')
    .replace(/assets\/(\w+)-[0-9a-f]{16}/g, 'assets/$1-HASH').replace(/Parley \S+ at/g, 'Parley VERSION at').replace(/code: "?[0-9a-f]{20}"?/g, 'code: REQUEST')
    .replace(/(list:\n)((?: +- listitem: "?(?:\d )?[a-z]+"?\n){5})/g, '$1      FIVE WORDS\n')
}

await browser.close()

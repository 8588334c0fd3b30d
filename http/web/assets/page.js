// Searches while the visitor types, and copies commands. Without it, all pages work too.

const lineOf = (text) => text
  .replace(/[\s\p{Zl}\p{Zp}]+/gu, ' ')
  .replace(/[\p{Cc}\p{Co}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufffd]|(?![\u200c\u200d])\p{Cf}/gu, '')
  .trim()

const excerptOf = (text, most = 260) => {
  const all = Array.from(lineOf(text.slice(0, 16 * most)))
  if (all.length <= most) return all.join('')
  const cut = all.slice(0, most - 1).join('')
  const end = cut.lastIndexOf(' ')
  return (end > most * 0.75 ? cut.slice(0, end) : cut).replace(/[ ,;:.]+$/, '') + '…'
}

const make = (name, className, ...parts) => {
  const node = document.createElement(name)
  if (className) node.className = className
  node.append(...parts)
  return node
}

const count = (n) => (n === 1 ? '1 agent' : `${n} agents`)

class LiveSearch {
  constructor(form) {
    this.form = form
    this.root = new URL(form.dataset.root, location.href)
    this.input = form.elements.namedItem('q')
    this.results = document.getElementById('results')
    this.status = document.getElementById('status')
    this.asServed = [...this.results.childNodes]
    this.chips = document.querySelector('.chips')
    this.servedFor = this.query().toString()
    this.asked = this.servedFor
    form.addEventListener('input', () => this.soon())
    form.addEventListener('change', () => this.soon())
  }

  // query returns the fields that are not empty.
  query() {
    const query = new URLSearchParams()
    for (const [name, value] of new FormData(this.form)) {
      if (value.trim() && !(name === 'sort' && value === 'relevance')) query.append(name, value.trim())
    }
    return query
  }

  soon() {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.search(), 180)
  }

  async search() {
    const query = this.query()
    if (query.toString() === this.asked) return
    this.asked = query.toString()
    this.abort?.abort()
    const { signal } = (this.abort = new AbortController())
    if (this.form.dataset.live === 'here') history.replaceState(null, '', query.size ? `?${query}` : location.pathname)
    if (this.chips) this.chips.hidden = this.asked !== this.servedFor
    if (this.asked === this.servedFor) {
      this.results.replaceChildren(...this.asServed)
      this.status.textContent = ''
      return
    }
    try {
      await this.phases(query, signal)
    } catch (error) {
      if (signal.aborted) return
      this.status.textContent = `No live results: ${error.message} Press Enter to search.`
    }
  }

  // phases shows what is found by words as soon as it is there, then what is found by
  // meaning.
  async phases(query, signal) {
    const text = query.get('q')
    if (!text) {
      const { items } = await this.page(query, signal)
      this.show([['Agents', items]], query)
      this.status.textContent = `${count(items.length)} shown.`
      return
    }
    let words = []
    for await (const { phase, results, error } of this.searches(query, text, signal)) {
      if (signal.aborted) return
      if (phase === 'fuzzy') {
        words = results
        this.show([['Found by words', words]], query)
        this.status.textContent = `${count(words.length)} found by words. Looking by meaning…`
        continue
      }
      const known = new Set(words.map((row) => row.id))
      const more = results.filter((row) => !known.has(row.id))
      this.show([['Found by words', words], ['Found by meaning', more]], query)
      this.status.textContent = `${count(words.length)} found by words, ${error ? 'by meaning none: ' + error : `${more.length || 'none'} more by meaning.`}`
    }
  }

  // searches yields the two phases. The stream takes no filters; with filters the two
  // searches are asked for one after the other.
  async * searches(query, text, signal) {
    if (query.size === 1) {
      yield * this.stream(new URLSearchParams({ q: text, semantic: text, limit: '12' }), signal)
      return
    }
    yield { phase: 'fuzzy', results: (await this.page(query, signal)).items }
    const byMeaning = new URLSearchParams(query)
    byMeaning.delete('q')
    byMeaning.set('semantic', text)
    const { items, search_mode: modes } = await this.page(byMeaning, signal)
    yield { phase: 'semantic', results: modes.includes('semantic') ? items : [] }
  }

  async ask(path, query, signal) {
    const answer = await fetch(new URL(`${path}?${query}`, this.root), { signal, headers: { Accept: 'application/json, text/event-stream' } })
    if (answer.ok) return answer
    const { detail } = await answer.json()
    throw new Error(typeof detail === 'string' ? detail : detail.map((fault) => `${fault.loc.at(-1)}: ${fault.msg}.`).join(' '))
  }

  async page(query, signal) {
    const asked = new URLSearchParams()
    for (const [name, value] of query) {
      for (const one of name === 'tag' || name === 'language' ? value.split(',') : [value]) asked.append(name, one.trim())
    }
    return (await this.ask('directory/agents', asked, signal)).json()
  }

  async * stream(query, signal) {
    const answer = await this.ask('directory/agents/stream', query, signal)
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    for (let held = ''; ;) {
      const { value, done } = await reader.read()
      if (done) return
      const events = (held + value).split('\n\n')
      held = events.pop()
      for (const event of events) {
        const data = event.replace(/^data: /, '')
        if (data === '[DONE]') return
        yield JSON.parse(data)
      }
    }
  }

  show(lists, query) {
    const parts = []
    for (const [title, rows] of lists) {
      const heading = make('h2', '', title)
      heading.id = parts.length ? `found-${parts.length}` : 'found'
      const list = rows.length ? make('ol', 'rows', ...rows.map((row) => this.row(row))) : make('p', 'hint', parts.length ? 'Nothing else.' : 'Nothing.')
      parts.push(make('div', 'live', make('div', 'head', heading), list))
    }
    const all = make('a', '', 'All results in pages')
    all.href = new URL(`find/agents?${query}`, this.root)
    this.results.replaceChildren(...parts, make('p', 'pages', all))
  }

  row(of) {
    const link = make('a', '', make('bdi', '', lineOf(of.name)))
    link.href = new URL(`a/${encodeURIComponent(of.handle).replace('%40', '@')}`, this.root)
    const row = make('li', 'row', make('h3', '', link), make('p', 'handle', of.handle))
    if (of.description?.trim()) {
      const about = make('p', 'about', excerptOf(of.description))
      about.dir = 'auto'
      row.append(about)
    }
    const facts = make('ul', 'facts')
    facts.setAttribute('aria-label', 'Facts')
    if (of.verified) facts.append(make('li', 'verified', 'Verified'))
    for (const category of of.categories?.slice(0, 4) ?? []) facts.append(make('li', '', make('bdi', '', lineOf(category))))
    if (of.pricing_model) facts.append(make('li', '', of.pricing_model[0].toUpperCase() + of.pricing_model.slice(1).replaceAll('_', ' ')))
    if (facts.childElementCount) row.append(facts)
    return row
  }
}

for (const form of document.querySelectorAll('form[data-live]')) new LiveSearch(form)

if (navigator.clipboard) {
  for (const block of document.querySelectorAll('pre')) {
    const button = make('button', 'copy', 'Copy')
    button.type = 'button'
    button.setAttribute('aria-label', 'Copy the command')
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(block.textContent)
      const say = (text, label) => {
        button.textContent = text
        button.setAttribute('aria-label', label)
      }
      say('Copied', 'Copied the command')
      setTimeout(say, 2000, 'Copy', 'Copy the command')
    })
    const around = make('div', 'block')
    block.replaceWith(around)
    around.append(block, button)
  }
}

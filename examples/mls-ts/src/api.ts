// The requests of a Parley server that a member of an MLS group needs.
import { createHash, type KeyObject } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { base64url, bytes } from './encoding.ts'
import type { SigningKey } from './keypackages.ts'

/** An agent of the organization that the token is of. */
export interface Agent {
  id: string
  handle: string
  key: SigningKey
}

export interface GroupRead {
  id: string
  handle: string
  mls_enabled: boolean
  mls_pending: boolean
  mls_cipher_suite: number | null
}

export interface MemberRead {
  agent_id: string
  agent_handle: string
  role: string
  mls_seated: boolean
}

export interface InboxMessage {
  id: string
  group_id: string | null
  encrypted_payload: string
  encryption_version: string
  from_handle?: string
}

export interface CommitRead {
  epoch: number
  commit: string
  committed_by: string
}

export interface WelcomeRead {
  id: string
  epoch: number
  welcome: string
}

export interface CommitRequest {
  epoch: number
  commit: string
  group_info: string
  welcome?: string
  added?: string[]
  removed?: string[]
}

interface KeysRead {
  handle: string
  signing_public_key: { x: string } | null
}

interface KeyLogEntry {
  agent_id: string
  signing_kid: string
}

interface Page<T> {
  items: T[]
  next_cursor: string | null
  has_more: boolean
}

/** An answer of the server that is not a success. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly body: Record<string, unknown>

  constructor(what: string, status: number, body: Record<string, unknown>) {
    super(`${what}: ${status} ${JSON.stringify(body.detail ?? body)}`)
    this.status = status
    this.code = String(body.code ?? '')
    this.body = body
  }
}

export interface ApiOptions {
  base: string
  /** Returns a token that is valid now: one lives 15 minutes. It is asked before every request. */
  token: () => string | Promise<string>
  agent: Agent
  /** Replaces fetch, in tests. */
  fetch?: typeof fetch
}

const attempts = 6
/** How long a request waits in all to be repeated, in milliseconds: other work of the member waits for it. */
const patience = 30_000
/** A handle in the form that leaves have it: in lower case, and nothing that has a meaning in a path. */
const handleForm = /^[a-z0-9._-]+@[a-z0-9.:-]+$/

export class Api {
  readonly agent: Agent
  private readonly base: string
  private readonly token: () => string | Promise<string>
  private readonly fetch: typeof fetch

  constructor({ base, token, agent, fetch: other = fetch }: ApiOptions) {
    this.agent = agent
    this.base = base
    this.token = token
    this.fetch = other
  }

  readGroup = (group: string): Promise<GroupRead> => this.request('GET', `/groups/${group}`)

  /** The members of a group, oldest first. */
  members = (group: string): Promise<MemberRead[]> => this.all(`/groups/${group}/members?limit=100`)

  leave = (group: string): Promise<void> => this.request('DELETE', `/groups/${group}/members/${this.agent.id}`)

  uploadKeyPackages = (key_packages: string[], last_resort?: string): Promise<{ stored: number; available: number }> =>
    this.request('POST', `/agents/${this.agent.id}/mls/key-packages`, { key_packages, last_resort })

  countKeyPackages = (): Promise<{ available: number; last_resort: boolean }> => this.request('GET', `/agents/${this.agent.id}/mls/key-packages/count`)

  /** Takes a key package of another agent; undefined if there is none for this agent now, or the organization has claimed too many within the hour. */
  claim = (agent: string, cipher_suite: number): Promise<string | undefined> =>
    this.request<{ key_package: string }>('POST', `/agents/${agent}/mls/key-packages/claim`, { cipher_suite }, {}, [503])
      .then((claimed) => claimed.key_package, unless(404, 429))

  commit = (group: string, request: CommitRequest): Promise<{ epoch: number }> => this.request('POST', `/groups/${group}/mls/commits`, request)

  /** A page of the commits made in an epoch and later ones. */
  commits = (group: string, since: number): Promise<Page<CommitRead>> => this.request('GET', `/groups/${group}/mls/commits?since_epoch=${since}&limit=100`)

  groupInfo = (group: string): Promise<{ epoch: number; group_info: string }> => this.request('GET', `/groups/${group}/mls/group-info`)

  welcomes = (group: string): Promise<WelcomeRead[]> => this.all(`/groups/${group}/mls/welcomes`)

  acknowledgeWelcome = (group: string, id: string): Promise<unknown> => this.request('DELETE', `/groups/${group}/mls/welcomes/${id}`).catch(unless(404))

  /** Sends to all members. The key makes a repeat of it the same message. */
  broadcast = (handle: string, encrypted_payload: string, key: string): Promise<{ id: string }> =>
    this.request('POST', '/messages', { to_handle: handle, type: 'svc.v1.dm', encrypted_payload, encryption_version: 'sender-key-v1' }, { 'Idempotency-Key': key })

  /** The messages that came after those that were handled, oldest first. */
  async messagesAfter(handled: string[]): Promise<InboxMessage[]> {
    const found: InboxMessage[] = []
    for (let cursor = '?limit=20'; ; ) {
      const page: Page<InboxMessage> = await this.request('GET', `/agents/${this.agent.id}/messages${cursor}`)
      const end = page.items.findIndex((message) => handled.includes(message.id))
      found.push(...(end < 0 ? page.items : page.items.slice(0, end)))
      if (end >= 0) return found.reverse()
      if (!page.has_more) return (await this.awaited(handled.at(-1))) ?? found.reverse()
      cursor = `?limit=100&cursor=${page.next_cursor}`
    }
  }

  /** The messages that came after one, also if that one was erased; undefined if the server does not know it. It takes a second if there are none. */
  private async awaited(after: string | undefined): Promise<InboxMessage[] | undefined> {
    if (after === undefined) return undefined
    const found: InboxMessage[] = []
    for (let last = after; ; ) {
      const answer = await this.request<{ items: InboxMessage[]; after: string }>('GET', `/agents/${this.agent.id}/wait?after=${last}&timeout_ms=1000`).catch(unless(404))
      if (!answer) return undefined
      found.push(...answer.items)
      if (answer.items.length === 0) return found
      last = answer.after
    }
  }

  /** Opens the agent's stream. */
  async stream(signal: AbortSignal): Promise<Response> {
    const answer = await this.once('GET', `/agents/${this.agent.id}/stream`, undefined, {}, signal)
    return answer.ok ? answer : take('the stream', answer)
  }

  /**
   * Whether a signing key is or was that of a handle; `erased` if nobody can tell, because
   * the handle's agent was erased. A revoked agent publishes no keys, but the key log has them.
   */
  async ownsKey(handle: string, publicKey: Uint8Array): Promise<boolean | 'erased'> {
    if (!handleForm.test(handle)) return false
    const x = base64url(publicKey)
    const kid = createHash('sha256').update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest('base64url') // RFC 7638
    try {
      const served = await this.request<KeysRead>('GET', `/agents/${handle}/keys?kid=${kid}`).catch(unless(404))
      if (served) return served.signing_public_key?.x === x
      const logged = await this.all<KeyLogEntry>(`/agents/${handle}/key-log?limit=200`).catch(unless(404, 422))
      return logged?.some((entry) => entry.signing_kid === kid) ?? false
    } catch (error) {
      if (error instanceof ApiError && error.status === 410) return 'erased'
      if (error instanceof ApiError && error.status === 422) return false // no agent can have this handle
      throw error
    }
  }

  /** The id of the agent of a handle, revoked ones included; undefined if there is none, or it was erased. */
  async agentOf(handle: string): Promise<string | undefined> {
    const page = await this.request<Page<KeyLogEntry>>('GET', `/agents/${handle}/key-log?limit=1`).catch(unless(404, 410))
    return page?.items[0]?.agent_id
  }

  /** The signing keys of agents, by handle in lower case. */
  async signingKeys(agents: string[]): Promise<Map<string, string>> {
    const found = new Map<string, string>()
    for (let i = 0; i < agents.length; i += 100) {
      const { keys } = await this.request<{ keys: Record<string, KeysRead> }>('GET', `/agents/keys?ids=${agents.slice(i, i + 100).join(',')}`)
      for (const { handle, signing_public_key } of Object.values(keys)) if (signing_public_key) found.set(handle.toLowerCase(), signing_public_key.x)
    }
    return found
  }

  private async all<T>(path: string): Promise<T[]> {
    const found: T[] = []
    for (let cursor = ''; ; ) {
      const page: Page<T> = await this.request('GET', path + cursor)
      found.push(...page.items)
      if (!page.has_more) return found
      cursor = `${path.includes('?') ? '&' : '?'}cursor=${page.next_cursor}`
    }
  }

  /** Sends a request until it has an answer: each of them may be repeated. A refusal that names a long wait is final. */
  private async request<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}, busy = [429, 503]): Promise<T> {
    for (let attempt = 1, left = patience; ; attempt++) {
      const answer = await this.once(method, path, body, headers).catch((lost: unknown) => {
        if (attempt === attempts) throw lost
        return undefined
      })
      const wait = 1000 * Number(answer?.headers.get('Retry-After') ?? 0) + 100 * attempt
      left -= wait
      if (answer && (attempt === attempts || left < 0 || !busy.includes(answer.status))) return take<T>(`${method} ${path}`, answer)
      await sleep(wait)
    }
  }

  private async once(method: string, path: string, body: unknown, headers: Record<string, string>, signal?: AbortSignal): Promise<Response> {
    return this.fetch(this.base + path, {
      method,
      headers: {
        Authorization: `Bearer ${await this.token()}`,
        'X-Svc-Agent': this.agent.id,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? null : JSON.stringify(body),
      ...(signal ? { signal } : {}),
    })
  }
}

async function take<T>(what: string, answer: Response): Promise<T> {
  const text = await answer.text()
  const json = text === '' ? undefined : JSON.parse(text)
  if (!answer.ok) throw new ApiError(what, answer.status, json ?? {})
  return json
}

/** Makes an answer of these statuses undefined, and throws every other error again. */
const unless = (...statuses: number[]) => (error: unknown): undefined => {
  if (error instanceof ApiError && statuses.includes(error.status)) return undefined
  throw error
}

/** The raw keys of an Ed25519 key of node:crypto. */
export function signingKey(key: KeyObject): SigningKey {
  const { x, d } = key.export({ format: 'jwk' })
  if (!x || !d) throw new Error('not a private Ed25519 key')
  return { publicKey: bytes(x), signKey: bytes(d) }
}

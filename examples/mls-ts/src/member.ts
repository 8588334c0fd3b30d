// A member of a group on a Parley server: it orders what the MLS side makes by the
// server's answers. Every step is saved before the request that depends on it, so the
// program may end at any point and go on from its store.
import { randomUUID } from 'node:crypto'
import { ciphersuites, type CiphersuiteImpl, type CiphersuiteName } from 'ts-mls'
import { ApiError, type Api, type CommitRead, type InboxMessage, type MemberRead } from './api.ts'
import { makeKeyPackage } from './keypackages.ts'
import { epochOf, ownerOf, Session, type Change, type GroupOptions } from './session.ts'
import type { Saved, Store } from './store.ts'
import { streamEvents } from './stream.ts'
import { loadSuite } from './suite.ts'
import { trustServer } from './trust.ts'

/** What a member is given, in order: the messages of an epoch, then the commit that ends it. */
export type Event =
  | { kind: 'message'; id: string; epoch: number; from: string; text: string }
  /** A message that cannot be decrypted. */
  | { kind: 'unreadable'; id: string; epoch: number; reason: string }
  | ({ kind: 'commit' } & Change)
  | { kind: 'joined'; epoch: number }
  /** A commit removed this agent. */
  | { kind: 'removed' }

export interface MemberOptions {
  api: Api
  /** The group's id. */
  group: string
  store: Store
  /** The cipher suite of the MLS group, the same for all members. */
  suite?: CiphersuiteName
  /** Is given every event at least once: it is called again if the program ends before it returned. */
  onEvent?: (event: Event) => void | Promise<void>
}

/** What a commit does: key packages and ids of those that it adds, handles and ids of those that it removes. */
interface Plan {
  add?: string[]
  added?: string[]
  remove?: string[]
  removed?: string[]
}

const tries = 20
/** How many ids of messages are kept: the inbox is read back to one of them, and some may be erased. */
const remembered = 50

export class Member {
  private readonly api: Api
  private readonly group: string
  private readonly store: Store
  private readonly onEvent: (event: Event) => void | Promise<void>
  private readonly options: GroupOptions
  private readonly saved: Saved
  private session: Session | undefined
  private handle: string | undefined
  /** Messages of later epochs than this member's. */
  private ahead: InboxMessage[] = []
  /** The members when the page of commits that is being applied was read. */
  private roster: Promise<MemberRead[] | undefined> | undefined
  private last: Promise<unknown> = Promise.resolve()

  private constructor({ api, group, store, onEvent = () => {} }: MemberOptions, suite: CiphersuiteImpl, saved: Saved) {
    this.api = api
    this.group = group
    this.store = store
    this.onEvent = onEvent
    this.saved = saved
    this.options = { group, suite, trust: trustServer(api, group) }
    if (saved.session) this.session = Session.load(saved.session, this.options)
  }

  /** Opens what the store has. */
  static async open(options: MemberOptions): Promise<Member> {
    return new Member(options, await loadSuite(options.suite), (await options.store.load()) ?? { keyPackages: [] })
  }

  /** The epoch that this member is in, undefined while it has no leaf. */
  get epoch(): number | undefined {
    return this.session?.epoch
  }

  /** The handles of the members that have a leaf. */
  get handles(): string[] {
    return this.session?.handles() ?? []
  }

  /** Makes key packages until others can claim so many, and one of last resort. */
  uploadKeyPackages(wanted: number): Promise<void> {
    return this.alone(async () => {
      const { available, last_resort } = await this.api.countKeyPackages()
      const { handle, key } = this.api.agent
      const once = await Promise.all(Array.from({ length: Math.max(0, wanted - available) }, () => makeKeyPackage(handle, key, this.options.suite)))
      const last = last_resort ? [] : [await makeKeyPackage(handle, key, this.options.suite, true)]
      const usable = this.saved.keyPackages.filter((own) => own.until > Date.now() / 1000)
      this.saved.keyPackages = [...usable, ...once, ...last]
      await this.save() // others may claim them as soon as they are uploaded
      await this.api.uploadKeyPackages(once.map((own) => own.message), last[0]?.message)
    })
  }

  /** Turns MLS on, for good. The caller's agent has to be an admin; the others are admitted afterwards. */
  turnOn(): Promise<void> {
    return this.alone(async () => {
      if ((await this.api.readGroup(this.group)).mls_enabled) return this.admitAll()
      const own = await makeKeyPackage(this.api.agent.handle, this.api.agent.key, this.options.suite)
      this.session = await Session.create(own, this.api.agent.key, this.options)
      if (await this.propose(this.session, {})) await this.admitAll() // key packages are for members with a leaf
    })
  }

  /** Adds the members that await it and have key packages. */
  admit(): Promise<void> {
    return this.alone(() => this.admitAll())
  }

  /** Joins by a Welcome if there is one, else by external commit. */
  join(): Promise<void> {
    return this.alone(async () => {
      for (let i = 0; i < tries; i++) {
        await this.catchUp()
        if (this.session) return
        const { group_info } = await this.api.groupInfo(this.group)
        const own = await makeKeyPackage(this.api.agent.handle, this.api.agent.key, this.options.suite)
        const { removed, ...made } = await Session.joinExternally(group_info, own, this.api.agent.key, this.options)
        const self = [this.api.agent.id]
        this.saved.pending = { ...made, added: self, removed: removed ? self : [] }
        await this.deliver()
      }
    })
  }

  /** Sends a text to all members. It is sent once, whatever is lost. */
  send(text: string): Promise<string> {
    return this.alone(async () => {
      this.handle ??= (await this.api.readGroup(this.group)).handle
      const key = randomUUID()
      if (this.saved.pending || !this.session) await this.catchUp()
      for (let i = 0; i < tries; i++) {
        const session = this.joined()
        if (this.saved.strangers) {
          await this.removeStrangers() // before anything is encrypted for them
          continue
        }
        const payload = await session.encrypt(text)
        await this.save()
        try {
          return (await this.api.broadcast(this.handle, payload, key)).id
        } catch (error) {
          if (code(error) === 'epoch_conflict') await this.catchUp()
          else if (code(error) === 'mls_removal_pending') await this.removeLeavers((error as ApiError).body.removed as string[], session.epoch)
          else throw error
        }
      }
      throw new Error(`not sent: the group changed ${tries} times meanwhile`)
    })
  }

  /** Reads what is new: messages, and commits of others. */
  sync(): Promise<void> {
    return this.alone(() => this.catchUp())
  }

  /** Reads what is new as it arrives, until the signal. One member, an admin say, also admits others: each try uses up one of their key packages. */
  async follow(signal: AbortSignal, { admits = false } = {}): Promise<void> {
    for await (const { event, data } of streamEvents(this.api, signal)) {
      if (event !== 'open' && event !== 'message' && event !== 'group') continue
      try {
        await this.sync()
        if (admits && event === 'group' && JSON.parse(data).kind === 'mls_admission') await this.admit()
      } catch (error) {
        if (code(error) !== 'not_member') throw error // before it joins the group, and after it left
      }
    }
  }

  /** Renews this member's keys, so that a thief of the former ones reads nothing more. */
  update(): Promise<void> {
    return this.alone(() => this.commit(async () => ({})))
  }

  /** Removes a member. The caller's agent has to be an admin. */
  kick(agent: string): Promise<void> {
    return this.alone(() => this.commit(async (session) => {
      const member = (await this.api.members(this.group)).find((one) => one.agent_id === agent)
      if (!member) return undefined
      const seated = session.handles().includes(member.agent_handle.toLowerCase()) // who is pending has no leaf
      return { remove: seated ? [member.agent_handle] : [], removed: [agent] }
    }))
  }

  /** Leaves the group. The next sender removes the leaf. */
  leave(): Promise<void> {
    return this.alone(async () => {
      await this.api.leave(this.group)
      await this.forget()
    })
  }

  /** Runs one method after the other, because each changes the state. */
  private alone<T>(work: () => Promise<T>): Promise<T> {
    const result = this.last.then(work)
    this.last = result.catch(() => {})
    return result
  }

  private joined(): Session {
    if (!this.session) throw new Error('the agent has no leaf in the MLS group yet: it has to be added, or join')
    return this.session
  }

  private async save(): Promise<void> {
    if (this.session) this.saved.session = this.session.store()
    else delete this.saved.session
    await this.store.save(this.saved)
  }

  private async forget(): Promise<void> {
    this.session = undefined
    delete this.saved.pending
    delete this.saved.strangers
    this.ahead = []
    await this.save()
  }

  private async admitAll(): Promise<void> {
    const claimed = new Map<string, string>() // kept when the commit has to be made again: each is handed out once
    const suite = ciphersuites[this.options.suite.name]
    for (let i = 0; this.saved.strangers && i < tries; i++) await this.removeStrangers()
    await this.commit(async (session) => {
      const members = await this.api.members(this.group)
      const waiting = members.filter((member) => !member.mls_seated)
      for (const { agent_id, agent_handle } of waiting) {
        const found = claimed.get(agent_id) ?? (await this.api.claim(agent_id, suite))
        if (found && ownerOf(found) !== agent_handle.toLowerCase()) throw new Error(`the server gave a key package of another than ${agent_handle}`)
        if (found) claimed.set(agent_id, found)
      }
      const ready = waiting.filter((member) => claimed.has(member.agent_id))
      const former = ready.filter((member) => session.handles().includes(member.agent_handle.toLowerCase()))
      if (ready.length === 0) return undefined
      const gone = without(session.handles(), members)
      return {
        add: ready.map((member) => claimed.get(member.agent_id)!),
        added: ready.map((member) => member.agent_id),
        remove: [...former.map((member) => member.agent_handle), ...gone],
        removed: [...former.map((member) => member.agent_id), ...(await this.idsOf(gone))],
      }
    })
  }

  /** Removes the leaves of agents that have left, whose ids the server named when this member was in an epoch. */
  private async removeLeavers(ids: string[], epoch: number): Promise<void> {
    await this.commit(async (session) => {
      if (session.epoch !== epoch) return undefined // another member's commit may have done it: the next try to send tells
      const seated = new Set((await this.api.members(this.group)).filter((member) => member.mls_seated).map((member) => member.agent_handle.toLowerCase()))
      return { remove: session.handles().filter((handle) => !seated.has(handle)), removed: ids }
    }, 1)
  }

  /** Makes one attempt to remove the leaves that no member has, and forgets about them when there are none. */
  private async removeStrangers(): Promise<void> {
    const plan = (named: boolean) => async (session: Session): Promise<Plan | undefined> => {
      const remove = without(session.handles(), await this.api.members(this.group))
      if (remove.length > 0) return { remove, removed: named ? await this.idsOf(remove) : [] }
      delete this.saved.strangers
      return undefined
    }
    try {
      await this.commit(plan(true), 1)
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 422)) throw error
      await this.commit(plan(false), 1) // the server knows nothing of a leaf whose agent never was a member
    }
  }

  /** The ids of agents, without those that were erased: the server names them to the next sender. */
  private async idsOf(handles: string[]): Promise<string[]> {
    return (await Promise.all(handles.map((handle) => this.api.agentOf(handle)))).filter((id) => id !== undefined)
  }

  /** Makes commits until the server accepts one, or plan finds that none is needed. */
  private async commit(plan: (session: Session) => Promise<Plan | undefined>, limit = tries): Promise<void> {
    for (let i = 0; i < limit; i++) {
      await this.catchUp()
      const session = this.joined()
      const wanted = await plan(session)
      if (!wanted || (await this.propose(session, wanted))) return
    }
  }

  /** Makes one commit. It reports whether the commit began the next epoch, and this member is in it then. */
  private async propose(session: Session, { add, added = [], remove, removed = [] }: Plan): Promise<boolean> {
    this.saved.pending = { ...(await session.commit(add, remove)), added, removed }
    if (!(await this.deliver())) return false
    await this.catchUp()
    return true
  }

  /**
   * Sends the pending commit, and again until there is an answer: the server answers a
   * repeat as it did the first. It reports whether the commit began the next epoch.
   */
  private async deliver(): Promise<boolean> {
    const pending = this.saved.pending
    if (!pending) return false
    await this.save() // with the state that the commit leads to
    const { epoch, commit, groupInfo, welcome, added, removed } = pending
    try {
      await this.api.commit(this.group, { epoch, commit, group_info: groupInfo, ...(welcome ? { welcome } : {}), added, removed })
    } catch (error) {
      if (!(error instanceof ApiError) || error.status >= 500) throw error
      delete this.saved.pending
      if (epoch === 0) this.session = undefined // another admin began the MLS group
      await this.save()
      if (error.code === 'epoch_conflict') return false
      throw error
    }
    pending.accepted = true
    if (!this.session) await this.enter(Session.load(pending.next, this.options), await this.membersNow())
    return true
  }

  /** Joins by a Welcome for one of the key packages. The server keeps it until it is acknowledged. */
  private async openWelcomes(): Promise<void> {
    for (const { id, welcome } of await this.api.welcomes(this.group)) {
      const found = await Session.joinByWelcome(welcome, this.saved.keyPackages, this.api.agent.key, this.options)
      const members = found && (await this.membersNow())
      this.saved.welcome = id
      if (found) {
        if (!found.used.lastResort) this.saved.keyPackages = this.saved.keyPackages.filter((own) => own !== found.used)
        await this.enter(found.session, members)
      }
      await this.acknowledge()
    }
  }

  private async acknowledge(): Promise<void> {
    if (!this.saved.welcome) return
    await this.api.acknowledgeWelcome(this.group, this.saved.welcome)
    delete this.saved.welcome
    await this.save()
  }

  /** Begins with a session. The members are read before anything changes, because that may fail. */
  private async enter(session: Session, members: MemberRead[] | undefined): Promise<void> {
    this.session = session
    delete this.saved.pending
    if (members) this.hold(without(session.handles(), members))
    await this.onEvent({ kind: 'joined', epoch: session.epoch })
    await this.save()
  }

  /** The members of the group; undefined if this agent is none any more, and a later commit removes it. */
  private membersNow(): Promise<MemberRead[] | undefined> {
    return this.api.members(this.group).catch((error: unknown) => {
      if (code(error) === 'not_member') return undefined
      throw error
    })
  }

  /** Remembers leaves that no member has. They are removed before this member sends anything. */
  private hold(strangers: string[]): void {
    if (strangers.length > 0) this.saved.strangers = [...new Set([...(this.saved.strangers ?? []), ...strangers])]
  }

  /**
   * Refuses a commit that adds others than members of the group, or that another agent made
   * than the server says. Who was added in a former epoch, or whose leaf awaits its removal,
   * may have left since.
   */
  private async check({ by, added }: Change, committer: string, newest: boolean): Promise<void> {
    if (added.length === 0) return
    const members = await (this.roster ??= this.membersNow())
    if (!members) return
    const wrong = members.find((member) => (member.agent_id === committer) !== (member.agent_handle.toLowerCase() === by))
    if (wrong) throw new Error(`the server says that another agent made the commit of ${by}`)
    const strangers = without(added, members)
    if (strangers.length > 0 && newest && !(await this.api.readGroup(this.group)).mls_pending) {
      throw new Error(`a commit of ${by} adds ${strangers.join(', ')}: no member of the group`)
    }
    this.hold(strangers)
  }

  /** Reads in order, epoch by epoch the messages, then the commit. */
  private async catchUp(): Promise<void> {
    if (this.saved.pending && !this.saved.pending.accepted) await this.deliver()
    await this.acknowledge()
    if (!this.session) await this.openWelcomes()
    for (let more = true; more && this.session; ) {
      // First the commits, then the messages: those of the epochs that these commits end are all there.
      const page = await this.api.commits(this.group, this.session.epoch)
      this.roster = undefined
      this.ahead.push(...(await this.api.messagesAfter([...(this.saved.read ?? []), ...this.ahead.map((message) => message.id)])))
      for (const [i, read] of page.items.entries()) {
        const { epoch } = read
        if (epoch !== this.session.epoch) throw new Error(`the server showed the commit of epoch ${epoch} in epoch ${this.session.epoch}`)
        await this.open(this.session)
        if (!(await this.apply(this.session, read, !page.has_more && i === page.items.length - 1))) return
      }
      await this.open(this.session)
      await this.save()
      more = page.has_more || (this.ahead.length > 0 && page.items.length > 0)
    }
  }

  /** Opens the messages up to those of the current epoch. */
  private async open(session: Session): Promise<void> {
    for (let next = this.ahead[0]; next; next = this.ahead[0]) {
      const epoch = next.group_id === this.group ? epochOf(next.encrypted_payload) : undefined
      if (epoch !== undefined && epoch > session.epoch) return
      if (epoch !== undefined) await this.onEvent(await this.read(session, next, epoch))
      this.saved.read = [...(this.saved.read ?? []), next.id].slice(-remembered)
      this.ahead.shift()
    }
  }

  private async read(session: Session, { id, encrypted_payload }: InboxMessage, epoch: number): Promise<Event> {
    if (epoch < session.epoch) return { kind: 'unreadable', id, epoch, reason: 'this member was not in its epoch' }
    try {
      return { kind: 'message', id, epoch, ...(await session.decrypt(encrypted_payload)) }
    } catch (error) {
      return { kind: 'unreadable', id, epoch, reason: String(error) }
    }
  }

  /** Applies a commit. It reports whether this member is still in the group. */
  private async apply(session: Session, { commit, committed_by }: CommitRead, newest: boolean): Promise<boolean> {
    const own = this.saved.pending
    const change = own?.commit === commit ? session.adopt(own) : await session.apply(commit, (made) => this.check(made, committed_by, newest))
    delete this.saved.pending
    const left = this.saved.strangers?.filter((handle) => session.handles().includes(handle)) ?? []
    if (left.length === 0) delete this.saved.strangers
    await this.onEvent(session.removed ? { kind: 'removed' } : { kind: 'commit', ...change })
    if (session.removed) await this.forget()
    return !session.removed
  }
}

/** The handles that are of no member. */
function without(handles: string[], members: MemberRead[]): string[] {
  const theirs = new Set(members.map((member) => member.agent_handle.toLowerCase()))
  return handles.filter((handle) => !theirs.has(handle))
}

const code = (error: unknown): string => (error instanceof ApiError ? error.code : '')

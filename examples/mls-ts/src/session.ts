// An MLS group as one member has it. It knows no server: messages go in and come out in
// base64url.
import {
  createApplicationMessage, createCommit, createGroup, createGroupInfoWithExternalPubAndRatchetTree, decodeGroupState, decodeMlsMessage,
  defaultKeyRetentionConfig, defaultLifetimeConfig, defaultPaddingConfig, emptyPskIndex, encodeGroupState,
  encodeMlsMessage, joinGroup, joinGroupExternal, processMessage, zeroOutUint8Array,
  type AuthenticationService, type CiphersuiteImpl, type ClientConfig, type ClientState, type LeafNode,
  type MLSMessage, type Proposal,
} from 'ts-mls'
import { ratchetTreeFromExtension } from 'ts-mls/groupInfo.js'
import { unprotectPrivateMessage } from 'ts-mls/messageProtection.js'
import { base64url, bytes, sameText } from './encoding.ts'
import { privateKeys, readKeyPackage, type OwnKeyPackage, type SigningKey } from './keypackages.ts'

/** A commit that awaits the server's answer, and the state that it leads to. */
export interface Pending {
  epoch: number
  commit: string
  groupInfo: string
  welcome?: string
  next: string
}

/** What a commit did to the group, by handles. */
export interface Change {
  epoch: number
  by: string
  added: string[]
  removed: string[]
}

interface Leaf {
  index: number
  handle: string
  key: string
}

/** How to open a group: the server's id of it, the cipher suite and the check of keys. */
export interface GroupOptions {
  group: string
  suite: CiphersuiteImpl
  /** Decides whether a signing key is that of a handle. */
  trust: AuthenticationService
}

// The server shows a commit only after the messages of earlier epochs, so a member that
// reads in order needs no keys of former epochs: one is the least that ts-mls can keep.
const config = (trust: AuthenticationService): ClientConfig => ({
  keyRetentionConfig: { ...defaultKeyRetentionConfig, retainKeysForEpochs: 1 },
  lifetimeConfig: defaultLifetimeConfig,
  // An agent has one leaf, whichever key it has.
  keyPackageEqualityConfig: {
    compareKeyPackages: (a, b) => handleOf(a.leafNode) === handleOf(b.leafNode),
    compareKeyPackageToLeafNode: (a, b) => handleOf(a.leafNode) === handleOf(b),
  },
  paddingConfig: defaultPaddingConfig,
  authService: trust,
})

export class Session {
  private state: ClientState
  private readonly options: GroupOptions

  private constructor(state: ClientState, options: GroupOptions) {
    if (!sameText(state.groupContext.groupId, options.group)) throw new Error('the MLS group is another one')
    this.state = state
    this.options = options
  }

  /** Begins an MLS group with one member. */
  static async create(own: OwnKeyPackage, key: SigningKey, options: GroupOptions): Promise<Session> {
    const id = new TextEncoder().encode(options.group)
    const state = await createGroup(id, readKeyPackage(own.message), privateKeys(own, key), [], options.suite, config(options.trust))
    return new Session(state, options)
  }

  /** Joins by a Welcome that was made for one of these key packages; undefined if it is for none. */
  static async joinByWelcome(welcome: string, owns: OwnKeyPackage[], key: SigningKey, options: GroupOptions): Promise<{ session: Session; used: OwnKeyPackage } | undefined> {
    const message = decode(welcome)
    if (message.wireformat !== 'mls_welcome') throw new Error('not a Welcome')
    const refs = message.welcome.secrets.map((secret) => base64url(secret.newMember))
    const used = owns.find((own) => refs.includes(own.ref))
    if (!used) return undefined
    const state = await joinGroup(message.welcome, readKeyPackage(used.message), privateKeys(used, key), emptyPskIndex, options.suite, undefined, undefined, config(options.trust))
    return { session: new Session(state, options), used }
  }

  /** Makes the external commit by which a member without a leaf adds itself. */
  static async joinExternally(groupInfo: string, own: OwnKeyPackage, key: SigningKey, options: GroupOptions): Promise<Pending & { removed: boolean }> {
    const message = decode(groupInfo)
    if (message.wireformat !== 'mls_group_info') throw new Error('not a GroupInfo')
    const info = message.groupInfo
    const keyPackage = readKeyPackage(own.message)
    const former = ratchetTreeFromExtension(info)?.some((node) => node?.nodeType === 'leaf' && handleOf(node.leaf) === handleOf(keyPackage.leafNode)) ?? false
    const { publicMessage, newState } = await joinGroupExternal(info, keyPackage, privateKeys(own, key), former, options.suite, undefined, config(options.trust))
    const session = new Session(newState, options)
    const commit: MLSMessage = { version: 'mls10', wireformat: 'mls_public_message', publicMessage }
    return { ...(await session.pending(session.epoch - 1, commit)), removed: former }
  }

  /** Opens a stored state. */
  static load(stored: string, options: GroupOptions): Session {
    const state = decodeGroupState(bytes(stored), 0)?.[0]
    if (!state) throw new Error('the stored state of the group cannot be read')
    return new Session({ ...state, clientConfig: config(options.trust) }, options)
  }

  store(): string {
    return base64url(encodeGroupState(this.state))
  }

  get epoch(): number {
    return Number(this.state.groupContext.epoch)
  }

  /** Whether a commit removed this member. */
  get removed(): boolean {
    return this.state.groupActiveState.kind === 'removedFromGroup'
  }

  /** The handles of the members that have a leaf. */
  handles(): string[] {
    return this.leaves().map((leaf) => leaf.handle)
  }

  /** Encrypts for all members with a leaf. Store the state before the message is sent: it never may encrypt two texts with one key. */
  async encrypt(text: string): Promise<string> {
    const { newState, privateMessage, consumed } = await createApplicationMessage(this.state, new TextEncoder().encode(text), this.options.suite)
    this.state = newState
    consumed.forEach(zeroOutUint8Array)
    return encode({ version: 'mls10', wireformat: 'mls_private_message', privateMessage })
  }

  /** Decrypts a message of the current epoch, and returns which member wrote it. */
  async decrypt(payload: string): Promise<{ from: string; text: string }> {
    const message = decode(payload)
    if (message.wireformat !== 'mls_private_message') throw new Error('not a private message')
    // processMessage of ts-mls does not tell the sender.
    const { keySchedule, secretTree, ratchetTree, groupContext, clientConfig } = this.state
    const opened = await unprotectPrivateMessage(
      keySchedule.senderDataSecret, message.privateMessage, secretTree, ratchetTree, groupContext, clientConfig.keyRetentionConfig, this.options.suite,
    )
    const { content } = opened.content
    if (content.contentType !== 'application' || content.sender.senderType !== 'member') throw new Error('not an application message of a member')
    this.state = { ...this.state, secretTree: opened.tree }
    opened.consumed.forEach(zeroOutUint8Array)
    return { from: this.handleOf(content.sender.leafIndex), text: new TextDecoder().decode(content.applicationData) }
  }

  /** Applies another member's commit of the current epoch. Nothing has changed if check throws, which is asked unless the commit removes this member. */
  async apply(commit: string, check: (change: Change) => Promise<void> = async () => {}): Promise<Change> {
    const message = decode(commit)
    if (message.wireformat !== 'mls_private_message' && message.wireformat !== 'mls_public_message') throw new Error('not a commit')
    let by: number | undefined
    const result = await processMessage(message, this.state, emptyPskIndex, (incoming) => {
      if (incoming.kind === 'commit') by = incoming.senderLeafIndex
      return incoming.kind === 'commit' ? 'accept' : 'reject'
    }, this.options.suite)
    if (result.kind !== 'newState' || result.actionTaken !== 'accept') throw new Error('not a commit')
    const committer = by === undefined ? undefined : this.handleOf(by)
    const change = this.changeTo(result.newState, committer)
    if (result.newState.groupActiveState.kind !== 'removedFromGroup') await check(change)
    this.state = result.newState
    result.consumed.forEach(zeroOutUint8Array)
    return change
  }

  /** Makes a commit that removes and adds members, or that only renews this member's keys. The state stays as it is until the server accepted it. */
  async commit(add: string[] = [], remove: string[] = []): Promise<Pending> {
    const leaves = this.leaves()
    const extraProposals: Proposal[] = [
      ...remove.map((handle): Proposal => {
        const leaf = leaves.find((one) => one.handle === handle.toLowerCase())
        if (!leaf) throw new Error(`${handle} has no leaf`)
        return { proposalType: 'remove', remove: { removed: leaf.index } }
      }),
      ...add.map((keyPackage): Proposal => ({ proposalType: 'add', add: { keyPackage: readKeyPackage(keyPackage) } })),
    ]
    // Without ratchetTreeExtension no one could join by the Welcome.
    const { commit, welcome, newState } = await createCommit({ state: this.state, cipherSuite: this.options.suite }, { extraProposals, ratchetTreeExtension: true })
    const next = new Session(newState, this.options)
    const pending = await next.pending(this.epoch, commit)
    return welcome ? { ...pending, welcome: encode({ version: 'mls10', wireformat: 'mls_welcome', welcome }) } : pending
  }

  /** Moves to the state that an own commit leads to. */
  adopt(pending: Pending): Change {
    const own = this.handleOf(this.state.privatePath.leafIndex)
    const next = Session.load(pending.next, this.options).state
    const change = this.changeTo(next, own)
    this.state = next
    return change
  }

  private changeTo(next: ClientState, committer: string | undefined): Change {
    const [epoch, before, after] = [this.epoch, this.leaves(), this.leaves(next)]
    const joiner = after.find((leaf) => !before.some((one) => one.key === leaf.key))?.handle
    const by = committer ?? joiner ?? '' // an external commit has no committer among the members
    const without = (all: Leaf[], others: Leaf[]) => all.map(({ handle }) => handle).filter((handle) => (handle === by && !committer) || !others.some((one) => one.handle === handle))
    return { epoch, by, added: without(after, before), removed: without(before, after) }
  }

  // The GroupInfo is made apart, because that of a Welcome has no external_pub.
  private async pending(epoch: number, commit: MLSMessage): Promise<Pending> {
    const groupInfo = await createGroupInfoWithExternalPubAndRatchetTree(this.state, [], this.options.suite)
    return { epoch, commit: encode(commit), groupInfo: encode({ version: 'mls10', wireformat: 'mls_group_info', groupInfo }), next: this.store() }
  }

  private leaves(state = this.state): Leaf[] {
    return state.ratchetTree.flatMap((node, i) =>
      node?.nodeType === 'leaf' ? [{ index: i / 2, handle: handleOf(node.leaf), key: base64url(node.leaf.hpkePublicKey) }] : [])
  }

  private handleOf(leafIndex: number): string {
    const node = this.state.ratchetTree[2 * leafIndex]
    if (node?.nodeType !== 'leaf') throw new Error('the sender has no leaf')
    return handleOf(node.leaf)
  }
}

/** Reads whose a key package is. */
export const ownerOf = (keyPackage: string): string => handleOf(readKeyPackage(keyPackage).leafNode)

/** Reads the epoch of an MLS message without its keys; undefined if it has none. */
export function epochOf(payload: string): number | undefined {
  const message = decodeMlsMessage(bytes(payload), 0)?.[0]
  return message?.wireformat === 'mls_private_message' ? Number(message.privateMessage.epoch) : undefined
}

function handleOf(leaf: LeafNode): string {
  if (leaf.credential.credentialType !== 'basic') throw new Error('a leaf has no basic credential')
  return new TextDecoder().decode(leaf.credential.identity)
}

function decode(text: string): MLSMessage {
  const message = decodeMlsMessage(bytes(text), 0)?.[0]
  if (!message) throw new Error('not an MLSMessage')
  return message
}

const encode = (message: MLSMessage): string => base64url(encodeMlsMessage(message))

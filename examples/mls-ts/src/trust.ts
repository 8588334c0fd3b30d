import type { AuthenticationService } from 'ts-mls'
import type { Api } from './api.ts'
import { base64url } from './encoding.ts'

/**
 * Decides by what the server publishes whether a signing key is that of a handle. A server
 * that lies can so add members of its own: a client that pins keys (docs/encryption.md)
 * compares with its pins here instead.
 */
export function trustServer(api: Api, group: string): AuthenticationService {
  const known = new Map<string, string>()
  let loading: Promise<void> | undefined
  const load = async () => {
    const members = await api.members(group)
    for (const [handle, x] of await api.signingKeys(members.map((member) => member.agent_id))) known.set(handle, x)
  }
  return {
    async validateCredential(credential, publicKey) {
      if (credential.credentialType !== 'basic') return false
      const handle = new TextDecoder().decode(credential.identity)
      const x = base64url(publicKey)
      loading ??= load() // all at once, instead of a request for each leaf
      await loading.catch((error: unknown) => {
        loading = undefined
        throw error
      })
      if (known.get(handle) === x) return true
      const owns = await api.ownsKey(handle, publicKey)
      if (owns === true) known.set(handle, x)
      // The leaf of an erased agent stays until a commit removes it, and must not keep others
      // from joining. Member sends nothing before it is removed.
      return owns !== false
    },
  }
}

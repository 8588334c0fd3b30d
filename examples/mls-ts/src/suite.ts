import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { getCiphersuiteFromName, getCiphersuiteImpl, type CiphersuiteImpl, type CiphersuiteName } from 'ts-mls'

/** The suite that RFC 9420 requires of every client. */
export const defaultSuite: CiphersuiteName = 'MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519'

/**
 * Loads a cipher suite. A commit in a group of 50 takes some 800 hashes of a few bytes, and
 * WebCrypto, which ts-mls uses, takes 20 times as long for each as node:crypto does.
 */
export async function loadSuite(name: CiphersuiteName = defaultSuite): Promise<CiphersuiteImpl> {
  const suite = getCiphersuiteFromName(name)
  const impl = await getCiphersuiteImpl(suite)
  const [hash, kdf] = [suite.hash.replace('-', ''), suite.hpke.kdf.replace('HKDF-', '')]
  const hmac = (algorithm: string, key: Uint8Array, ...data: Uint8Array[]) => {
    const mac = createHmac(algorithm, key)
    for (const part of data) mac.update(part)
    return new Uint8Array(mac.digest())
  }
  return {
    ...impl,
    hash: {
      digest: async (data) => new Uint8Array(createHash(hash).update(data).digest()),
      mac: async (key, data) => hmac(hash, key, data),
      verifyMac: async (key, mac, data) => mac.length * 8 === Number(hash.slice(3)) && timingSafeEqual(hmac(hash, key, data), mac),
    },
    kdf: { // HKDF (RFC 5869)
      size: impl.kdf.size,
      extract: async (salt, input) => hmac(kdf, salt, input),
      expand: async (key, info, length) => {
        const blocks: Uint8Array[] = []
        for (let n = 1; n <= Math.ceil(length / impl.kdf.size); n++) blocks.push(hmac(kdf, key, blocks.at(-1) ?? new Uint8Array(), info, Uint8Array.of(n)))
        return new Uint8Array(Buffer.concat(blocks, length))
      },
    },
  }
}

// Key packages: what others need to add an agent to a group while it is away.
import { defaultCapabilities, encodeMlsMessage, generateKeyPackageWithKey, type CiphersuiteImpl, type KeyPackage, type PrivateKeyPackage } from 'ts-mls'
import { decodeKeyPackage, makeKeyPackageRef } from 'ts-mls/keyPackage.js'
import { base64url, bytes } from './encoding.ts'

/** The Ed25519 key pair of an agent, as raw 32-byte keys. */
export interface SigningKey {
  publicKey: Uint8Array
  signKey: Uint8Array
}

/** A key package and its private keys, in base64url. */
export interface OwnKeyPackage {
  /** The hash by which a Welcome names the key package. */
  ref: string
  /** The MLSMessage to upload. */
  message: string
  initKey: string
  encryptionKey: string
  lastResort: boolean
  /** When it expires, in seconds of Unix time. */
  until: number
}

const lifetimeDays = 90
/** Marks a key package that may be used again (draft-ietf-mls-extensions). */
const lastResortExtension = { extensionType: 0x000a, extensionData: new Uint8Array() }

/** Makes a key package. The server accepts the handle in lower case only. */
export async function makeKeyPackage(handle: string, key: SigningKey, suite: CiphersuiteImpl, lastResort = false): Promise<OwnKeyPackage> {
  const now = Math.floor(Date.now() / 1000)
  const until = now + lifetimeDays * 86400
  const { publicPackage, privatePackage } = await generateKeyPackageWithKey(
    { credentialType: 'basic', identity: new TextEncoder().encode(handle.toLowerCase()) },
    defaultCapabilities(),
    { notBefore: BigInt(now - 3600), notAfter: BigInt(until) }, // an hour ago, because clocks differ
    lastResort ? [lastResortExtension] : [],
    key,
    suite,
  )
  return {
    ref: base64url(await makeKeyPackageRef(publicPackage, suite.hash)),
    message: base64url(encodeMlsMessage({ version: 'mls10', wireformat: 'mls_key_package', keyPackage: publicPackage })),
    initKey: base64url(privatePackage.initPrivateKey),
    encryptionKey: base64url(privatePackage.hpkePrivateKey),
    lastResort,
    until,
  }
}

/** Reads a key package as its owner uploaded it: in an MLSMessage, or bare. */
export function readKeyPackage(text: string): KeyPackage {
  const data = bytes(text)
  const framed = data[2] === 0 && data[3] === 5 // the wire format of an MLSMessage; a bare one has its cipher suite there, never 5
  const found = decodeKeyPackage(data, framed ? 4 : 0)?.[0]
  if (!found) throw new Error('not a key package')
  return found
}

export function privateKeys(own: OwnKeyPackage, key: SigningKey): PrivateKeyPackage {
  return { initPrivateKey: bytes(own.initKey), hpkePrivateKey: bytes(own.encryptionKey), signaturePrivateKey: key.signKey }
}

// Shared by what uses npm's ts-mls: key packages by an agent's own Ed25519 key, and the
// encodings that the service takes.
import {
  defaultCapabilities, encodeMlsMessage, generateKeyPackageWithKey, getCiphersuiteFromName, getCiphersuiteImpl,
} from 'ts-mls'

// suites are the numbers of those that are used here.
export const suites = {
  1: 'MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519',
  2: 'MLS_128_DHKEMP256_AES128GCM_SHA256_P256',
  83: 'MLS_256_XWING_AES256GCM_SHA512_Ed25519',
}

export const suite = (number) => getCiphersuiteImpl(getCiphersuiteFromName(suites[number]))

// lastResort is the extension that marks a key package as one that may be used again.
export const lastResort = { extensionType: 0x000a, extensionData: new Uint8Array(0) }

const raw = (key, member) => Buffer.from(key.export({ format: 'jwk' })[member], 'base64url')

// keyPair makes ts-mls use an Ed25519 key of node:crypto.
export const keyPair = ({ publicKey, privateKey }) => ({ publicKey: new Uint8Array(raw(publicKey, 'x')), signKey: new Uint8Array(raw(privateKey, 'd')) })

// keyPackage makes a key package for the agent of a handle.
export function keyPackage(cs, handle, keys, { lifetime = lifetimeOf(90), extensions = [] } = {}) {
  const credential = { credentialType: 'basic', identity: new TextEncoder().encode(handle.toLowerCase()) }
  return generateKeyPackageWithKey(credential, defaultCapabilities(), lifetime, extensions, keys, cs)
}

// lifetimeOf begins an hour ago, because clocks differ.
export function lifetimeOf(days) {
  const now = BigInt(Math.floor(Date.now() / 1000))
  return { notBefore: now - 3600n, notAfter: now + BigInt(days) * 86400n }
}

const formats = { mls_key_package: 'keyPackage', mls_welcome: 'welcome', mls_group_info: 'groupInfo', mls_private_message: 'privateMessage', mls_public_message: 'publicMessage' }

// message is the MLSMessage with one of these contents.
export const message = (wireformat, content) => encodeMlsMessage({ version: 'mls10', wireformat, [formats[wireformat]]: content })

export const base64url = (bytes) => Buffer.from(bytes).toString('base64url')

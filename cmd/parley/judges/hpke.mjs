// Seals and opens hpke-v1 payloads with the packages @hpke/core and @hpke/hybridkem-x-wing, implemented from
// docs/encryption.md alone. Reads a list of jobs and writes a list of outcomes.
import { createHash, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'
import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core'
import { XWing } from '@hpke/hybridkem-x-wing'

const classical = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes256Gcm() })
const hybrid = new CipherSuite({ kem: new XWing(), kdf: new HkdfSha256(), aead: new Aes256Gcm() })
const suiteOf = (version) => (version === 3 ? hybrid : classical)
const info = new TextEncoder().encode('parley/hpke-v1')
const bytes = (text) => Buffer.from(text, 'base64url')

// thumbprint is RFC 7638 for a raw OKP key.
const thumbprint = (crv, raw) =>
  createHash('sha256').update(`{"crv":"${crv}","kty":"OKP","x":"${raw.toString('base64url')}"}`).digest('base64url')

// pqThumbprint is RFC 7638 for a raw AKP key.
const pqThumbprint = (alg, raw) =>
  createHash('sha256').update(`{"alg":"${alg}","kty":"AKP","pub":"${raw.toString('base64url')}"}`).digest('base64url')

// signedText depends on the version byte: 3 names the X-Wing key.
const signedText = (version, sender, recipient, recipientPublic, payload) => {
  const kid = version === 3 ? pqThumbprint('X-Wing', recipientPublic) : thumbprint('X25519', recipientPublic)
  const names = `parley/hpke-v1/signature/${version}\n${sender}\n${recipient}\n${kid}\n`
  return Buffer.concat([Buffer.from(names), payload])
}

// open returns the payload if job.recipient_private opens job.sealed and job.signer, the key
// that the sender publishes, has signed it for that recipient.
async function open({ sealed, sender, signer, recipient, recipient_private, recipient_public }) {
  const box = bytes(sealed)
  const version = box[0]
  if (![2, 3].includes(version)) throw new Error('not hpke-v1')
  const suite = suiteOf(version)
  const end = version === 3 ? 1121 : 33
  const recipientKey = await suite.kem.deserializePrivateKey(bytes(recipient_private))
  const plain = Buffer.from(await suite.open({ recipientKey, enc: box.subarray(1, end), info }, box.subarray(end)))
  const kid = plain.subarray(1, 1 + plain[0]).toString()
  const signature = plain.subarray(1 + plain[0], 65 + plain[0])
  const payload = plain.subarray(65 + plain[0])
  if (kid !== thumbprint('Ed25519', bytes(signer))) throw new Error('signed by another key')
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: signer }, format: 'jwk' })
  if (!verify(null, signedText(version, sender, recipient, bytes(recipient_public), payload), key, signature)) throw new Error('forged')
  return { payload: payload.toString('base64url'), kid, version }
}

async function seal({ version, payload, sender, signer, signer_private, recipient, recipient_public }) {
  const kid = Buffer.from(thumbprint('Ed25519', bytes(signer)))
  const key = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', x: signer, d: signer_private }, format: 'jwk' })
  const signature = sign(null, signedText(version, sender, recipient, bytes(recipient_public), bytes(payload)), key)
  const plain = Buffer.concat([Buffer.from([kid.length]), kid, signature, bytes(payload)])
  const suite = suiteOf(version)
  const recipientPublicKey = await suite.kem.deserializePublicKey(bytes(recipient_public))
  const { enc, ct } = await suite.seal({ recipientPublicKey, info }, plain)
  return { sealed: Buffer.concat([Buffer.from([version]), Buffer.from(enc), Buffer.from(ct)]).toString('base64url') }
}

const input = []
for await (const chunk of process.stdin) input.push(chunk)
const outcomes = []
for (const job of JSON.parse(Buffer.concat(input))) {
  try {
    outcomes.push(await { open, seal }[job.do](job))
  } catch (error) {
    outcomes.push({ refused: error.message || error.name })
  }
}
console.log(JSON.stringify(outcomes))

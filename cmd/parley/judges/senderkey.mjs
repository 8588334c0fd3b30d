// Opens sender-key-v1 texts with node:crypto, implemented from docs/encryption.md
// alone. Reads the vectors and writes an outcome for each text of open and refuse.
import { createDecipheriv, createHash, createPublicKey, hkdfSync, verify } from 'node:crypto'

const hex = (text) => Buffer.from(text, 'hex')
const label = (name) => Buffer.from(`parley/sender-key-v1/${name}\n`)
const short = (text) => {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(Buffer.byteLength(text))
  return Buffer.concat([length, Buffer.from(text)])
}
const scope = (group, sender, generation, counter) => Buffer.concat([Buffer.from(`${group}\n${sender}\n`), generation, counter])
const derive = (chainKey, name, at) => Buffer.from(hkdfSync('sha256', chainKey, '', Buffer.concat([label(name), at]), 32))

// open returns the payload of a text for the given group, sender and types.
// chainKey is the key of counter 0, signer the key that the sender publishes.
function open({ text, group_id, sender_agent_id, type, content_type }, chainKey, signer) {
  const box = Buffer.from(text, 'base64url')
  if (box.length < 41 || box[0] !== 1) throw new Error('not sender-key-v1')
  const [generation, counter, nonce] = [box.subarray(1, 9), box.subarray(9, 13), box.subarray(13, 25)]
  const at = Buffer.alloc(4)
  for (let n = 0; n < counter.readUInt32BE(); n++) {
    if (n === 1024) throw new Error('not sender-key-v1')
    at.writeUInt32BE(n)
    chainKey = derive(chainKey, 'chain', scope(group_id, sender_agent_id, generation, at))
  }
  const bound = Buffer.concat([scope(group_id, sender_agent_id, generation, counter), short(type), short(content_type)])
  const key = derive(chainKey, 'message', scope(group_id, sender_agent_id, generation, counter))
  const cipher = createDecipheriv('aes-256-gcm', key, nonce).setAAD(bound).setAuthTag(box.subarray(-16))
  const plain = Buffer.concat([cipher.update(box.subarray(25, -16)), cipher.final()])
  const kid = plain.subarray(1, 1 + plain[0]).toString()
  const signature = plain.subarray(1 + plain[0], 65 + plain[0])
  const payload = plain.subarray(65 + plain[0])
  const x = signer.toString('base64url')
  if (kid !== createHash('sha256').update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest('base64url')) throw new Error('signed by another key')
  const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  if (!verify(null, Buffer.concat([label('signature'), bound, payload]), publicKey, signature)) throw new Error('forged')
  return payload.toString('hex')
}

const input = []
for await (const chunk of process.stdin) input.push(chunk)
const vectors = JSON.parse(Buffer.concat(input))
const outcomes = [...vectors.open, ...vectors.refuse].map((row) => {
  try {
    return { payload_hex: open(row, hex(vectors.chain[0].chain_key_hex), hex(vectors.sender.signing_public_hex)) }
  } catch (error) {
    return { refused: error.message || error.name }
  }
})
console.log(JSON.stringify(outcomes))

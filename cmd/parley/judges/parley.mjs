// Shared by the judges: an organization registered by real proof of work, its
// token, its agents, and a function that prints what was checked.
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto'
import assert from 'node:assert/strict'

export const base = process.argv[2]
assert.match(base ?? '', /^http:\/\//, 'usage: node <judge>.mjs <base url>')

export function checked(what) {
  console.log(`ok - ${what}`)
}

// call sends JSON and returns status, body and headers; an unexpected status ends the run.
export async function call(method, path, { token, body, headers = {}, expect = [200, 201] } = {}) {
  const response = await fetch(base + path, {
    method,
    headers: {
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...(token ? { Authorization: `Bearer ${token}` } : {}),
      ...headers,
    },
    body: body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await response.text()
  assert.ok([expect].flat().includes(response.status), `${method} ${path} answered ${response.status}: ${text}`)
  return { status: response.status, headers: response.headers, json: text ? JSON.parse(text) : null }
}

// solve finds a nonce for which SHA-256(challenge + ":" + nonce) begins with difficulty zero bits.
export function solve(challenge, difficulty) {
  for (let nonce = 0; ; nonce++) {
    const digest = createHash('sha256').update(`${challenge}:${nonce}`).digest()
    if (leadingZeroBits(digest) >= difficulty) return String(nonce)
  }
}

function leadingZeroBits(digest) {
  let bits = 0
  for (const byte of digest) {
    if (byte !== 0) return bits + Math.clz32(byte) - 24
    bits += 8
  }
  return bits
}

export async function register(slug = `judge-${randomBytes(5).toString('hex')}`) {
  const asked = await call('POST', '/auth/register', { body: { email: `${slug}@example.org`, org_slug: slug } })
  const { challenge_id, challenge, difficulty, algorithm } = asked.json
  assert.equal(algorithm, 'sha256-hashcash')
  const solved = await call('POST', '/auth/register/solve', { body: { challenge_id, nonce: solve(challenge, difficulty) } })
  const basic = Buffer.from(`${solved.json.client_id}:${solved.json.client_secret}`).toString('base64')
  const granted = await call('POST', '/oauth/token', {
    body: 'grant_type=client_credentials',
    headers: { Authorization: `Basic ${basic}`, 'Content-Type': 'application/x-www-form-urlencoded' },
  })
  return { ...solved.json, token: granted.json.access_token }
}

export async function createAgent(org, name) {
  const signing = generateKeyPairSync('ed25519')
  const encryption = generateKeyPairSync('x25519')
  const created = await call('POST', '/agents', {
    token: org.token,
    body: {
      name,
      signing_public_key: publicJWK(signing.publicKey),
      encryption_public_key: publicJWK(encryption.publicKey),
    },
    expect: 201,
  })
  return { ...created.json, signing, encryption }
}

function publicJWK(key) {
  const { kty, crv, x } = key.export({ format: 'jwk' })
  return { kty, crv, x }
}

// send sends a message whose payload is text in base64url: the service never looks inside.
export async function send(org, to, text, { extra = {}, headers = {}, expect = 201 } = {}) {
  const body = { to_agent_id: to.id, type: 'svc.v1.dm', encrypted_payload: Buffer.from(text).toString('base64url'), ...extra }
  return (await call('POST', '/messages', { token: org.token, body, headers, expect })).json
}

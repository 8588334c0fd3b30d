// Checks discovery, grant and token validation with the oauth4webapi package.
import assert from 'node:assert/strict'
import * as oauth from 'oauth4webapi'
import { base, checked, register } from './parley.mjs'

const insecure = { [oauth.allowInsecureRequests]: true } // plain http, on loopback only
const org = await register()
const issuer = new URL(base)

const discovery = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...insecure })
const server = await oauth.processDiscoveryResponse(issuer, discovery)
assert.ok(server.token_endpoint.startsWith(base))
assert.ok(server.grant_types_supported.includes('client_credentials'))
assert.ok(server.token_endpoint_auth_methods_supported.includes('client_secret_basic'))
checked('the authorization server is discovered by RFC 8414')

const client = { client_id: org.client_id }
const grant = (secret) =>
  oauth.clientCredentialsGrantRequest(server, client, oauth.ClientSecretBasic(secret), new URLSearchParams(), insecure)
const granted = await oauth.processClientCredentialsResponse(server, client, await grant(org.client_secret))
assert.equal(granted.token_type, 'bearer')
assert.equal(granted.expires_in, 900)
checked('client_credentials with Basic credentials grants a bearer token for 900 seconds')

const posted = await oauth.clientCredentialsGrantRequest(
  server, client, oauth.ClientSecretPost(org.client_secret), new URLSearchParams(), insecure)
await oauth.processClientCredentialsResponse(server, client, posted)
checked('credentials in the body are accepted as well')

const request = new Request(`${base}/org`, { headers: { Authorization: `Bearer ${granted.access_token}` } })
const claims = await oauth.validateJwtAccessToken(server, request, server.issuer, insecure)
assert.equal(claims.client_id, org.client_id)
assert.equal(claims.sub, org.org_id)
checked('the token is a valid RFC 9068 access token for this server')

// RFC 6749 5.2: an error for Basic credentials includes a challenge.
const refused = await grant(`${org.client_secret}x`)
await assert.rejects(oauth.processClientCredentialsResponse(server, client, refused.clone()), oauth.WWWAuthenticateChallengeError)
assert.equal(refused.status, 401)
assert.match(refused.headers.get('www-authenticate'), /^Basic/)
assert.equal((await refused.json()).error, 'invalid_client')
checked('a wrong secret is invalid_client, 401 and a Basic challenge')

const other = await oauth.genericTokenEndpointRequest(
  server, client, oauth.ClientSecretBasic(org.client_secret), 'authorization_code', new URLSearchParams({ code: 'x' }), insecure)
await assert.rejects(
  oauth.processGenericTokenEndpointResponse(server, client, other),
  (e) => e instanceof oauth.ResponseBodyError && e.error === 'unsupported_grant_type' && e.status === 400)
checked('another grant is unsupported_grant_type')

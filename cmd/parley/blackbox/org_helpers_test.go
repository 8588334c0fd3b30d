package blackbox

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"math/bits"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"
)

const (
	nilUUID = "00000000-0000-0000-0000-000000000000"
	// nobody has the layout of an id of the service but identifies nothing.
	nobody = "01900000-0000-7000-8000-00000000dead"
)

// org is a registered organization with a token.
type org struct {
	t                               testing.TB
	s                               *server
	id, slug, client, secret, token string
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func freshSlug() string { return "o-" + randomHex(6) }

// work finds a nonce for a challenge: a correct one if right is set, a wrong one
// otherwise.
func work(challenge string, difficulty int, right bool) string {
	for n := 0; ; n++ {
		nonce := strconv.Itoa(n)
		if fits(sha256.Sum256([]byte(challenge+":"+nonce)), difficulty) == right {
			return nonce
		}
	}
}

func fits(sum [32]byte, difficulty int) bool {
	zeros := 0
	for _, b := range sum {
		zeros += bits.LeadingZeros8(b)
		if b != 0 {
			break
		}
	}
	return zeros >= difficulty
}

// challenge requests a challenge.
func (s *server) challenge(t testing.TB, slug string) *answer {
	t.Helper()
	return s.call(t, "", "POST", "/auth/register", obj{"email": "ops@" + slug + ".example", "org_slug": slug}).want(201)
}

func (a *answer) solution() obj {
	a.t.Helper()
	difficulty, _ := a.at("difficulty").(float64)
	return obj{"challenge_id": a.str("challenge_id"), "nonce": work(a.str("challenge"), int(difficulty), true)}
}

// org registers a new organization and obtains a token.
func (s *server) org(t testing.TB) *org {
	t.Helper()
	slug := freshSlug()
	a := s.call(t, "", "POST", "/auth/register/solve", s.challenge(t, slug).solution()).want(201)
	o := &org{t: t, s: s, slug: slug, id: a.str("org_id"), client: a.str("client_id"), secret: a.str("client_secret")}
	o.token = s.grant(t, o.client, o.secret).want(200).str("access_token")
	return o
}

// grant is the simplest form of the token call.
func (s *server) grant(t testing.TB, id, secret string) *answer {
	t.Helper()
	return s.call(t, "", "POST", "/oauth/token", verbatim("grant_type=client_credentials"),
		"Content-Type", "application/x-www-form-urlencoded", "Authorization", basic(id, secret))
}

func basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

func (o *org) get(path string, headers ...string) *answer {
	return o.s.call(o.t, o.token, "GET", path, nil, headers...)
}

func (o *org) post(path string, body any, headers ...string) *answer {
	return o.s.call(o.t, o.token, "POST", path, body, headers...)
}

func (o *org) put(path string, body any, headers ...string) *answer {
	return o.s.call(o.t, o.token, "PUT", path, body, headers...)
}

func (o *org) patch(path string, body any, headers ...string) *answer {
	return o.s.call(o.t, o.token, "PATCH", path, body, headers...)
}

func (o *org) delete(path string, headers ...string) *answer {
	return o.s.call(o.t, o.token, "DELETE", path, nil, headers...)
}

// agent is an agent with its private keys.
type agent struct {
	*org
	id, name, handle, pollURL string
	sign                      ed25519.PrivateKey
	seal                      *ecdh.PrivateKey
	record                    obj
}

func (g *agent) path(rest string) string { return "/agents/" + g.id + rest }

// newKeys creates a signing key and an encryption key.
func newKeys() (ed25519.PrivateKey, *ecdh.PrivateKey) {
	_, sign, _ := ed25519.GenerateKey(rand.Reader)
	seal, _ := ecdh.X25519().GenerateKey(rand.Reader)
	return sign, seal
}

func jwk(curve string, raw []byte) obj { return obj{"kty": "OKP", "crv": curve, "x": b64(raw)} }

func signJWK(k ed25519.PrivateKey) obj { return jwk("Ed25519", k.Public().(ed25519.PublicKey)) }

func sealJWK(k *ecdh.PrivateKey) obj { return jwk("X25519", k.PublicKey().Bytes()) }

// thumbprint returns the key id of RFC 7638.
func thumbprint(curve string, raw []byte) string {
	sum := sha256.Sum256([]byte(`{"crv":"` + curve + `","kty":"OKP","x":"` + b64(raw) + `"}`))
	return b64(sum[:])
}

func (g *agent) signKid() string {
	return thumbprint("Ed25519", g.sign.Public().(ed25519.PublicKey))
}

// newAgent returns the body that creates an agent.
func newAgent(name string) obj {
	sign, seal := newKeys()
	return obj{"name": name, "signing_public_key": signJWK(sign), "encryption_public_key": sealJWK(seal)}
}

// agent creates an agent.
func (o *org) agent(name string) *agent {
	o.t.Helper()
	sign, seal := newKeys()
	a := o.post("/agents", obj{"name": name, "signing_public_key": signJWK(sign), "encryption_public_key": sealJWK(seal)}).want(201)
	return &agent{
		org: o, id: a.str("id"), name: name, handle: a.str("handle"), pollURL: a.str("poll_url"),
		sign: sign, seal: seal, record: a.body,
	}
}

// pair is two agents of two organizations.
func pair(t testing.TB, s *server) (*agent, *agent) {
	t.Helper()
	return s.org(t).agent("alice"), s.org(t).agent("bob")
}

// message is the smallest valid body of a send, with fields added or replaced.
func message(to *agent, more ...obj) obj {
	return merged(obj{"to_agent_id": to.id, "type": "svc.v1.dm", "encrypted_payload": "aGVsbG8"}, more...)
}

// merged merges objects; later ones take precedence.
func merged(base obj, more ...obj) obj {
	out := maps.Clone(base)
	for _, m := range more {
		maps.Copy(out, m)
	}
	return out
}

func without(o obj, name string) obj {
	out := maps.Clone(o)
	delete(out, name)
	return out
}

// trySend sends as this agent and checks nothing.
func (g *agent) trySend(to *agent, more obj, headers ...string) *answer {
	return g.post("/messages", message(to, more), append([]string{"X-Svc-Agent", g.id}, headers...)...)
}

// send sends as this agent and returns the message.
func (g *agent) send(to *agent, more ...obj) obj {
	g.t.Helper()
	a := g.trySend(to, merged(obj{}, more...)).want(201).shaped(messageShape)
	a.is("from_agent_id", g.id, "to_agent_id", to.id, "direction", "sent")
	return a.body
}

// tryReply replies as this agent and checks nothing.
func (g *agent) tryReply(m obj, more obj, headers ...string) *answer {
	body := merged(obj{"type": "svc.v1.dm", "encrypted_payload": "d29ybGQ"}, more)
	return g.post("/messages/"+text(m, "id")+"/reply", body, append([]string{"X-Svc-Agent", g.id}, headers...)...)
}

// reply replies as this agent and returns the message.
func (g *agent) reply(m obj, more ...obj) obj {
	g.t.Helper()
	a := g.tryReply(m, merged(obj{}, more...)).want(201).shaped(messageShape)
	a.is("from_agent_id", g.id, "conversation_id", text(m, "conversation_id"), "direction", "sent")
	return a.body
}

// inbox reads one page of the inbox.
func (g *agent) inbox(query string) *answer {
	g.t.Helper()
	return g.get(g.path("/messages") + query).want(200)
}

// pages reads a listing to its end; query sets the limit.
func (o *org) pages(path, query string) []obj {
	o.t.Helper()
	var all []obj
	cursor := ""
	for range 1000 {
		a := o.get(path + query + cursor).want(200)
		all = append(all, a.items()...)
		if a.at("has_more") != true {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(a.str("next_cursor"))
	}
	o.t.Fatalf("%s has no last page", path)
	return nil
}

// everything returns the whole inbox, newest first.
func (g *agent) everything() []obj {
	g.t.Helper()
	return g.pages(g.path("/messages"), "?limit=100")
}

func ids(rows []obj) []string {
	out := make([]string, 0, len(rows))
	for _, r := range rows {
		out = append(out, text(r, "id"))
	}
	return out
}

// peek reads a message as its sender, which records no receipt.
func (g *agent) peek(m obj) *answer {
	g.t.Helper()
	return g.get("/messages/"+text(m, "id"), "X-Svc-Agent", g.id).want(http.StatusOK)
}

// talk reads the conversation of a message.
func (o *org) talk(m obj) *answer {
	o.t.Helper()
	return o.get("/conversations/" + text(m, "conversation_id")).want(200)
}

// eventually waits for an effect that may follow later.
func eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !happened() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

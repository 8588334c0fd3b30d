package kit

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
	// NilUUID is the id that has only zeros.
	NilUUID = "00000000-0000-0000-0000-000000000000"
	// Nobody has the layout of an id of the service but identifies nothing.
	Nobody = "01900000-0000-7000-8000-00000000dead"
)

// Org is a registered organization with a token.
type Org struct {
	T                               testing.TB
	S                               *Server
	ID, Slug, Client, Secret, Token string
}

// B64 encodes bytes as base64url.
func B64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// RandomHex returns n random bytes in hex.
func RandomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// FreshSlug returns a slug that no other organization has.
func FreshSlug() string { return "o-" + RandomHex(6) }

// Work finds a nonce for a challenge: a correct one if right is set, a wrong one
// otherwise.
func Work(challenge string, difficulty int, right bool) string {
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

// Challenge requests a challenge.
func (s *Server) Challenge(t testing.TB, slug string) *Answer {
	t.Helper()
	return s.Call(t, "", "POST", "/auth/register", Obj{"email": "ops@" + slug + ".example", "org_slug": slug}).Want(201)
}

// Solution returns the body that solves the challenge of an answer.
func (a *Answer) Solution() Obj {
	a.T.Helper()
	difficulty, _ := a.At("difficulty").(float64)
	return Obj{"challenge_id": a.Str("challenge_id"), "nonce": Work(a.Str("challenge"), int(difficulty), true)}
}

// Org registers a new organization and obtains a token.
func (s *Server) Org(t testing.TB) *Org {
	t.Helper()
	slug := FreshSlug()
	a := s.Call(t, "", "POST", "/auth/register/solve", s.Challenge(t, slug).Solution()).Want(201)
	o := &Org{T: t, S: s, Slug: slug, ID: a.Str("org_id"), Client: a.Str("client_id"), Secret: a.Str("client_secret")}
	o.Token = s.Grant(t, o.Client, o.Secret).Want(200).Str("access_token")
	return o
}

// Grant is the simplest form of the token call.
func (s *Server) Grant(t testing.TB, id, secret string) *Answer {
	t.Helper()
	return s.Call(t, "", "POST", "/oauth/token", Verbatim("grant_type=client_credentials"),
		"Content-Type", "application/x-www-form-urlencoded", "Authorization", Basic(id, secret))
}

// Basic returns the header of client credentials.
func Basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

// Get makes a request as the organization.
func (o *Org) Get(path string, headers ...string) *Answer {
	return o.S.Call(o.T, o.Token, "GET", path, nil, headers...)
}

// Post makes a request as the organization.
func (o *Org) Post(path string, body any, headers ...string) *Answer {
	return o.S.Call(o.T, o.Token, "POST", path, body, headers...)
}

// Put makes a request as the organization.
func (o *Org) Put(path string, body any, headers ...string) *Answer {
	return o.S.Call(o.T, o.Token, "PUT", path, body, headers...)
}

// Patch makes a request as the organization.
func (o *Org) Patch(path string, body any, headers ...string) *Answer {
	return o.S.Call(o.T, o.Token, "PATCH", path, body, headers...)
}

// Delete makes a request as the organization.
func (o *Org) Delete(path string, headers ...string) *Answer {
	return o.S.Call(o.T, o.Token, "DELETE", path, nil, headers...)
}

// Agent is an agent with its private keys.
type Agent struct {
	*Org
	ID, Name, Handle, PollURL string
	Sign                      ed25519.PrivateKey
	Seal                      *ecdh.PrivateKey
	Record                    Obj
}

// Path is a path below that of the agent.
func (g *Agent) Path(rest string) string { return "/agents/" + g.ID + rest }

// NewKeys creates a signing key and an encryption key.
func NewKeys() (ed25519.PrivateKey, *ecdh.PrivateKey) {
	_, sign, _ := ed25519.GenerateKey(rand.Reader)
	seal, _ := ecdh.X25519().GenerateKey(rand.Reader)
	return sign, seal
}

func jwk(curve string, raw []byte) Obj { return Obj{"kty": "OKP", "crv": curve, "x": B64(raw)} }

// SignJWK is the public part of a signing key.
func SignJWK(k ed25519.PrivateKey) Obj { return jwk("Ed25519", k.Public().(ed25519.PublicKey)) }

// SealJWK is the public part of an encryption key.
func SealJWK(k *ecdh.PrivateKey) Obj { return jwk("X25519", k.PublicKey().Bytes()) }

// Thumbprint returns the key id of RFC 7638.
func Thumbprint(curve string, raw []byte) string {
	sum := sha256.Sum256([]byte(`{"crv":"` + curve + `","kty":"OKP","x":"` + B64(raw) + `"}`))
	return B64(sum[:])
}

// SignKid is the id of the signing key.
func (g *Agent) SignKid() string {
	return Thumbprint("Ed25519", g.Sign.Public().(ed25519.PublicKey))
}

// NewAgent returns the body that creates an agent.
func NewAgent(name string) Obj {
	sign, seal := NewKeys()
	return Obj{"name": name, "signing_public_key": SignJWK(sign), "encryption_public_key": SealJWK(seal)}
}

// Agent creates an agent.
func (o *Org) Agent(name string) *Agent {
	o.T.Helper()
	sign, seal := NewKeys()
	a := o.Post("/agents", Obj{"name": name, "signing_public_key": SignJWK(sign), "encryption_public_key": SealJWK(seal)}).Want(201)
	return &Agent{
		Org: o, ID: a.Str("id"), Name: name, Handle: a.Str("handle"), PollURL: a.Str("poll_url"),
		Sign: sign, Seal: seal, Record: a.Body,
	}
}

// Pair is two agents of two organizations.
func Pair(t testing.TB, s *Server) (*Agent, *Agent) {
	t.Helper()
	return s.Org(t).Agent("alice"), s.Org(t).Agent("bob")
}

// Message is the smallest valid body of a send, with fields added or replaced.
func Message(to *Agent, more ...Obj) Obj {
	return Merged(Obj{"to_agent_id": to.ID, "type": "svc.v1.dm", "encrypted_payload": "aGVsbG8"}, more...)
}

// Merged merges objects; later ones take precedence.
func Merged(base Obj, more ...Obj) Obj {
	out := maps.Clone(base)
	for _, m := range more {
		maps.Copy(out, m)
	}
	return out
}

// Without returns an object without one of its fields.
func Without(o Obj, name string) Obj {
	out := maps.Clone(o)
	delete(out, name)
	return out
}

// TrySend sends as this agent and checks nothing.
func (g *Agent) TrySend(to *Agent, more Obj, headers ...string) *Answer {
	return g.Post("/messages", Message(to, more), append([]string{"X-Svc-Agent", g.ID}, headers...)...)
}

// Send sends as this agent and returns the message.
func (g *Agent) Send(to *Agent, more ...Obj) Obj {
	g.T.Helper()
	a := g.TrySend(to, Merged(Obj{}, more...)).Want(201).Shaped(MessageShape)
	a.Is("from_agent_id", g.ID, "to_agent_id", to.ID, "direction", "sent")
	return a.Body
}

// TryReply replies as this agent and checks nothing.
func (g *Agent) TryReply(m Obj, more Obj, headers ...string) *Answer {
	body := Merged(Obj{"type": "svc.v1.dm", "encrypted_payload": "d29ybGQ"}, more)
	return g.Post("/messages/"+Text(m, "id")+"/reply", body, append([]string{"X-Svc-Agent", g.ID}, headers...)...)
}

// Reply replies as this agent and returns the message.
func (g *Agent) Reply(m Obj, more ...Obj) Obj {
	g.T.Helper()
	a := g.TryReply(m, Merged(Obj{}, more...)).Want(201).Shaped(MessageShape)
	a.Is("from_agent_id", g.ID, "conversation_id", Text(m, "conversation_id"), "direction", "sent")
	return a.Body
}

// Inbox reads one page of the inbox.
func (g *Agent) Inbox(query string) *Answer {
	g.T.Helper()
	return g.Get(g.Path("/messages") + query).Want(200)
}

// Pages reads a listing to its end; query sets the limit.
func (o *Org) Pages(path, query string) []Obj {
	o.T.Helper()
	var all []Obj
	cursor := ""
	for range 1000 {
		a := o.Get(path + query + cursor).Want(200)
		all = append(all, a.Items()...)
		if a.At("has_more") != true {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(a.Str("next_cursor"))
	}
	o.T.Fatalf("%s has no last page", path)
	return nil
}

// Everything returns the whole inbox, newest first.
func (g *Agent) Everything() []Obj {
	g.T.Helper()
	return g.Pages(g.Path("/messages"), "?limit=100")
}

// IDs returns the ids of rows.
func IDs(rows []Obj) []string {
	out := make([]string, 0, len(rows))
	for _, r := range rows {
		out = append(out, Text(r, "id"))
	}
	return out
}

// Peek reads a message as its sender, which records no receipt.
func (g *Agent) Peek(m Obj) *Answer {
	g.T.Helper()
	return g.Get("/messages/"+Text(m, "id"), "X-Svc-Agent", g.ID).Want(http.StatusOK)
}

// Conversation reads the conversation of a message.
func (o *Org) Conversation(m Obj) *Answer {
	o.T.Helper()
	return o.Get("/conversations/" + Text(m, "conversation_id")).Want(200)
}

// Eventually waits for an effect that may follow later.
func Eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !happened() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Must ends the test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

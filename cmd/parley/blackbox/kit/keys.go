package kit

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/mlkem"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// ExitKeys is the exit code of the command line when it refuses keys.
const ExitKeys = 10

// Profile is an organization on disk with one agent, as the command line stores it.
type Profile struct {
	t              *testing.T
	Dir            string
	s              *Server
	Slug, ID, Name string
}

// ProfileAt uses the command line to register an organization at base and create an
// agent. base is the server or a proxy in front of it.
func (s *Server) ProfileAt(t *testing.T, base, name string) *Profile {
	t.Helper()
	p := &Profile{t: t, Dir: filepath.Join(t.TempDir(), name), s: s, Slug: FreshSlug(), Name: name}
	Succeeds(t, "register", p.Slug, "--email", "ops@"+p.Slug+".example", "--url", base, "--profile", p.Dir)
	p.ID = Text(p.Run("agent", "create", name), "id")
	return p
}

// Handle is the handle of the profile's agent.
func (p *Profile) Handle() string { return p.Name + "@" + p.Slug + ".localhost" }

// Run runs a command that must succeed.
func (p *Profile) Run(args ...string) Obj {
	p.t.Helper()
	return Succeeds(p.t, append(args, "--profile", p.Dir)...)
}

// Fails runs a command that must fail because of keys. It returns the key ids that the
// command offers to accept, and its output.
func (p *Profile) Fails(args ...string) (kids []string, said string) {
	p.t.Helper()
	_, said, code := Command(p.t, append(args, "--profile", p.Dir, "--json")...)
	var f struct {
		Code   string
		Error  string
		Accept []string
	}
	if err := json.Unmarshal([]byte(said), &f); err != nil || code != ExitKeys {
		p.t.Fatalf("parley %v: exit code %d, want %d\n%s", args, code, ExitKeys, said)
	}
	return f.Accept, f.Error
}

// Org is the organization as used by a thief of its credentials.
func (p *Profile) Org() *Org {
	p.t.Helper()
	var kept struct {
		Client string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if err := json.Unmarshal(ContentOf(p.t, filepath.Join(p.Dir, "credentials.json")), &kept); err != nil {
		p.t.Fatal(err)
	}
	return &Org{T: p.t, S: p.s, Token: p.s.Grant(p.t, kept.Client, kept.Secret).Want(200).Str("access_token")}
}

// Newest returns the newest message of the agent's inbox, as stored on the server.
func (p *Profile) Newest() Obj {
	p.t.Helper()
	items := p.Org().Get("/agents/" + p.ID + "/messages?limit=1").Want(200).Items()
	if len(items) == 0 {
		p.t.Fatal("the inbox is empty")
	}
	return items[0]
}

// LyingServer is a server that serves false keys for one agent and forges its mail.
type LyingServer struct {
	*httptest.Server
	mu      sync.Mutex
	agent   string // agent id; empty while it serves the truth
	keys    Obj    // the keys it serves for that agent
	payload string // the payload of all messages from that agent, unless empty
}

// NewLyingServer forwards to the server unchanged until it is given false keys.
func NewLyingServer(t *testing.T, s *Server) *LyingServer {
	target, err := url.Parse(s.Base)
	if err != nil {
		t.Fatal(err)
	}
	l := &LyingServer{}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: l.modifyResponse,
	}
	l.Server = httptest.NewServer(proxy)
	t.Cleanup(l.Close)
	return l
}

func (l *LyingServer) modifyResponse(r *http.Response) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.agent == "" || r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	if strings.HasSuffix(r.Request.URL.Path, "/key-bindings") && strings.Contains(r.Request.URL.Path, l.agent) {
		v = Obj{"items": []any{l.keys["key_binding"]}, "next_cursor": nil, "has_more": false}
	}
	l.rewrite(v)
	if body, err = json.Marshal(v); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// rewrite replaces the agent's keys and message payloads anywhere in an answer.
func (l *LyingServer) rewrite(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			l.rewrite(e)
		}
	case Obj:
		if _, keys := v["signing_public_key"]; keys && v["agent_id"] == l.agent {
			for name, value := range l.keys {
				v[name] = value
			}
		}
		if v["from_agent_id"] == l.agent && l.payload != "" {
			v["encrypted_payload"] = l.payload
		}
		for _, e := range v {
			l.rewrite(e)
		}
	}
}

// BindingBy returns the signature of an agent's binding of two keys.
func BindingBy(sign ed25519.PrivateKey, seal *ecdh.PrivateKey, id, handle, at string) string {
	signKid, sealKid := Thumbprint("Ed25519", sign.Public().(ed25519.PublicKey)), Thumbprint("X25519", seal.PublicKey().Bytes())
	return B64(ed25519.Sign(sign, []byte("svc-keys-v1\n"+id+"\n"+handle+"\n"+signKid+"\n"+sealKid+"\n"+at)))
}

// Impersonate makes the proxy serve its own keys for an agent, bound to each other as the
// agent would bind them.
func (l *LyingServer) Impersonate(id, handle string, sign ed25519.PrivateKey, seal *ecdh.PrivateKey) {
	signKid, sealKid := Thumbprint("Ed25519", sign.Public().(ed25519.PublicKey)), Thumbprint("X25519", seal.PublicKey().Bytes())
	const at = "2099-01-01T00:00:00Z"
	signature := BindingBy(sign, seal, id, handle, at)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.agent = id
	l.keys = Obj{
		"signing_public_key": Merged(SignJWK(sign), Obj{"kid": signKid}), "encryption_public_key": Merged(SealJWK(seal), Obj{"kid": sealKid}),
		"key_binding": Obj{
			"signature": signature, "signed_at": at, "signing_kid": signKid, "encryption_kid": sealKid,
			"previous_signature": signature, "continuity": "signed",
		},
		"unbound_since": nil, "valid_from": "2020-01-01T00:00:00Z", "valid_until": nil, "retired_at": nil,
	}
}

// Rebind makes the proxy serve another binding of an agent's true keys.
func (l *LyingServer) Rebind(id string, binding Obj) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.agent, l.keys = id, Obj{"key_binding": binding}
}

// Forge puts a payload into all messages from the agent.
func (l *LyingServer) Forge(payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.payload = payload
}

// Microseconds is the layout of times in bindings.
const Microseconds = "2006-01-02T15:04:05.000000Z"

// PairOfKeys are the private keys of an agent, held by its owner.
type PairOfKeys struct {
	Sign ed25519.PrivateKey
	Seal *ecdh.PrivateKey
}

// NewPair creates a signing key and an encryption key.
func NewPair() PairOfKeys {
	sign, seal := NewKeys()
	return PairOfKeys{sign, seal}
}

// Kids returns the ids of both keys.
func (k PairOfKeys) Kids() (sign, seal string) {
	return Thumbprint("Ed25519", k.Sign.Public().(ed25519.PublicKey)), Thumbprint("X25519", k.Seal.PublicKey().Bytes())
}

// Binding binds a pair of keys to an agent with the signatures that the documents
// prescribe. previous, unless nil, adds a second signature.
func (g *Agent) Binding(k PairOfKeys, previous ed25519.PrivateKey, signedAt string) Obj {
	sign, seal := k.Kids()
	text := fmt.Appendf(nil, "svc-keys-v1\n%s\n%s\n%s\n%s\n%s", g.ID, g.Handle, sign, seal, signedAt)
	body := Obj{"signature": B64(ed25519.Sign(k.Sign, text)), "signed_at": signedAt}
	if previous != nil {
		body["previous_signature"] = B64(ed25519.Sign(previous, text))
	}
	return body
}

// Pair returns the agent's keys.
func (g *Agent) Pair() PairOfKeys { return PairOfKeys{g.Sign, g.Seal} }

// Instant returns a time in the format of a binding, offset from now.
func Instant(after time.Duration) string { return time.Now().Add(after).UTC().Format(Microseconds) }

// PublishedKeys are the ids of the keys that a node publishes.
func PublishedKeys(t *testing.T, s *Server) map[any]bool {
	t.Helper()
	keys, _ := s.Call(t, "", "GET", "/.well-known/jwks.json", nil).Want(200).At("keys").([]any)
	all := map[any]bool{}
	for _, k := range Objects(keys) {
		all[k["kid"]] = true
	}
	return all
}

// KEMKey returns a new ML-KEM-768 key as a JWK.
func KEMKey() Obj { return PQJWK("ML-KEM-768", RawKEMKey()) }

// RawKEMKey returns a public key of X-Wing.
func RawKEMKey() []byte {
	k, err := mlkem.GenerateKey768()
	if err != nil {
		panic(err)
	}
	return k.EncapsulationKey().Bytes()
}

// PQJWK is a post-quantum key as a JWK.
func PQJWK(alg string, raw []byte) Obj { return Obj{"kty": "AKP", "alg": alg, "pub": B64(raw)} }

// ClaimsOf decodes a token without verifying its signature.
func ClaimsOf(t testing.TB, token string) (header, claims Obj, signed string, signature []byte) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("not a JWS: %s", token)
	}
	for i, into := range []*Obj{&header, &claims} {
		plain, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(plain, into) != nil {
			t.Fatalf("part %d of the token is not JSON: %s", i, token)
		}
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	return header, claims, parts[0] + "." + parts[1], signature
}

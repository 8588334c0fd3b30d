package blackbox

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hpke"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// exitKeys is the exit code of the command line when it refuses keys.
const exitKeys = 10

// profile is an organization on disk with one agent, as the command line stores it.
type profile struct {
	t              *testing.T
	dir            string
	s              *server
	slug, id, name string
}

// profileAt uses the command line to register an organization at base and create an
// agent. base is the server or a proxy in front of it.
func (s *server) profileAt(t *testing.T, base, name string) *profile {
	t.Helper()
	p := &profile{t: t, dir: filepath.Join(t.TempDir(), name), s: s, slug: freshSlug(), name: name}
	succeeds(t, "register", p.slug, "--email", "ops@"+p.slug+".example", "--url", base, "--profile", p.dir)
	p.id = text(p.run("agent", "create", name), "id")
	return p
}

func (p *profile) handle() string { return p.name + "@" + p.slug + ".localhost" }

// run runs a command that must succeed.
func (p *profile) run(args ...string) obj {
	p.t.Helper()
	return succeeds(p.t, append(args, "--profile", p.dir)...)
}

// fails runs a command that must fail because of keys. It returns the key ids that the
// command offers to accept, and its output.
func (p *profile) fails(args ...string) (kids []string, said string) {
	p.t.Helper()
	_, said, code := command(p.t, append(args, "--profile", p.dir, "--json")...)
	var f struct {
		Code   string
		Error  string
		Accept []string
	}
	if err := json.Unmarshal([]byte(said), &f); err != nil || code != exitKeys {
		p.t.Fatalf("parley %v: exit code %d, want %d\n%s", args, code, exitKeys, said)
	}
	return f.Accept, f.Error
}

// org is the organization as used by a thief of its credentials.
func (p *profile) org() *org {
	p.t.Helper()
	var kept struct {
		Client string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if err := json.Unmarshal(contentOf(p.t, filepath.Join(p.dir, "credentials.json")), &kept); err != nil {
		p.t.Fatal(err)
	}
	return &org{t: p.t, s: p.s, token: p.s.grant(p.t, kept.Client, kept.Secret).want(200).str("access_token")}
}

// newest returns the newest message of the agent's inbox, as stored on the server.
func (p *profile) newest() obj {
	p.t.Helper()
	items := p.org().get("/agents/" + p.id + "/messages?limit=1").want(200).items()
	if len(items) == 0 {
		p.t.Fatal("the inbox is empty")
	}
	return items[0]
}

// unseal opens an hpke-v1 payload with an X25519 key and returns the content that follows
// the signature. See docs/encryption.md.
func unseal(t *testing.T, key *ecdh.PrivateKey, payload string) string {
	t.Helper()
	box, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || box[0] != 2 {
		t.Fatalf("not of version 2: %v", err)
	}
	private, err := hpke.NewDHKEMPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := hpke.Open(private, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("parley/hpke-v1"), box[1:])
	if err != nil {
		t.Fatalf("the key does not open the payload: %v", err)
	}
	return string(plain[1+int(plain[0])+ed25519.SignatureSize:])
}

// sealAs makes an hpke-v1 payload from one agent to another, signed with a key.
func sealAs(t *testing.T, sign ed25519.PrivateKey, from, to string, recipient []byte, payload string) string {
	t.Helper()
	public, err := ecdh.X25519().NewPublicKey(recipient)
	if err != nil {
		t.Fatal(err)
	}
	key, err := hpke.NewDHKEMPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	signed := "parley/hpke-v1/signature/2\n" + from + "\n" + to + "\n" + thumbprint("X25519", recipient) + "\n" + payload
	kid := thumbprint("Ed25519", sign.Public().(ed25519.PublicKey))
	plain := slices.Concat([]byte{byte(len(kid))}, []byte(kid), ed25519.Sign(sign, []byte(signed)), []byte(payload))
	sealed, err := hpke.Seal(key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("parley/hpke-v1"), plain)
	if err != nil {
		t.Fatal(err)
	}
	return b64(append([]byte{2}, sealed...))
}

// A thief of the organization's token replaces Bob's encryption key. Alice's client does
// not seal to the new key.
func TestTokenCannotRedirectMail(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		alice, bob := s.profileAt(t, s.base, "alice"), s.profileAt(t, s.base, "bob")
		alice.run("send", bob.handle(), "before")
		honest := bob.newest()["id"]
		words := text(bob.run("agent", "show", "bob"), "verification_words")

		_, mine := newKeys()
		kid := thumbprint("X25519", mine.PublicKey().Bytes())
		thief := bob.org()
		thief.post("/agents/"+bob.id+"/keys", obj{"encryption_public_key": sealJWK(mine)}).want(200).is("verification_words", words)

		kids, said := alice.fails("send", bob.handle(), "for Bob alone")
		checkMessage(t, "a changed encryption key", said, bob.handle(), kid, "--accept-key "+kid)
		if !slices.Equal(kids, []string{kid}) || bob.newest()["id"] != honest {
			t.Fatalf("the client offers to accept %v; the newest message is %v", kids, bob.newest()["id"])
		}
		stranger := s.profileAt(t, s.base, "carol")
		if _, said := stranger.fails("send", bob.handle(), "hello"); !strings.Contains(said, "without a binding") {
			t.Errorf("first contact: %s", said)
		}
		if _, said := bob.fails("inbox"); !strings.Contains(said, "key restore bob") {
			t.Errorf("the owner's warning: %s", said)
		}
		shown := alice.run("key", "show", bob.handle())
		if shown["state"] != "unbound" || shown["problem"] != "binding_missing" || shown["verification_words"] != words || at(shown, "pinned.encryption_kid") == kid {
			t.Errorf("key show: %v", shown)
		}

		// The control: after the key was accepted without comparison, the message opens
		// with the thief's key.
		alice.run("send", bob.handle(), "for Bob alone", "--accept-key", kid)
		if got := unseal(t, mine, text(bob.newest(), "encrypted_payload")); got != "for Bob alone" {
			t.Fatalf("the thief reads %q", got)
		}

		for _, want := range []string{"[encryption]", "[]"} {
			if got := fmt.Sprint(bob.run("key", "restore", "bob")["replaced"]); got != want {
				t.Errorf("replaced %s, want %s", got, want)
			}
		}
		alice.run("send", bob.handle(), "for Bob alone, again")
		stranger.run("send", bob.handle(), "hello")
		inbox := bob.run("inbox", "--limit", "2")
		for i, want := range []string{"hello", "for Bob alone, again"} {
			if row := inbox["items"].([]any)[i].(obj); row["payload"] != want || row["verified"] != true {
				t.Errorf("Bob reads %v, want %s", row, want)
			}
		}
	})
}

// The thief replaces both keys and binds them as the agent would. After Bob restores his
// keys, clients that had pinned them continue without a prompt; clients that had not do
// so after his next rotation.
func TestBothKeysAreRestored(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		alice, bob, carol := s.profileAt(t, s.base, "alice"), s.profileAt(t, s.base, "bob"), s.profileAt(t, s.base, "carol")
		alice.run("send", bob.handle(), "before")
		sign, seal := newKeys()
		at := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
		bob.org().post("/agents/"+bob.id+"/keys", obj{
			"signing_public_key": signJWK(sign), "encryption_public_key": sealJWK(seal),
			"key_binding": obj{"signed_at": at, "signature": bindingBy(sign, seal, bob.id, bob.handle(), at)},
		}).want(200)
		if kids, _ := alice.fails("send", bob.handle(), "for Bob alone"); !slices.Equal(kids, []string{thumbprint("Ed25519", sign.Public().(ed25519.PublicKey))}) {
			t.Errorf("the client offers to accept %v", kids)
		}
		out, said, code := command(t, "key", "restore", "bob", "--profile", bob.dir)
		if code != 0 || !strings.Contains(out, "replaced the published keys (signing, encryption) of") || !strings.Contains(said, "agent rotate-keys bob") {
			t.Errorf("exit code %d\n%s", code, said)
		}
		alice.run("send", bob.handle(), "for Bob alone")
		carol.fails("send", bob.handle(), "hello")
		bob.run("agent", "rotate-keys", "bob")
		carol.run("send", bob.handle(), "hello")
		alice.run("send", bob.handle(), "hello again")
	})
}

// A rotation by Bob's own client causes no prompt.
func TestRotationNeedsNoQuestion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		alice, bob := s.profileAt(t, s.base, "alice"), s.profileAt(t, s.base, "bob")
		alice.run("send", bob.handle(), "hello")
		for range 2 {
			bob.run("agent", "rotate-keys", "bob")
		}
		alice.run("send", bob.handle(), "after the rotations")
		if got := bob.run("inbox", "--limit", "1")["items"].([]any)[0].(obj); got["payload"] != "after the rotations" {
			t.Errorf("Bob reads %v", got)
		}
		for _, reader := range []*profile{alice, s.profileAt(t, s.base, "carol")} {
			if shown := reader.run("key", "show", bob.handle()); shown["state"] != "bound" || shown["problem"] != nil {
				t.Errorf("key show: %v", shown)
			}
		}
	})
}

// Mail signed with a key before its replacement is shown as such; what a thief of that
// key signs later does not verify.
func TestReplacedKeySignsNoMore(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		alice, bob := s.profileAt(t, s.base, "alice"), s.profileAt(t, s.base, "bob")
		bob.run("send", alice.handle(), "early")
		var ring struct {
			Signing struct{ D, Kid string } `json:"signing_key"`
		}
		if err := json.Unmarshal(contentOf(t, filepath.Join(bob.dir, "keys", "bob.json")), &ring); err != nil {
			t.Fatal(err)
		}
		seed, err := base64.RawURLEncoding.DecodeString(ring.Signing.D)
		if err != nil {
			t.Fatal(err)
		}
		recipient, err := base64.RawURLEncoding.DecodeString(text(alice.run("agent", "show", "alice"), "encryption_public_key.x"))
		if err != nil {
			t.Fatal(err)
		}
		forge := func(words string) {
			sealed := sealAs(t, ed25519.NewKeyFromSeed(seed), bob.id, alice.id, recipient, words)
			bob.org().post("/messages", obj{"to_agent_id": alice.id, "type": "svc.v1.dm", "encrypted_payload": sealed, "encryption_version": "hpke-v1"}).want(201)
		}
		rows := func() (found []obj) {
			for _, row := range alice.run("inbox")["items"].([]any) {
				found = append(found, row.(obj))
			}
			return found
		}
		forge("while the key is current") // the control: it verifies like any other
		if row := rows()[0]; row["verified"] != true || row["payload"] != "while the key is current" || row["former_key"] != false {
			t.Fatalf("%v", row)
		}
		bob.run("agent", "rotate-keys", "bob")
		forge("after the rotation")
		bob.run("key", "retire", "bob", ring.Signing.Kid)
		forge("after the retirement")
		for _, reader := range []string{"that met Bob before", "of first contact"} {
			for i, row := range rows() {
				forged := i < 2
				if row["verified"] == forged || (row["payload"] == nil) != forged || row["former_key"] == forged {
					t.Errorf("a client %s, row %d: %v", reader, i, row)
				}
			}
			if err := os.RemoveAll(filepath.Join(alice.dir, "keys", "pins")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// lyingServer is a server that serves false keys for one agent and forges its mail.
type lyingServer struct {
	*httptest.Server
	mu      sync.Mutex
	agent   string // agent id; empty while it serves the truth
	keys    obj    // the keys it serves for that agent
	payload string // the payload of all messages from that agent, unless empty
}

// newLyingServer forwards to the server unchanged until it is given false keys.
func newLyingServer(t *testing.T, s *server) *lyingServer {
	target, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	l := &lyingServer{}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: l.modifyResponse,
	}
	l.Server = httptest.NewServer(proxy)
	t.Cleanup(l.Close)
	return l
}

func (l *lyingServer) modifyResponse(r *http.Response) error {
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
		v = obj{"items": []any{l.keys["key_binding"]}, "next_cursor": nil, "has_more": false}
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
func (l *lyingServer) rewrite(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			l.rewrite(e)
		}
	case obj:
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

// bindingBy returns the signature of an agent's binding of two keys.
func bindingBy(sign ed25519.PrivateKey, seal *ecdh.PrivateKey, id, handle, at string) string {
	signKid, sealKid := thumbprint("Ed25519", sign.Public().(ed25519.PublicKey)), thumbprint("X25519", seal.PublicKey().Bytes())
	return b64(ed25519.Sign(sign, []byte("svc-keys-v1\n"+id+"\n"+handle+"\n"+signKid+"\n"+sealKid+"\n"+at)))
}

// impersonate makes the proxy serve its own keys for an agent, bound to each other as the
// agent would bind them.
func (l *lyingServer) impersonate(id, handle string, sign ed25519.PrivateKey, seal *ecdh.PrivateKey) {
	signKid, sealKid := thumbprint("Ed25519", sign.Public().(ed25519.PublicKey)), thumbprint("X25519", seal.PublicKey().Bytes())
	const at = "2099-01-01T00:00:00Z"
	signature := bindingBy(sign, seal, id, handle, at)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.agent = id
	l.keys = obj{
		"signing_public_key": merged(signJWK(sign), obj{"kid": signKid}), "encryption_public_key": merged(sealJWK(seal), obj{"kid": sealKid}),
		"key_binding": obj{
			"signature": signature, "signed_at": at, "signing_kid": signKid, "encryption_kid": sealKid,
			"previous_signature": signature, "continuity": "signed",
		},
		"unbound_since": nil, "valid_from": "2020-01-01T00:00:00Z", "valid_until": nil, "retired_at": nil,
	}
}

// forge puts a payload into all messages from the agent.
func (l *lyingServer) forge(payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.payload = payload
}

// Clients detect a server that begins to serve false keys after first contact, for
// sending and receiving. A server that does so at first contact is trusted, as the
// documents say.
func TestLyingServerIsNoticed(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		l := newLyingServer(t, s)
		alice, bob, carol := s.profileAt(t, l.URL, "alice"), s.profileAt(t, s.base, "bob"), s.profileAt(t, s.base, "carol")
		alice.run("send", bob.handle(), "before")
		bob.run("send", alice.handle(), "from the real Bob")
		group := text(alice.run("group", "create", "team", bob.handle(), carol.handle(), "--policy", "open"), "id")
		for _, p := range []*profile{bob, carol} {
			p.run("group", "join", group)
		}

		sign, seal := newKeys()
		l.impersonate(bob.id, bob.handle(), sign, seal)
		kid := thumbprint("Ed25519", sign.Public().(ed25519.PublicKey))
		if kids, said := alice.fails("send", bob.handle(), "for Bob alone"); !slices.Equal(kids, []string{kid}) {
			t.Errorf("the client offers to accept %v: %s", kids, said)
		}
		if kids, _ := alice.fails("send", bob.id, "for Bob alone", "--accept-key", "another"); len(kids) != 1 {
			t.Errorf("another key was accepted: %v", kids)
		}
		sent := alice.run("group", "send", group, "to all")
		if missed := text(sent, "key_missed_by."+bob.id); !strings.Contains(missed, bob.handle()) || len(sent["key_given_to"].([]any)) != 1 {
			t.Errorf("a group send: %v", sent)
		}
		if row := carol.run("inbox", "--limit", "1")["items"].([]any)[0].(obj); row["payload"] != "to all" || row["verified"] != true {
			t.Errorf("Carol reads %v", row)
		}

		// Mail from Bob verifies with the pinned key, a forgery does not.
		row := alice.run("inbox", "--limit", "1")["items"].([]any)[0].(obj)
		if row["verified"] != true || row["payload"] != "from the real Bob" {
			t.Errorf("Bob's own mail: %v", row)
		}
		recipient, err := base64.RawURLEncoding.DecodeString(text(alice.run("agent", "show", "alice"), "encryption_public_key.x"))
		if err != nil {
			t.Fatal(err)
		}
		l.forge(sealAs(t, sign, bob.id, alice.id, recipient, "from the liar"))
		row = alice.run("inbox", "--limit", "1")["items"].([]any)[0].(obj)
		if row["verified"] != false || row["payload"] != nil || !strings.Contains(text(row, "open_error"), kid) {
			t.Errorf("a forgery: %v", row)
		}

		// The control: without the pins, both verify as Bob's.
		if err := os.RemoveAll(filepath.Join(alice.dir, "keys", "pins")); err != nil {
			t.Fatal(err)
		}
		row = alice.run("inbox", "--limit", "1")["items"].([]any)[0].(obj)
		if row["verified"] != true || row["payload"] != "from the liar" {
			t.Errorf("without pins: %v", row)
		}
		alice.run("send", bob.handle(), "for Bob alone")
		if got := unseal(t, seal, text(bob.newest(), "encrypted_payload")); got != "for Bob alone" {
			t.Errorf("the false server reads %q", got)
		}
	})
}

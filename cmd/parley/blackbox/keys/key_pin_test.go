package keys

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hpke"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

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
	signed := "parley/hpke-v1/signature/2\n" + from + "\n" + to + "\n" + kit.Thumbprint("X25519", recipient) + "\n" + payload
	kid := kit.Thumbprint("Ed25519", sign.Public().(ed25519.PublicKey))
	plain := slices.Concat([]byte{byte(len(kid))}, []byte(kid), ed25519.Sign(sign, []byte(signed)), []byte(payload))
	sealed, err := hpke.Seal(key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("parley/hpke-v1"), plain)
	if err != nil {
		t.Fatal(err)
	}
	return kit.B64(append([]byte{2}, sealed...))
}

// A thief of the organization's token replaces Bob's encryption key. Alice's client does
// not seal to the new key.
func TestTokenCannotRedirectMail(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		alice, bob := s.ProfileAt(t, s.Base, "alice"), s.ProfileAt(t, s.Base, "bob")
		alice.Run("send", bob.Handle(), "before")
		honest := bob.Newest()["id"]
		words := kit.Text(bob.Run("agent", "show", "bob"), "verification_words")

		_, mine := kit.NewKeys()
		kid := kit.Thumbprint("X25519", mine.PublicKey().Bytes())
		thief := bob.Org()
		thief.Post("/agents/"+bob.ID+"/keys", obj{"encryption_public_key": kit.SealJWK(mine)}).Want(200).Is("verification_words", words)

		kids, said := alice.Fails("send", bob.Handle(), "for Bob alone")
		kit.CheckMessage(t, "a changed encryption key", said, bob.Handle(), kid, "--accept-key "+kid)
		if !slices.Equal(kids, []string{kid}) || bob.Newest()["id"] != honest {
			t.Fatalf("the client offers to accept %v; the newest message is %v", kids, bob.Newest()["id"])
		}
		stranger := s.ProfileAt(t, s.Base, "carol")
		if _, said := stranger.Fails("send", bob.Handle(), "hello"); !strings.Contains(said, "without a binding") {
			t.Errorf("first contact: %s", said)
		}
		if _, said := bob.Fails("inbox"); !strings.Contains(said, "key restore bob") {
			t.Errorf("the owner's warning: %s", said)
		}
		shown := alice.Run("key", "show", bob.Handle())
		if shown["state"] != "unbound" || shown["problem"] != "binding_missing" || shown["verification_words"] != words || kit.At(shown, "pinned.encryption_kid") == kid {
			t.Errorf("key show: %v", shown)
		}

		// The control: after the key was accepted without comparison, the message opens
		// with the thief's key.
		alice.Run("send", bob.Handle(), "for Bob alone", "--accept-key", kid)
		if got := unseal(t, mine, kit.Text(bob.Newest(), "encrypted_payload")); got != "for Bob alone" {
			t.Fatalf("the thief reads %q", got)
		}

		for _, want := range []string{"[encryption]", "[]"} {
			if got := fmt.Sprint(bob.Run("key", "restore", "bob")["replaced"]); got != want {
				t.Errorf("replaced %s, want %s", got, want)
			}
		}
		alice.Run("send", bob.Handle(), "for Bob alone, again")
		stranger.Run("send", bob.Handle(), "hello")
		inbox := bob.Run("inbox", "--limit", "2")
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
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		alice, bob, carol := s.ProfileAt(t, s.Base, "alice"), s.ProfileAt(t, s.Base, "bob"), s.ProfileAt(t, s.Base, "carol")
		alice.Run("send", bob.Handle(), "before")
		sign, seal := kit.NewKeys()
		at := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
		bob.Org().Post("/agents/"+bob.ID+"/keys", obj{
			"signing_public_key": kit.SignJWK(sign), "encryption_public_key": kit.SealJWK(seal),
			"key_binding": obj{"signed_at": at, "signature": kit.BindingBy(sign, seal, bob.ID, bob.Handle(), at)},
		}).Want(200)
		if kids, _ := alice.Fails("send", bob.Handle(), "for Bob alone"); !slices.Equal(kids, []string{kit.Thumbprint("Ed25519", sign.Public().(ed25519.PublicKey))}) {
			t.Errorf("the client offers to accept %v", kids)
		}
		out, said, code := kit.Command(t, "key", "restore", "bob", "--profile", bob.Dir)
		if code != 0 || !strings.Contains(out, "replaced the published keys (signing, encryption) of") || !strings.Contains(said, "agent rotate-keys bob") {
			t.Errorf("exit code %d\n%s", code, said)
		}
		alice.Run("send", bob.Handle(), "for Bob alone")
		carol.Fails("send", bob.Handle(), "hello")
		bob.Run("agent", "rotate-keys", "bob")
		carol.Run("send", bob.Handle(), "hello")
		alice.Run("send", bob.Handle(), "hello again")
	})
}

// A rotation by Bob's own client causes no prompt.
func TestRotationNeedsNoQuestion(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		alice, bob := s.ProfileAt(t, s.Base, "alice"), s.ProfileAt(t, s.Base, "bob")
		alice.Run("send", bob.Handle(), "hello")
		for range 2 {
			bob.Run("agent", "rotate-keys", "bob")
		}
		alice.Run("send", bob.Handle(), "after the rotations")
		if got := bob.Run("inbox", "--limit", "1")["items"].([]any)[0].(obj); got["payload"] != "after the rotations" {
			t.Errorf("Bob reads %v", got)
		}
		for _, reader := range []*kit.Profile{alice, s.ProfileAt(t, s.Base, "carol")} {
			if shown := reader.Run("key", "show", bob.Handle()); shown["state"] != "bound" || shown["problem"] != nil {
				t.Errorf("key show: %v", shown)
			}
		}
	})
}

// Mail signed with a key before its replacement is shown as such; what a thief of that
// key signs later does not verify.
func TestReplacedKeySignsNoMore(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		alice, bob := s.ProfileAt(t, s.Base, "alice"), s.ProfileAt(t, s.Base, "bob")
		bob.Run("send", alice.Handle(), "early")
		var ring struct {
			Signing struct{ D, Kid string } `json:"signing_key"`
		}
		if err := json.Unmarshal(kit.ContentOf(t, filepath.Join(bob.Dir, "keys", "bob.json")), &ring); err != nil {
			t.Fatal(err)
		}
		seed, err := base64.RawURLEncoding.DecodeString(ring.Signing.D)
		if err != nil {
			t.Fatal(err)
		}
		recipient, err := base64.RawURLEncoding.DecodeString(kit.Text(alice.Run("agent", "show", "alice"), "encryption_public_key.x"))
		if err != nil {
			t.Fatal(err)
		}
		forge := func(words string) {
			sealed := sealAs(t, ed25519.NewKeyFromSeed(seed), bob.ID, alice.ID, recipient, words)
			bob.Org().Post("/messages", obj{"to_agent_id": alice.ID, "type": "svc.v1.dm", "encrypted_payload": sealed, "encryption_version": "hpke-v1"}).Want(201)
		}
		rows := func() (found []obj) {
			for _, row := range alice.Run("inbox")["items"].([]any) {
				found = append(found, row.(obj))
			}
			return found
		}
		forge("while the key is current") // the control: it verifies like any other
		if row := rows()[0]; row["verified"] != true || row["payload"] != "while the key is current" || row["former_key"] != false {
			t.Fatalf("%v", row)
		}
		bob.Run("agent", "rotate-keys", "bob")
		forge("after the rotation")
		bob.Run("key", "retire", "bob", ring.Signing.Kid)
		forge("after the retirement")
		for _, reader := range []string{"that met Bob before", "of first contact"} {
			for i, row := range rows() {
				forged := i < 2
				if row["verified"] == forged || (row["payload"] == nil) != forged || row["former_key"] == forged {
					t.Errorf("a client %s, row %d: %v", reader, i, row)
				}
			}
			if err := os.RemoveAll(filepath.Join(alice.Dir, "keys", "pins")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Clients detect a server that begins to serve false keys after first contact, for
// sending and receiving. A server that does so at first contact is trusted, as the
// documents say.
func TestLyingServerIsNoticed(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		l := kit.NewLyingServer(t, s)
		alice, bob, carol := s.ProfileAt(t, l.URL, "alice"), s.ProfileAt(t, s.Base, "bob"), s.ProfileAt(t, s.Base, "carol")
		alice.Run("send", bob.Handle(), "before")
		bob.Run("send", alice.Handle(), "from the real Bob")
		group := kit.Text(alice.Run("group", "create", "team", bob.Handle(), carol.Handle(), "--policy", "open"), "id")
		for _, p := range []*kit.Profile{bob, carol} {
			p.Run("group", "join", group)
		}

		sign, seal := kit.NewKeys()
		l.Impersonate(bob.ID, bob.Handle(), sign, seal)
		kid := kit.Thumbprint("Ed25519", sign.Public().(ed25519.PublicKey))
		if kids, said := alice.Fails("send", bob.Handle(), "for Bob alone"); !slices.Equal(kids, []string{kid}) {
			t.Errorf("the client offers to accept %v: %s", kids, said)
		}
		if kids, _ := alice.Fails("send", bob.ID, "for Bob alone", "--accept-key", "another"); len(kids) != 1 {
			t.Errorf("another key was accepted: %v", kids)
		}
		sent := alice.Run("group", "send", group, "to all")
		if missed := kit.Text(sent, "key_missed_by."+bob.ID); !strings.Contains(missed, bob.Handle()) || len(sent["key_given_to"].([]any)) != 1 {
			t.Errorf("a group send: %v", sent)
		}
		if row := carol.Run("inbox", "--limit", "1")["items"].([]any)[0].(obj); row["payload"] != "to all" || row["verified"] != true {
			t.Errorf("Carol reads %v", row)
		}

		// Mail from Bob verifies with the pinned key, a forgery does not.
		row := alice.Run("inbox", "--limit", "1")["items"].([]any)[0].(obj)
		if row["verified"] != true || row["payload"] != "from the real Bob" {
			t.Errorf("Bob's own mail: %v", row)
		}
		recipient, err := base64.RawURLEncoding.DecodeString(kit.Text(alice.Run("agent", "show", "alice"), "encryption_public_key.x"))
		if err != nil {
			t.Fatal(err)
		}
		l.Forge(sealAs(t, sign, bob.ID, alice.ID, recipient, "from the liar"))
		row = alice.Run("inbox", "--limit", "1")["items"].([]any)[0].(obj)
		if row["verified"] != false || row["payload"] != nil || !strings.Contains(kit.Text(row, "open_error"), kid) {
			t.Errorf("a forgery: %v", row)
		}

		// The control: without the pins, both verify as Bob's.
		if err := os.RemoveAll(filepath.Join(alice.Dir, "keys", "pins")); err != nil {
			t.Fatal(err)
		}
		row = alice.Run("inbox", "--limit", "1")["items"].([]any)[0].(obj)
		if row["verified"] != true || row["payload"] != "from the liar" {
			t.Errorf("without pins: %v", row)
		}
		alice.Run("send", bob.Handle(), "for Bob alone")
		if got := unseal(t, seal, kit.Text(bob.Newest(), "encrypted_payload")); got != "for Bob alone" {
			t.Errorf("the false server reads %q", got)
		}
	})
}

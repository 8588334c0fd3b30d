package keys

import (
	"encoding/base64"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// sealVersion returns the version byte of an hpke-v1 text.
func sealVersion(t *testing.T, sealed string) byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || len(b) == 0 {
		t.Fatalf("%.20q: %v", sealed, err)
	}
	return b[0]
}

// TestPostQuantumMessages: two agents with post-quantum keys exchange messages through the
// command line. A server that withholds a key that a profile has pinned is refused.
func TestPostQuantumMessages(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		alice, bob := s.ProfileAt(t, s.Base, "alice"), s.ProfileAt(t, s.Base, "bob")
		exchange := func(want byte) {
			t.Helper()
			for _, c := range []struct{ from, to *kit.Profile }{{alice, bob}, {bob, alice}} {
				sent := c.from.Run("send", c.to.Handle(), "for you alone")
				if got := sealVersion(t, kit.Text(sent, "encrypted_payload")); got != want || sent["post_quantum"] != (want == 3) {
					t.Errorf("%s writes version %d, want %d: %v", c.from.Handle(), got, want, sent["post_quantum"])
				}
				row := c.to.Run("inbox", "--limit", "1")["items"].([]any)[0].(obj)
				if row["payload"] != "for you alone" || row["verified"] != true || row["post_quantum"] != (want == 3) {
					t.Errorf("%s reads %v", c.to.Handle(), row)
				}
			}
		}
		exchange(2)
		for _, p := range []*kit.Profile{alice, bob} {
			record := p.Run("agent", "rotate-keys", p.Name, "--post-quantum")
			if key, _ := record["pq_public_key"].(obj); kit.Text(key, "alg") != "X-Wing" {
				t.Fatalf("after the rotation: %v", record)
			}
		}
		exchange(3)
		bob.Run("agent", "rotate-keys", "bob") // keeps to it
		exchange(3)

		keys := s.Call(t, "", "GET", "/agents/"+bob.ID+"/keys", nil).Want(200)
		pq := keys.At("pq_public_key").(obj)
		bob.Org().Delete("/agents/" + bob.ID + "/keys/pq").Want(204)
		if _, said := alice.Fails("send", bob.Handle(), "for you alone"); !strings.Contains(said, "post-quantum key") {
			t.Errorf("a key that was withheld: %s", said)
		}
		bob.Org().Post("/agents/"+bob.ID+"/keys/pq", obj{"pq_public_key": kit.Without(pq, "kid")}).Want(200)
		exchange(3)
		bob.Org().Post("/agents/"+bob.ID+"/keys/pq", obj{"pq_public_key": kit.KEMKey()}).Want(200)
		out, _, code := kit.Command(t, "key", "restore", "bob", "--profile", bob.Dir)
		if code != 0 || !strings.Contains(out, "replaced the published keys (post-quantum) of") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		exchange(3)
		if out, said, code := kit.Command(t, "key", "show", bob.Handle(), "--profile", alice.Dir); code != 0 || !strings.Contains(out, "X-Wing key id "+kit.Text(pq, "kid")) {
			t.Errorf("exit code %d\n%s%s", code, out, said)
		}
		for _, p := range []*kit.Profile{alice, bob} {
			p.Run("agent", "rotate-keys", p.Name, "--no-post-quantum")
		}
		exchange(2)
	})
}

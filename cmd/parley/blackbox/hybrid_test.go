package blackbox

import (
	"encoding/base64"
	"strings"
	"testing"
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
	each(t, func(t *testing.T, s *server) {
		alice, bob := s.profileAt(t, s.base, "alice"), s.profileAt(t, s.base, "bob")
		exchange := func(want byte) {
			t.Helper()
			for _, c := range []struct{ from, to *profile }{{alice, bob}, {bob, alice}} {
				sent := c.from.run("send", c.to.handle(), "for you alone")
				if got := sealVersion(t, text(sent, "encrypted_payload")); got != want || sent["post_quantum"] != (want == 3) {
					t.Errorf("%s writes version %d, want %d: %v", c.from.handle(), got, want, sent["post_quantum"])
				}
				row := c.to.run("inbox", "--limit", "1")["items"].([]any)[0].(obj)
				if row["payload"] != "for you alone" || row["verified"] != true || row["post_quantum"] != (want == 3) {
					t.Errorf("%s reads %v", c.to.handle(), row)
				}
			}
		}
		exchange(2)
		for _, p := range []*profile{alice, bob} {
			record := p.run("agent", "rotate-keys", p.name, "--post-quantum")
			if key, _ := record["pq_public_key"].(obj); text(key, "alg") != "X-Wing" {
				t.Fatalf("after the rotation: %v", record)
			}
		}
		exchange(3)
		bob.run("agent", "rotate-keys", "bob") // keeps to it
		exchange(3)

		keys := s.call(t, "", "GET", "/agents/"+bob.id+"/keys", nil).want(200)
		pq := keys.at("pq_public_key").(obj)
		bob.org().delete("/agents/" + bob.id + "/keys/pq").want(204)
		if _, said := alice.fails("send", bob.handle(), "for you alone"); !strings.Contains(said, "post-quantum key") {
			t.Errorf("a key that was withheld: %s", said)
		}
		bob.org().post("/agents/"+bob.id+"/keys/pq", obj{"pq_public_key": without(pq, "kid")}).want(200)
		exchange(3)
		bob.org().post("/agents/"+bob.id+"/keys/pq", obj{"pq_public_key": kemKey()}).want(200)
		out, _, code := command(t, "key", "restore", "bob", "--profile", bob.dir)
		if code != 0 || !strings.Contains(out, "replaced the published keys (post-quantum) of") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		exchange(3)
		if out, said, code := command(t, "key", "show", bob.handle(), "--profile", alice.dir); code != 0 || !strings.Contains(out, "X-Wing key id "+text(pq, "kid")) {
			t.Errorf("exit code %d\n%s%s", code, out, said)
		}
		for _, p := range []*profile{alice, bob} {
			p.run("agent", "rotate-keys", p.name, "--no-post-quantum")
		}
		exchange(2)
	})
}

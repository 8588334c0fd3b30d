package blackbox

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestUploadsDoNotLockTheOwner: a thief of the organization's token uploads keys a
// thousand times. Bob can still restore and rotate his keys, and Alice can verify what he
// signed with a former key.
func TestUploadsDoNotLockTheOwner(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		alice, bob := s.profileAt(t, s.base, "alice"), s.profileAt(t, s.base, "bob")
		bob.run("send", alice.handle(), "signed with the first key")
		first := text(bob.run("key", "show", "bob"), "signing_kid")
		bob.run("agent", "rotate-keys", "bob")
		thief := bob.org()
		var taken, refused atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 250 {
					sign, seal := newKeys()
					switch a := thief.post("/agents/"+bob.id+"/keys", obj{"signing_public_key": signJWK(sign), "encryption_public_key": sealJWK(seal)}); {
					case a.status == 200:
						taken.Add(1)
					case a.status == 403 && a.body["quota"] == "former_keys":
						refused.Add(1)
					default:
						a.errorf("an upload")
						return
					}
				}
			})
		}
		all.Wait()
		if taken.Load() < 100 || taken.Load()+refused.Load() != 1000 {
			t.Errorf("%d uploads were accepted, %d rejected", taken.Load(), refused.Load())
		}
		bob.run("key", "restore", "bob")
		for range 3 {
			bob.run("agent", "rotate-keys", "bob")
		}
		bob.run("send", alice.handle(), "signed with the last key")
		rows := alice.run("inbox", "--limit", "2")["items"].([]any)
		for i, want := range []string{"signed with the last key", "signed with the first key"} {
			row := rows[i].(obj)
			if row["payload"] != want || row["verified"] != true {
				t.Errorf("Alice reads %v, want %s", row, want)
			}
		}
		if a := s.call(t, "", "GET", "/agents/"+bob.id+"/keys?kid="+first, nil); a.status != 200 || a.body["valid_until"] == nil {
			a.errorf("Bob's first key")
		}
	})
}

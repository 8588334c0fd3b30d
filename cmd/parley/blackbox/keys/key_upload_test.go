package keys

import (
	"sync"
	"sync/atomic"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// TestUploadsDoNotLockTheOwner: a thief of the organization's token uploads keys a
// thousand times. Bob can still restore and rotate his keys, and Alice can verify what he
// signed with a former key.
func TestUploadsDoNotLockTheOwner(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		alice, bob := s.ProfileAt(t, s.Base, "alice"), s.ProfileAt(t, s.Base, "bob")
		bob.Run("send", alice.Handle(), "signed with the first key")
		first := kit.Text(bob.Run("key", "show", "bob"), "signing_kid")
		bob.Run("agent", "rotate-keys", "bob")
		thief := bob.Org()
		var taken, refused atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 250 {
					sign, seal := kit.NewKeys()
					switch a := thief.Post("/agents/"+bob.ID+"/keys", obj{"signing_public_key": kit.SignJWK(sign), "encryption_public_key": kit.SealJWK(seal)}); {
					case a.Status == 200:
						taken.Add(1)
					case a.Status == 403 && a.Body["quota"] == "former_keys":
						refused.Add(1)
					default:
						a.Errorf("an upload")
						return
					}
				}
			})
		}
		all.Wait()
		if taken.Load() < 100 || taken.Load()+refused.Load() != 1000 {
			t.Errorf("%d uploads were accepted, %d rejected", taken.Load(), refused.Load())
		}
		bob.Run("key", "restore", "bob")
		for range 3 {
			bob.Run("agent", "rotate-keys", "bob")
		}
		bob.Run("send", alice.Handle(), "signed with the last key")
		rows := alice.Run("inbox", "--limit", "2")["items"].([]any)
		for i, want := range []string{"signed with the last key", "signed with the first key"} {
			row := rows[i].(obj)
			if row["payload"] != want || row["verified"] != true {
				t.Errorf("Alice reads %v, want %s", row, want)
			}
		}
		if a := s.Call(t, "", "GET", "/agents/"+bob.ID+"/keys?kid="+first, nil); a.Status != 200 || a.Body["valid_until"] == nil {
			a.Errorf("Bob's first key")
		}
	})
}

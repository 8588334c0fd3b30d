package limits

import (
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
	"parley/http/mls/mlstest"
)

var (
	tenantFor    = flag.Duration("tenant.for", 12*time.Second, "how long a tenant tries to fill the disk")
	tenantStored = flag.Int("tenant.stored", 30_000_000, "its quota stored_bytes")
)

// tenantChanges is the tenant's quota changes_per_day, and tenantChangeBytes what one of them may take of
// the disk.
const (
	tenantChanges     = 1000
	tenantChangeBytes = 10_000
)

// TestTenantEndsAtItsQuotas: a tenant that tries everything that writes, all at once and again and again,
// ends at its quotas: what is stored has grown by what they say and a tenth.
func TestTenantEndsAtItsQuotas(t *testing.T) {
	kit.OneServerOnly(t, "the test is about one directory")
	s := kit.Start(t, "--quota-profile", "public",
		"--quota", fmt.Sprint("tier1.stored_bytes=", *tenantStored), "--quota", fmt.Sprint("tier1.changes_per_day=", tenantChanges),
		"--quota", "tier1.messages_per_day=none", "--quota", "tier1.groups=none",
		"--rate", "writes=none", "--rate", "reads=none", "--rate", "token=none", "--rate", "register=none", "--rate", "public=none", "--rate", "pair=none")
	o := s.Org(t)
	a, b := o.Agent("writer"), o.Agent("reader")
	sealed := grouptest.NewMLS(a, b)
	before := diskOf(t, s.Dir)
	payload := kit.B64(kit.RandomBytes(60_000))
	var epoch atomic.Int64
	epoch.Store(1)
	attacks := map[string]func() *kit.Answer{
		"message": func() *kit.Answer {
			return a.TrySend(b, obj{"encrypted_payload": payload, "self_encrypted_payload": payload})
		},
		"broadcast": func() *kit.Answer {
			return sealed.TryBroadcast(a, obj{"encrypted_payload": kit.B64(mlstest.Application(sealed.ID, uint64(epoch.Load())))})
		},
		"card": func() *kit.Answer {
			return a.Put(a.Path("/card"), kit.Merged(kit.PlainCard(), obj{"description": payload[:4000]}))
		},
		"group":      func() *kit.Answer { return grouptest.TryCreate(a, obj{"description": payload[:500]}) },
		"credential": func() *kit.Answer { return o.Post("/org/credentials", obj{}) },
		"key package": func() *kit.Answer {
			return grouptest.PublishKeyPackages(a, obj{"key_packages": []any{grouptest.KeyPackage(a)}})
		},
		"commit": func() *kit.Answer {
			at := epoch.Load()
			commit := mlstest.Commit{Group: sealed.ID, Epoch: uint64(at), Padding: 100_000}
			done := sealed.TryCommit(a, sealed.CommitBody(uint64(at), obj{"commit": kit.B64(commit.Message())}))
			if done.Status == 201 {
				epoch.CompareAndSwap(at, at+1)
			}
			return done
		},
		"poll token": func() *kit.Answer { return a.Post(a.Path("/poll-token"), obj{}) },
	}
	for name, attack := range attacks { // below the quotas each of them is possible
		if got := attack(); got.Status >= 300 {
			t.Errorf("%s: %d %v", name, got.Status, got.Body)
		}
	}
	end := time.Now().Add(*tenantFor)
	var all sync.WaitGroup
	var mu sync.Mutex
	over, done, other := map[string]int{}, map[string]int{}, map[string]string{}
	for name, attack := range attacks {
		for range 2 {
			all.Go(func() {
				for time.Now().Before(end) {
					got := attack()
					mu.Lock()
					switch code, _ := got.Body["code"].(string); {
					case got.Status < 300:
						done[name]++
					case code == "quota_exceeded":
						over[fmt.Sprint(got.At("quota"))]++
					default:
						other[name] = fmt.Sprintf("%d %s", got.Status, code)
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	quotas := o.Get("/org/quotas").Want(200)
	stored, changes := quotas.At("quotas.stored_bytes.used").(float64), quotas.At("quotas.changes_per_day.used").(float64)
	s.Kill()
	s.Restart(t) // which stores what was only in the engine's logs yet
	grew := diskOf(t, s.Dir) - before
	t.Logf("done %v, refused by quota %v, else %v; %.0f bytes are counted as stored, %.0f changes; the disk grew by %d", done, over, other, stored, changes, grew)
	if stored > 1.05*float64(*tenantStored) || stored < 0.95*float64(*tenantStored) {
		t.Errorf("%.0f bytes are counted as stored, the quota is %d", stored, *tenantStored)
	}
	if changes != tenantChanges {
		t.Errorf("%.0f changes were made, the quota is %d", changes, tenantChanges)
	}
	if most := 1.1 * (float64(*tenantStored) + tenantChanges*tenantChangeBytes); float64(grew) > most {
		t.Errorf("the disk grew by %d bytes, want at most %.0f", grew, most)
	}
	for _, quota := range []string{"stored_bytes", "changes_per_day"} {
		if over[quota] == 0 {
			t.Errorf("nothing was refused by %s", quota)
		}
	}
}

// diskOf is how many bytes the files of a directory take, without the engine's logs: it has at most
// six of 64 MiB in all.
func diskOf(t testing.TB, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(d.Name(), ".log") {
			return nil // or a file that was removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

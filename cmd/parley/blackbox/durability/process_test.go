package durability

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

func TestEverythingSurvivesAKill(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		a, b := kit.Pair(t, s)
		revoked := b.Org.Agent("revoked")
		revoked.Delete(revoked.Path("")).Want(204)
		b.Patch("/org", obj{"name": "Kept", "country_code": "fr"}).Want(200)
		b.Patch(b.Path(""), obj{"unlisted": true}).Want(200)
		sign, _ := kit.NewKeys()
		b.Post(b.Path("/keys"), obj{"signing_public_key": kit.SignJWK(sign)}).Want(200)
		m := a.Send(b, obj{"self_encrypted_payload": "bWluZQ", "conversation_metadata": obj{"k": "v"}})
		r := b.Reply(m)
		conversation := "/conversations/" + kit.Text(m, "conversation_id")
		a.Patch(conversation+"/status", obj{"status": "paused"}).Want(200)
		unread := a.Send(b)
		second := b.Post("/org/credentials", nil).Want(201)
		b.Delete("/org/credentials/" + second.Str("client_id")).Want(204)
		paths := map[*kit.Agent][]string{
			a: {"/org", "/agents", a.Path(""), conversation, conversation + "/participants", conversation + "/messages", a.Path("/conversations"), "/messages/" + kit.Text(r, "id")},
			b: {"/org", "/agents?include_revoked=true", b.Path(""), conversation + "/messages", b.Path("/messages"), b.Path("/conversations"), "/messages/" + kit.Text(m, "id")},
		}
		look := func() map[string]any {
			out := map[string]any{}
			for g, list := range paths {
				for _, path := range list {
					out[g.Name+" "+path] = g.Get(path).Want(200).Value()
				}
			}
			for _, path := range []string{b.Path("/keys"), b.Path("/keys?kid=") + b.SignKid(), "/agents/keys?ids=" + a.ID + "," + b.ID, "/.well-known/jwks.json", strings.TrimPrefix(b.PollURL, s.Base)} {
				out[path] = s.Call(t, "", "GET", path, nil).Want(200).Value()
			}
			return out
		}
		look() // the first read records receipts
		kit.Marked(t, a, unread, "delivered")
		before := look()
		s.Kill()
		s.Restart(t)
		for what, now := range look() {
			if !kit.Same(now, before[what]) {
				t.Errorf("%s changed\nbefore %v\nafter  %v", what, before[what], now)
			}
		}
		s.Grant(t, a.Client, a.Secret).Want(200)
		s.Grant(t, second.Str("client_id"), second.Str("client_secret")).Want(401)
		b.Post("/agents", kit.NewAgent("revoked")).Refused(409, "name_taken")
		s.Call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": a.Slug}).Refused(409, "slug_taken")
		b.Reply(m)
		a.Patch(conversation+"/status", obj{"status": "completed"}).Want(200)
		if n := len(a.Everything()); n != 2 {
			t.Errorf("%d messages in the inbox, want 2", n)
		}
	})
}

func TestDrain(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		a, b := kit.Pair(t, s)
		st := b.Stream("")
		st.Opening()
		waiting := a.Ask(b, "?timeout_ms=1500", nil)
		st.Message()
		began := time.Now()
		if err := s.Drain(10 * time.Second); err != nil {
			t.Fatalf("SIGTERM: %v\n%s", err, s.Log.Tail())
		}
		t.Logf("drained in %v", time.Since(began))
		st.Ends(time.Second)
		if r := <-waiting; r.Err != nil || r.Status != 200 && r.Status != 503 {
			r.Errorf("a request under way is finished")
		} else {
			t.Logf("the pending call was answered %d %v after %v", r.Status, r.At("status"), r.Took)
		}
		if conn, err := net.DialTimeout("tcp", s.Addr, time.Second); err == nil {
			_ = conn.Close()
			t.Error("a process still listens")
		}
		s.Restart(t)
		if n := len(b.Everything()); n != 1 {
			t.Errorf("%d messages after the restart, want 1", n)
		}
	})
}

func TestOneProcessPerDataDirectory(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		began := time.Now()
		said := kit.Fails(t, s.Dir, "--journals", journals)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the second process took %v to fail", took)
		}
		if strings.Contains(said, kit.Announcement) {
			t.Errorf("the second process listened: %s", said)
		}
		if !strings.Contains(said, filepath.Base(s.Dir)) || strings.Contains(said, "goroutine ") {
			t.Errorf("not a clear message about the directory: %s", said)
		}
		s.Call(t, "", "GET", "/health", nil).Want(200)
		s.Org(t)
	})
}

func TestJournalsAreFixed(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		o := s.Org(t)
		if err := s.Drain(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		other := map[string]string{"1": "4", "4": "2"}[journals]
		said := kit.Fails(t, s.Dir, "--journals", other)
		if !strings.Contains(said, "journal") || !strings.Contains(said, journals) || strings.Contains(said, "goroutine ") {
			t.Errorf("not a clear message about the journals: %s", said)
		}
		s.Restart(t)
		o.Get("/org").Want(200).Is("id", o.ID)
	})
}

// TestStartOfAnEmptyServer: the first start writes and syncs the 512 files of the keyring.
func TestStartOfAnEmptyServer(t *testing.T) {
	kit.OneServerOnly(t, "it measures the start")
	for _, v := range kit.Variants {
		t.Run("journals="+v.Journals, func(t *testing.T) {
			best := time.Hour
			for range 3 {
				began := time.Now()
				s := kit.Start(t, "--journals", v.Journals)
				best = min(best, time.Since(began))
				s.Kill()
			}
			if best > 3*time.Second {
				t.Errorf("an empty server took %v to start", best)
			}
		})
	}
}

func TestVersionAndConfigCommands(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"config"}, {"--help"}, {"serve", "--help"}} {
		cmd := exec.Command(kit.Binary, args...)
		cmd.Env, cmd.Dir = kit.CleanEnvironment(), t.TempDir()
		if said, err := cmd.CombinedOutput(); err != nil || len(said) == 0 {
			t.Errorf("parley %v: %v\n%s", args, err, said)
		}
	}
	if said := kit.Fails(t, t.TempDir(), "--no-such-flag"); said == "" {
		t.Error("an unknown flag fails without a message")
	}
}

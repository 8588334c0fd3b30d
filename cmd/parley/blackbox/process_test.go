package blackbox

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEverythingSurvivesAKill(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals)
		a, b := pair(t, s)
		revoked := b.org.agent("revoked")
		revoked.delete(revoked.path("")).want(204)
		b.patch("/org", obj{"name": "Kept", "country_code": "fr"}).want(200)
		b.patch(b.path(""), obj{"unlisted": true}).want(200)
		sign, _ := newKeys()
		b.post(b.path("/keys"), obj{"signing_public_key": signJWK(sign)}).want(200)
		m := a.send(b, obj{"self_encrypted_payload": "bWluZQ", "conversation_metadata": obj{"k": "v"}})
		r := b.reply(m)
		conversation := "/conversations/" + text(m, "conversation_id")
		a.patch(conversation+"/status", obj{"status": "paused"}).want(200)
		unread := a.send(b)
		second := b.post("/org/credentials", nil).want(201)
		b.delete("/org/credentials/" + second.str("client_id")).want(204)
		paths := map[*agent][]string{
			a: {"/org", "/agents", a.path(""), conversation, conversation + "/participants", conversation + "/messages", a.path("/conversations"), "/messages/" + text(r, "id")},
			b: {"/org", "/agents?include_revoked=true", b.path(""), conversation + "/messages", b.path("/messages"), b.path("/conversations"), "/messages/" + text(m, "id")},
		}
		look := func() map[string]any {
			out := map[string]any{}
			for g, list := range paths {
				for _, path := range list {
					out[g.name+" "+path] = g.get(path).want(200).value()
				}
			}
			for _, path := range []string{b.path("/keys"), b.path("/keys?kid=") + b.signKid(), "/agents/keys?ids=" + a.id + "," + b.id, "/.well-known/jwks.json", strings.TrimPrefix(b.pollURL, s.base)} {
				out[path] = s.call(t, "", "GET", path, nil).want(200).value()
			}
			return out
		}
		look() // the first read records receipts
		marked(t, a, unread, "delivered")
		before := look()
		s.kill()
		s.restart(t)
		for what, now := range look() {
			if !same(now, before[what]) {
				t.Errorf("%s changed\nbefore %v\nafter  %v", what, before[what], now)
			}
		}
		s.grant(t, a.client, a.secret).want(200)
		s.grant(t, second.str("client_id"), second.str("client_secret")).want(401)
		b.post("/agents", newAgent("revoked")).refused(409, "name_taken")
		s.call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": a.slug}).refused(409, "slug_taken")
		b.reply(m)
		a.patch(conversation+"/status", obj{"status": "completed"}).want(200)
		if n := len(a.everything()); n != 2 {
			t.Errorf("%d messages in the inbox, want 2", n)
		}
	})
}

func TestDrain(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals)
		a, b := pair(t, s)
		st := b.stream("")
		st.opening()
		waiting := a.ask(b, "?timeout_ms=1500", nil)
		st.message()
		began := time.Now()
		if err := s.drain(10 * time.Second); err != nil {
			t.Fatalf("SIGTERM: %v\n%s", err, s.log.tail())
		}
		t.Logf("drained in %v", time.Since(began))
		st.ends(time.Second)
		if r := <-waiting; r.err != nil || r.status != 200 && r.status != 503 {
			r.errorf("a request under way is finished")
		} else {
			t.Logf("the pending call was answered %d %v after %v", r.status, r.at("status"), r.took)
		}
		if conn, err := net.DialTimeout("tcp", s.addr, time.Second); err == nil {
			_ = conn.Close()
			t.Error("a process still listens")
		}
		s.restart(t)
		if n := len(b.everything()); n != 1 {
			t.Errorf("%d messages after the restart, want 1", n)
		}
	})
}

func TestOneProcessPerDataDirectory(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals)
		began := time.Now()
		said := fails(t, s.dir, "--journals", journals)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the second process took %v to fail", took)
		}
		if strings.Contains(said, announcement) {
			t.Errorf("the second process listened: %s", said)
		}
		if !strings.Contains(said, filepath.Base(s.dir)) || strings.Contains(said, "goroutine ") {
			t.Errorf("not a clear message about the directory: %s", said)
		}
		s.call(t, "", "GET", "/health", nil).want(200)
		s.org(t)
	})
}

func TestJournalsAreFixed(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals)
		o := s.org(t)
		if err := s.drain(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		other := map[string]string{"1": "4", "4": "2"}[journals]
		said := fails(t, s.dir, "--journals", other)
		if !strings.Contains(said, "journal") || !strings.Contains(said, journals) || strings.Contains(said, "goroutine ") {
			t.Errorf("not a clear message about the journals: %s", said)
		}
		s.restart(t)
		o.get("/org").want(200).is("id", o.id)
	})
}

// TestStartOfAnEmptyServer: the first start writes and syncs the 512 files of the keyring.
func TestStartOfAnEmptyServer(t *testing.T) {
	oneServerOnly(t, "it measures the start")
	for _, v := range variants {
		t.Run("journals="+v.journals, func(t *testing.T) {
			best := time.Hour
			for range 3 {
				began := time.Now()
				s := start(t, "--journals", v.journals)
				best = min(best, time.Since(began))
				s.kill()
			}
			if best > 3*time.Second {
				t.Errorf("an empty server took %v to start", best)
			}
		})
	}
}

func TestVersionAndConfigCommands(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"config"}, {"--help"}, {"serve", "--help"}} {
		cmd := exec.Command(binary, args...)
		cmd.Env, cmd.Dir = cleanEnvironment(), t.TempDir()
		if said, err := cmd.CombinedOutput(); err != nil || len(said) == 0 {
			t.Errorf("parley %v: %v\n%s", args, err, said)
		}
	}
	if said := fails(t, t.TempDir(), "--no-such-flag"); said == "" {
		t.Error("an unknown flag fails without a message")
	}
}

package durability

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestReadsBelowTheReserve leaves less free space than the reserve. Reads succeed and
// writes are rejected, also after a restart. After space is freed, both succeed.
func TestReadsBelowTheReserve(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		disk := kit.MountDisk(t, 64)
		s, err := kit.Launch("127.0.0.1:0", filepath.Join(disk.Dir, "data"), "--journals", journals)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.Kill()
			if t.Failed() {
				t.Log(s.Log.Tail())
			}
		})
		w := newReadFixture(t, s)
		w.reads()
		disk.Below(4 << 20)
		waitUntilSick(t, s, time.Second)
		w.reads()
		w.refused()
		for range 5 { // the server may check the space before or after it reads the keys
			if err := s.Drain(10 * time.Second); err != nil {
				t.Fatalf("SIGTERM below the reserve: %v", err)
			}
			s.Restart(t)
			waitUntilSick(t, s, time.Second)
			w.reads()
		}
		w.refused()
		w.reads()
		disk.Drop("below")
		waitUntilHealthy(t, s, 2*time.Second)
		w.taken()
		w.reads()
		if err := s.Drain(10 * time.Second); err != nil {
			t.Error(err)
		}
		if said, err := exec.Command(kit.Binary, "verify", "--data", s.Dir).CombinedOutput(); err != nil {
			t.Errorf("parley verify: %v\n%s", err, said)
		}
	})
}

// readFixture has data for every read: a public group with a pending vote and a
// conversation, and a group with a pending invitation.
type readFixture struct {
	t                  *testing.T
	s                  *kit.Server
	alice, bob, carol  *kit.Agent
	board, cellar      *grouptest.Group
	message, broadcast obj
	request            string
}

func newReadFixture(t *testing.T, s *kit.Server) *readFixture {
	t.Helper()
	w := &readFixture{t: t, s: s}
	w.alice, w.bob = kit.Pair(t, s)
	w.carol = w.alice.Agent("carol")
	w.board = grouptest.NewWithPolicy(w.alice, "majority", w.carol)
	w.board.Patch(obj{"visibility": "public"}).Want(200)
	w.request = kit.Text(w.board.Applied(w.bob), "id")
	w.cellar = grouptest.New(w.alice, obj{"enrollment_policy": "closed"})
	w.cellar.Invited(w.alice, w.bob, "invited")
	w.broadcast = w.board.Broadcast(w.alice)
	w.message = w.alice.Send(w.bob)
	return w
}

// reads requests every route that reads.
func (w *readFixture) reads() {
	w.t.Helper()
	talk, groupTalk := "/conversations/"+kit.Text(w.message, "conversation_id"), "/conversations/"+kit.Text(w.broadcast, "conversation_id")
	for _, path := range []string{
		"/org", "/org/quotas", "/groups", "/groups?scope=all", "/groups/invites", w.board.Path(""), w.board.Path("/members"),
		w.board.Path("/requests"), w.board.Path("/requests?status=all"), w.cellar.Path(""), "/directory/groups", "/directory/groups/" + w.board.ID,
		"/agents", w.alice.Path(""), w.alice.Path("/keys"), w.alice.Path("/messages"), w.alice.Path("/conversations"),
		talk, talk + "/participants", talk + "/messages", groupTalk, groupTalk + "/participants", groupTalk + "/messages",
		"/messages/" + kit.Text(w.message, "id"), "/messages/" + kit.Text(w.message, "id") + "/trace", "/webhooks?agent_id=" + w.alice.ID,
		"/.well-known/jwks.json", "/openapi.json",
	} {
		if a := w.alice.Request("GET", path, nil); a.Err != nil || a.Status != 200 {
			a.Errorf("a read failed")
		}
	}
	for _, path := range []string{"/groups/invites", w.bob.Path("/messages"), "/org"} {
		if a := w.bob.Request("GET", path, nil); a.Err != nil || a.Status != 200 {
			a.Errorf("a read failed")
		}
	}
	w.s.Grant(w.t, w.alice.Client, w.alice.Secret).Want(200)
}

// writes makes requests that write. Each can succeed once.
func (w *readFixture) writes() []*kit.Answer {
	a, more := w.alice, "late-"+kit.RandomHex(4)
	return []*kit.Answer{
		a.Patch("/org", obj{"name": more}),
		a.Post("/agents", kit.NewAgent(more)),
		a.Patch(a.Path(""), obj{"unlisted": true}),
		a.Post("/org/credentials", nil),
		grouptest.TryCreate(a, obj{"name": more}),
		w.board.Patch(obj{"description": more}),
		w.board.TryBroadcast(a, nil),
		w.cellar.Join(w.bob),
		w.board.Vote(a, w.request, "approve"),
		w.board.Vote(w.carol, w.request, "approve"),
		a.TrySend(w.bob, nil),
		w.s.Call(w.t, "", "POST", "/auth/register", obj{"email": "ops@late.example", "org_slug": more}),
	}
}

// refused checks that the server rejects writes and says when to retry.
func (w *readFixture) refused() {
	w.t.Helper()
	for _, a := range w.writes() {
		a.Refused(503, "overloaded")
		if s, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || s < 1 {
			a.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
		}
	}
	w.board.Read(w.alice).Is("description", nil, "member_count", 2)
	w.cellar.Read(w.alice).Is("member_count", 1)
	if n := len(w.bob.Everything()); n != 2 {
		w.t.Errorf("%d messages arrived in the inbox, want the sent one and the invitation", n)
	}
}

// taken checks that all writes succeed.
func (w *readFixture) taken() {
	w.t.Helper()
	for _, a := range w.writes() {
		if a.Err != nil || a.Status/100 != 2 {
			a.Errorf("a write failed")
		}
	}
	w.board.CheckMembers("with room again", w.alice, w.carol, w.bob)
	w.cellar.CheckMembers("with room again", w.alice, w.bob)
}

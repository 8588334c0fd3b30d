package blackbox

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// below fills the disk until left bytes are free, which is less than the server's
// reserve.
func (d *smallDisk) below(left int64) { d.ballast("below", d.free()-left) }

// TestReadsBelowTheReserve leaves less free space than the reserve. Reads succeed and
// writes are rejected, also after a restart. After space is freed, both succeed.
func TestReadsBelowTheReserve(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		disk := mountDisk(t, 64)
		s, err := launch("127.0.0.1:0", filepath.Join(disk.dir, "data"), "--journals", journals)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.kill()
			if t.Failed() {
				t.Log(s.log.tail())
			}
		})
		w := newReadFixture(t, s)
		w.reads()
		disk.below(4 << 20)
		s.waitUntilSick(t, time.Second)
		w.reads()
		w.refused()
		for range 5 { // the server may check the space before or after it reads the keys
			if err := s.drain(10 * time.Second); err != nil {
				t.Fatalf("SIGTERM below the reserve: %v", err)
			}
			s.restart(t)
			s.waitUntilSick(t, time.Second)
			w.reads()
		}
		w.refused()
		w.reads()
		disk.drop("below")
		s.waitUntilHealthy(t, 2*time.Second)
		w.taken()
		w.reads()
		if err := s.drain(10 * time.Second); err != nil {
			t.Error(err)
		}
		if said, err := exec.Command(binary, "verify", "--data", s.dir).CombinedOutput(); err != nil {
			t.Errorf("parley verify: %v\n%s", err, said)
		}
	})
}

// readFixture has data for every read: a public group with a pending vote and a
// conversation, and a group with a pending invitation.
type readFixture struct {
	t                  *testing.T
	s                  *server
	alice, bob, carol  *agent
	board, cellar      *group
	message, broadcast obj
	request            string
}

func newReadFixture(t *testing.T, s *server) *readFixture {
	t.Helper()
	w := &readFixture{t: t, s: s}
	w.alice, w.bob = pair(t, s)
	w.carol = w.alice.agent("carol")
	w.board = w.alice.groupWithPolicy("majority", w.carol)
	w.board.patch(obj{"visibility": "public"}).want(200)
	w.request = text(w.board.applied(w.bob), "id")
	w.cellar = w.alice.group(obj{"enrollment_policy": "closed"})
	w.cellar.invited(w.alice, w.bob, "invited")
	w.broadcast = w.board.broadcast(w.alice)
	w.message = w.alice.send(w.bob)
	return w
}

// reads requests every route that reads.
func (w *readFixture) reads() {
	w.t.Helper()
	talk, groupTalk := "/conversations/"+text(w.message, "conversation_id"), "/conversations/"+text(w.broadcast, "conversation_id")
	for _, path := range []string{
		"/org", "/org/quotas", "/groups", "/groups?scope=all", "/groups/invites", w.board.path(""), w.board.path("/members"),
		w.board.path("/requests"), w.board.path("/requests?status=all"), w.cellar.path(""), "/directory/groups", "/directory/groups/" + w.board.id,
		"/agents", w.alice.path(""), w.alice.path("/keys"), w.alice.path("/messages"), w.alice.path("/conversations"),
		talk, talk + "/participants", talk + "/messages", groupTalk, groupTalk + "/participants", groupTalk + "/messages",
		"/messages/" + text(w.message, "id"), "/messages/" + text(w.message, "id") + "/trace", "/webhooks?agent_id=" + w.alice.id,
		"/.well-known/jwks.json", "/openapi.json",
	} {
		if a := w.alice.request("GET", path, nil); a.err != nil || a.status != 200 {
			a.errorf("a read failed")
		}
	}
	for _, path := range []string{"/groups/invites", w.bob.path("/messages"), "/org"} {
		if a := w.bob.request("GET", path, nil); a.err != nil || a.status != 200 {
			a.errorf("a read failed")
		}
	}
	w.s.grant(w.t, w.alice.client, w.alice.secret).want(200)
}

// writes makes requests that write. Each can succeed once.
func (w *readFixture) writes() []*answer {
	a, more := w.alice, "late-"+randomHex(4)
	return []*answer{
		a.patch("/org", obj{"name": more}),
		a.post("/agents", newAgent(more)),
		a.patch(a.path(""), obj{"unlisted": true}),
		a.post("/org/credentials", nil),
		a.tryCreateGroup(obj{"name": more}),
		w.board.patch(obj{"description": more}),
		w.board.tryBroadcast(a, nil),
		w.cellar.join(w.bob),
		w.board.vote(a, w.request, "approve"),
		w.board.vote(w.carol, w.request, "approve"),
		a.trySend(w.bob, nil),
		w.s.call(w.t, "", "POST", "/auth/register", obj{"email": "ops@late.example", "org_slug": more}),
	}
}

// refused checks that the server rejects writes and says when to retry.
func (w *readFixture) refused() {
	w.t.Helper()
	for _, a := range w.writes() {
		a.refused(503, "overloaded")
		if s, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || s < 1 {
			a.errorf("Retry-After is %q", a.header.Get("Retry-After"))
		}
	}
	w.board.read(w.alice).is("description", nil, "member_count", 2)
	w.cellar.read(w.alice).is("member_count", 1)
	if n := len(w.bob.everything()); n != 2 {
		w.t.Errorf("%d messages arrived in the inbox, want the sent one and the invitation", n)
	}
}

// taken checks that all writes succeed.
func (w *readFixture) taken() {
	w.t.Helper()
	for _, a := range w.writes() {
		if a.err != nil || a.status/100 != 2 {
			a.errorf("a write failed")
		}
	}
	w.board.checkMembers("with room again", w.alice, w.carol, w.bob)
	w.cellar.checkMembers("with room again", w.alice, w.bob)
}

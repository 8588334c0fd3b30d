package blackbox

import (
	"strconv"
	"sync"
	"testing"
	"time"
)

// promise is what one sender was told before the server died.
type promise struct {
	from    *agent
	acked   []*answer // 201s, in order
	unknown []string  // keys whose outcome nobody told
	replies []*answer
	other   []*answer // answers that should not be
	sent    int
}

// keep sends with keys, and replies to its own messages, until the server dies.
func (p *promise) keep(to *agent) {
	for ; ; p.sent++ {
		key := p.from.id + strconv.Itoa(p.sent)
		a := p.from.try(to, obj{"metadata": obj{"key": key}}, "Idempotency-Key", key)
		switch {
		case a.err != nil:
			p.unknown = append(p.unknown, key)
			p.sent++
			return
		case a.status != 201:
			p.other = append(p.other, a)
			return
		}
		p.acked = append(p.acked, a)
		if p.sent%4 == 0 {
			if r := to.answerTo(a.body, nil); r.err == nil && r.status == 201 {
				p.replies = append(p.replies, r)
			}
		}
	}
}

func TestKillUnderLoad(t *testing.T) {
	const senders = 16
	for _, v := range variants {
		t.Run("journals="+v.journals, func(t *testing.T) {
			s := start(t, "--journals", v.journals)
			to := s.org(t).agent("target")
			promises := make([]promise, senders)
			for i := range promises {
				promises[i].from = s.org(t).agent("sender")
			}
			follower := &follower{g: to, last: nilUUID}
			for round := range 2 {
				pages := load(s, to, promises, follower)
				s.restart(t)
				t.Logf("round %d: %d followed", round, len(follower.got))
				settled(t, to, promises, pages, follower)
			}
		})
	}
}

// load runs senders, a follower and a reader of pages, and kills the server
// under them. It gives the ids that pages showed.
func load(s *server, to *agent, promises []promise, f *follower) map[string]bool {
	shown := map[string]bool{}
	var wg sync.WaitGroup
	for i := range promises {
		wg.Go(func() { promises[i].keep(to) })
	}
	wg.Go(func() { _ = f.follow(time.Minute) })
	wg.Go(func() {
		for {
			a := to.get(to.path("/messages?limit=5"))
			if a.err != nil || a.status != 200 {
				return
			}
			for _, id := range ids(a.items()) {
				shown[id] = true
			}
		}
	})
	time.Sleep(700 * time.Millisecond)
	s.kill()
	wg.Wait()
	return shown
}

// settled checks every promise after the restart.
func settled(t *testing.T, to *agent, promises []promise, shown map[string]bool, f *follower) {
	t.Helper()
	total := 0
	for i := range promises {
		p := &promises[i]
		for _, a := range p.other {
			a.errorf("neither an acknowledgement nor a lost connection")
		}
		for _, key := range p.unknown {
			a := p.from.try(to, obj{"metadata": obj{"key": key}}, "Idempotency-Key", key)
			if a.status != 200 {
				a.want(201)
			}
			p.acked = append(p.acked, a)
		}
		p.unknown = nil
		total += len(p.acked)
	}
	if total < len(promises)*2 {
		t.Fatalf("only %d messages were acknowledged: no load", total)
	}
	t.Logf("%d acknowledged", total)
	inbox := once(t, to.everything())
	for id := range shown {
		if !inbox[id] {
			t.Errorf("a page showed %s, which is gone", id)
		}
	}
	kept := 0
	for i := range promises {
		kept += len(promises[i].acked)
		promises[i].kept(t, inbox)
	}
	if len(inbox) != kept {
		t.Errorf("the inbox has %d messages, %d were promised: a key made two", len(inbox), kept)
	}
	f.caughtUp(t, inbox)
}

// once gives the ids of rows, none of which may come twice.
func once(t testing.TB, rows []obj) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range ids(rows) {
		if seen[id] {
			t.Errorf("%s is in the inbox twice", id)
		}
		seen[id] = true
	}
	return seen
}

// kept checks one sender's acknowledged messages and replies.
func (p *promise) kept(t *testing.T, inbox map[string]bool) {
	t.Helper()
	for i, a := range p.acked {
		if !inbox[a.str("id")] {
			a.errorf("acknowledged, but not in the inbox")
		}
		if i%5 == 0 {
			p.from.get("/messages/"+a.str("id")).want(200).is("encrypted_payload", a.at("encrypted_payload"), "metadata.key", a.at("metadata.key"))
		}
	}
	replies := once(t, p.from.everything())
	for _, r := range p.replies {
		if !replies[r.str("id")] {
			r.errorf("the reply was acknowledged, but is not in the inbox")
		}
		rows := p.from.get("/conversations/" + r.str("conversation_id") + "/messages").want(200).items()
		found := false
		for _, row := range rows {
			found = found || row["id"] == r.at("id")
		}
		if !found || len(rows) < 2 {
			r.errorf("the reply was acknowledged, but the transcript is %v", ids(rows))
		}
		p.from.get("/conversations/"+r.str("conversation_id")).want(200).is("status", "open")
	}
}

// caughtUp resumes the stream over the crash: with what it had before, it must
// be the inbox, in order, nothing twice.
func (f *follower) caughtUp(t *testing.T, inbox map[string]bool) {
	t.Helper()
	if refusal := f.until(len(inbox), func() time.Duration { return 300 * time.Millisecond }); refusal != nil {
		refusal.fatalf("the stream does not resume")
	}
	want := ids(f.g.everything())
	for i, j := 0, len(want)-1; i < j; i, j = i+1, j-1 {
		want[i], want[j] = want[j], want[i]
	}
	sameOrder(t, "the resumed stream", f.got, want)
}

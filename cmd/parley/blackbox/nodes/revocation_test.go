package nodes

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

var nodesRevocations = flag.Int("nodes.revocations", 20, "how many credentials TestRevocationRaces revokes while clients use them")

const (
	// callersPerNode use the credential at each node at which it is not revoked.
	callersPerNode = 3
	// callsAfter is how many requests each of them begins after the 204.
	callsAfter = 3
	// justBefore is how long before the DELETE an accepted request counts as right before it.
	justBefore = 100 * time.Millisecond
)

// revocation is a credential that is revoked while clients use it.
type revocation struct {
	client, secret string
	began          time.Time
	// revoked is set when the 204 has come.
	revoked atomic.Bool

	mu sync.Mutex
	// before counts requests that were accepted right before the DELETE, during those that were
	// accepted although they began after it, and after those that began after the 204.
	before, during, after int
	last                  map[int]time.Time // by caller, when an accepted request began
	faults                []string
	tokens                []string
}

// note judges an answer to a request of a caller. accepted is the status of one that is accepted,
// late says that the request began after the 204.
func (r *revocation) note(caller int, a *kit.Answer, accepted int, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case late && a.Status == 401:
		r.after++
	case late:
		r.faults = append(r.faults, fmt.Sprintf("%s began after the 204, and its answer is %d %s%v", a.Asked, a.Status, a.Raw, a.Err))
	case a.Status == accepted:
		if r.last[caller] = a.Began; !r.began.IsZero() && a.Began.After(r.began) {
			r.during++
		}
		if token, granted := a.Body["access_token"].(string); granted {
			r.tokens = append(r.tokens, token)
		}
	case a.Status != 401 || r.began.IsZero():
		r.faults = append(r.faults, fmt.Sprintf("%s before the 204: %d %s%v", a.Asked, a.Status, a.Raw, a.Err))
	}
}

// use makes requests at a node until the credential has been revoked for a while. The first caller of
// a node asks for tokens.
func (r *revocation) use(t *testing.T, s *kit.Server, caller int, token, to string) {
	for late := 0; late < callsAfter; {
		began := r.revoked.Load()
		if began {
			late++
		}
		switch caller % callersPerNode {
		case 0:
			r.note(caller, s.Grant(t, r.client, r.secret), 200, began)
		case 1:
			r.note(caller, s.Call(t, token, "POST", "/messages", kit.ToHandle(to)), 201, began)
		default:
			r.note(caller, s.Call(t, token, "GET", "/org", nil), 200, began)
		}
	}
}

// race revokes a credential at one node while clients use it at the others, and looks at all of them
// afterwards.
func (r *revocation) race(t *testing.T, o *kit.Org, at *kit.Server, others []*kit.Server, to string) {
	t.Helper()
	made := o.On(at).Post("/org/credentials", kit.Obj{}).Want(201)
	r.client, r.secret, r.last = made.Str("client_id"), made.Str("client_secret"), map[int]time.Time{}
	token := at.Grant(t, r.client, r.secret).Want(200).Str("access_token")
	var callers sync.WaitGroup
	for i, s := range others {
		for j := range callersPerNode {
			callers.Go(func() { r.use(t, s, i*callersPerNode+j, token, to) })
		}
	}
	kit.Eventually(t, "each caller is accepted", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.last) == callersPerNode*len(others) || len(r.faults) > 0
	})
	time.Sleep(20 * time.Millisecond)
	r.mu.Lock()
	r.began = time.Now()
	for _, accepted := range r.last {
		if r.began.Sub(accepted) < justBefore {
			r.before++
		}
	}
	r.mu.Unlock()
	o.On(at).Delete("/org/credentials/" + r.client).Want(204)
	r.revoked.Store(true)
	for _, s := range append(others, at) { // tokens that were granted while it was revoked
		for _, one := range append(r.granted(), token) {
			r.note(-1, s.Call(t, one, "GET", "/org", nil), 200, true)
		}
		r.note(-1, s.Grant(t, r.client, r.secret), 200, true)
	}
	callers.Wait()
	for _, s := range append(others, at) {
		o.On(s).Get("/org").Want(200)
	}
}

// granted returns the tokens that were granted last.
func (r *revocation) granted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.tokens[max(0, len(r.tokens)-5):]...)
}

// TestRevocationRaces revokes credentials at one node while clients use them at the two others. When
// the 204 has come, no request that begins then is accepted at any node, and no token is granted.
func TestRevocationRaces(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	n.Ready(t)
	o, to := n.Server().Org(t), n.Server().Org(t).Agent("to")
	o.Agent("from")
	var before, during, after, hot int
	for i := range *nodesRevocations {
		at, others := n.Node(i%3), []*kit.Server{n.Node((i + 1) % 3), n.Node((i + 2) % 3)}
		r := &revocation{}
		r.race(t, o, at, others, to.Handle)
		for _, fault := range r.faults {
			t.Errorf("race %d at node %s: %s", i, at.Flag("--node-name"), fault)
		}
		if before, during, after = before+r.before, during+r.during, after+r.after; r.before > 0 {
			hot++
		}
	}
	t.Logf("%d revocations: %d callers were accepted right before, %d requests were accepted that began between a DELETE and its 204, %d that began after the 204 were refused",
		*nodesRevocations, before, during, after)
	if hot < *nodesRevocations*9/10 {
		t.Errorf("control: only %d of %d credentials were in use when they were revoked", hot, *nodesRevocations)
	}
}

// TestRevocationControl: an answer that a revoked credential must not get is a fault.
func TestRevocationControl(t *testing.T) {
	for _, c := range []struct {
		status, faults int
		late           bool
	}{{200, 1, true}, {503, 1, true}, {401, 0, true}, {200, 0, false}, {503, 1, false}, {401, 1, false}} {
		r := &revocation{last: map[int]time.Time{}}
		r.note(0, &kit.Answer{Status: c.status}, 200, c.late)
		if len(r.faults) != c.faults {
			t.Errorf("%+v: %v", c, r.faults)
		}
	}
}

package nodes

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// TestLimitsOfNodes: the tries at a challenge and the streams of an agent are counted on all nodes
// together.
func TestLimitsOfNodes(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3, "--quota-profile", "public")
	n.Ready(t)
	triesCountTogether(t, n)
	streamsCountTogether(t, n)
}

// triesCountTogether sends wrong nonces of one challenge to each node in turn: as many are checked
// as if there were one node. Then the right one is refused everywhere.
func triesCountTogether(t *testing.T, n *kit.Nodes) {
	const tries = 20
	c := n.Node(0).Challenge(t, kit.FreshSlug())
	right, wrong := c.Solution(), c.Solution()
	wrong["nonce"] = kit.Work(c.Str("challenge"), int(c.At("difficulty").(float64)), false)
	solve := func(i int, with obj) *kit.Answer {
		return n.Node(i%3).Call(t, "", "POST", "/auth/register/solve", with)
	}
	judged := 0
	for i := range 3 * tries {
		a := solve(i, wrong)
		if a.Status == http.StatusGone {
			a.Refused(http.StatusGone, "challenge_expired")
			continue
		}
		a.Refused(http.StatusBadRequest, "pow_invalid")
		judged++
		time.Sleep(30 * time.Millisecond)
	}
	t.Logf("%d nonces were checked", judged)
	// News of a try takes 100 ms, on a busy machine several times as long.
	if judged < tries || judged > 2*tries {
		t.Errorf("%d wrong nonces were checked, want %d, or a few more", judged, tries)
	}
	for i := range 3 {
		solve(i, right).Refused(http.StatusGone, "challenge_expired")
	}
	solve(0, n.Node(0).Challenge(t, kit.FreshSlug()).Solution()).As("another challenge").Want(http.StatusCreated)
}

// streamsCountTogether opens as many streams of an agent as it may have on one node. Another node
// opens none until one is closed, or until the node that has them dies. Streams of tasks are
// counted apart, in the same way.
func streamsCountTogether(t *testing.T, n *kit.Nodes) {
	a, b := kit.Pair(t, n.Server())
	task := a.Begins(b.Bridged(), "m-1")
	dies := n.Follower()
	others := make([]*kit.Server, 0, 2)
	for i := range 3 {
		if s := n.Node(i); s != dies {
			others = append(others, s)
		}
	}
	stream := opens{t, func(s *kit.Server) (*http.Request, error) {
		return s.Request(a.Token, "GET", a.Path("/stream"), nil, "Accept", "text/event-stream")
	}}
	taskStream := opens{t, func(s *kit.Server) (*http.Request, error) {
		return s.Request(a.Token, "POST", "/a2a/"+b.Handle, obj{"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": obj{"id": task}}, "X-Svc-Agent", a.ID)
	}}
	for _, o := range []opens{stream, taskStream} {
		first := o.must(dies)
		o.must(dies)
		o.must(dies)
		o.becomes(others[0], false)
		o.becomes(others[1], false)
		first()
		o.becomes(others[0], true)
		o.becomes(others[1], false)
	}
	dies.Kill()
	killed := time.Now()
	for _, o := range []opens{stream, taskStream} {
		o.becomes(others[1], true)
	}
	took := time.Since(killed)
	t.Logf("both kinds of stream open %v after the node died", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("streams of a dead node count for %v, want 1.25 s", took)
	}
	for _, o := range []opens{stream, taskStream} {
		o.must(others[1])
		o.becomes(others[1], false)
		o.becomes(others[0], false)
	}
	dies.Restart(t)
}

// opens opens streams of one kind at nodes.
type opens struct {
	t       *testing.T
	request func(*kit.Server) (*http.Request, error)
}

// try opens a stream, and returns what closes it; nil if the quota refuses it.
func (o opens) try(s *kit.Server) (end func()) {
	o.t.Helper()
	req, err := o.request(s)
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.t.Cleanup(cancel)
	a, err := kit.Streaming.Do(req.WithContext(ctx))
	if err != nil {
		o.t.Fatal(err)
	}
	if strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		return cancel
	}
	defer func() { _ = a.Body.Close() }()
	body := make([]byte, 4096)
	size, _ := a.Body.Read(body)
	if said := string(body[:size]); !strings.Contains(strings.ToLower(said), "quota_exceeded") {
		o.t.Fatalf("%d %s", a.StatusCode, said)
	}
	return nil
}

func (o opens) must(s *kit.Server) (end func()) {
	o.t.Helper()
	if end = o.try(s); end == nil {
		o.t.Fatal("a stream is refused")
	}
	return end
}

// becomes tries until a stream opens, which stays, or is refused.
func (o opens) becomes(s *kit.Server, open bool) {
	o.t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		end := o.try(s)
		if (end != nil) == open {
			return
		}
		if time.Since(began) > 20*time.Second {
			o.t.Fatalf("no change within 20 s: a stream opens: %t", !open)
		}
		if end != nil {
			end()
		}
	}
}

package blackbox

import (
	"testing"
	"time"
)

// TestStreamsEndOnNodes revokes an agent and a credential, and suspends an organization, on one
// node. Streams on the others end as well, before a heartbeat would show that they must; those of
// others go on.
func TestStreamsEndOnNodes(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 3)
	n.ready(t)
	s := n.server()
	one, other := s.org(t), s.org(t)
	stays := s.org(t).agent("stays").on(n.node(1)).stream("")
	second := one.post("/org/credentials", obj{}).want(201)
	with := *one
	with.token = s.grant(t, second.str("client_id"), second.str("client_secret")).want(200).str("access_token")
	revoked, agent, suspended := one.agent("revoked"), one.agent("agent"), other.agent("suspended")
	byCredential := *agent
	byCredential.org = &with
	for what, c := range map[string]struct {
		stream *stream
		end    func()
	}{
		"agent":      {revoked.on(n.node(1)).stream(""), func() { revoked.on(n.node(0)).request("DELETE", revoked.path(""), nil).want(204) }},
		"credential": {byCredential.on(n.node(2)).stream(""), func() { one.on(n.node(0)).delete("/org/credentials/" + second.str("client_id")).want(204) }},
		"organization": {suspended.on(n.node(1)).stream(""), func() {
			if said, err := n.node(0).operate("org", "suspend", other.slug); err != nil {
				t.Fatal(said, err)
			}
		}},
	} {
		time.Sleep(100 * time.Millisecond)
		c.end()
		if !c.stream.endsWithin(10 * time.Second) {
			t.Errorf("%s: the stream on another node goes on", what)
		}
	}
	if stays.endsWithin(0) {
		t.Error("a stream of another organization ended")
	}
}

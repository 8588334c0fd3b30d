package nodes

import (
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// TestStreamsEndOnNodes revokes an agent and a credential, and suspends an organization, on one
// node. Streams on the others end as well, before a heartbeat would show that they must; those of
// others go on.
func TestStreamsEndOnNodes(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	n.Ready(t)
	s := n.Server()
	one, other := s.Org(t), s.Org(t)
	stays := s.Org(t).Agent("stays").On(n.Node(1)).Stream("")
	second := one.Post("/org/credentials", obj{}).Want(201)
	with := *one
	with.Token = s.Grant(t, second.Str("client_id"), second.Str("client_secret")).Want(200).Str("access_token")
	revoked, agent, suspended := one.Agent("revoked"), one.Agent("agent"), other.Agent("suspended")
	byCredential := *agent
	byCredential.Org = &with
	for what, c := range map[string]struct {
		stream *kit.Stream
		end    func()
	}{
		"agent":      {revoked.On(n.Node(1)).Stream(""), func() { revoked.On(n.Node(0)).Request("DELETE", revoked.Path(""), nil).Want(204) }},
		"credential": {byCredential.On(n.Node(2)).Stream(""), func() { one.On(n.Node(0)).Delete("/org/credentials/" + second.Str("client_id")).Want(204) }},
		"organization": {suspended.On(n.Node(1)).Stream(""), func() {
			if said, err := n.Node(0).Operate("org", "suspend", other.Slug); err != nil {
				t.Fatal(said, err)
			}
		}},
	} {
		time.Sleep(100 * time.Millisecond)
		c.end()
		if !endsWithin(c.stream, 10*time.Second) {
			t.Errorf("%s: the stream on another node goes on", what)
		}
	}
	if endsWithin(stays, 0) {
		t.Error("a stream of another organization ended")
	}
}

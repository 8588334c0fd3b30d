package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"parley/bench/wire"
	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

const (
	// seaters is the number of connections that seat members concurrently.
	seaters = 64
	// groupMost is the maximum number of members of a group of the bench.
	groupMost = 1_000_000
	// electorsLeast is the minimum number of electors: two settle every vote.
	electorsLeast = 3
)

// Group is a group of the bench.
type Group struct {
	ID      parley.GroupID
	Handle  string
	Founder *Agent
	// Members have a seat for the whole bench, in the order of their seats. The founder
	// is the first.
	Members []*Agent
	// place maps a mailbox to the index of its owner in members.
	place map[uint32]int
}

// NewGroup creates an open group and seats agents in it, many at once.
func NewGroup(ctx context.Context, h *Host, name string, founder *Agent, agents []*Agent) (*Group, error) {
	h.Note("seating %d agents in a group", len(agents))
	made, err := founder.Org.Client.Groups.Create(ctx, api.CreateGroup{
		ActingAgent: founder.ID.String(), Name: name, EnrollmentPolicy: api.EnrollOpen,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: no group: %w", h.name, err)
	}
	g := &Group{ID: made.ID, Handle: made.Handle, Founder: founder}
	err = h.OnConnections(ctx, seaters, len(agents), func(c *Caller, i int) error {
		joined, err := g.Join(c.Conn, h.Deployment, agents[i])
		if err == nil && joined.Status != api.Joined {
			err = Wrong("an open group that seats nobody")
		}
		if err != nil {
			return fmt.Errorf("%s does not come into the group: %w", agents[i].Handle, err)
		}
		return nil
	})
	if err == nil {
		err = g.count(ctx, agents)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.name, err)
	}
	return g, nil
}

// count lists the members of a group and checks that each of agents is there once.
func (g *Group) count(ctx context.Context, agents []*Agent) error {
	byID := map[parley.AgentID]*Agent{g.Founder.ID: g.Founder}
	for _, a := range agents {
		byID[a.ID] = a
	}
	expected := len(byID)
	g.place = make(map[uint32]int, expected)
	for m, err := range client.All(ctx, g.Founder.Org.Client.Groups.Members, api.ListMembers{ID: g.ID, Limit: 200}) {
		if err != nil {
			return fmt.Errorf("the members cannot be listed: %w", err)
		}
		if byID[m.AgentID] == nil {
			return fmt.Errorf("%s is in the group twice, or should not be", m.AgentID)
		}
		g.place[byID[m.AgentID].Mailbox] = len(g.Members)
		g.Members = append(g.Members, byID[m.AgentID])
		delete(byID, m.AgentID)
	}
	if len(g.Members) != expected {
		return fmt.Errorf("the group has %d members of %d", len(g.Members), expected)
	}
	return nil
}

// Joining holds the members of the answer to a join that are checked.
type Joining struct {
	Status string `json:"status"`
	Member struct {
		Agent string `json:"agent_id"`
	} `json:"member"`
	Request struct {
		ID    string `json:"id"`
		Agent string `json:"agent_id"`
	} `json:"request"`
}

// Join requests a seat for an agent.
func (g *Group) Join(conn *wire.HTTP, w *Deployment, a *Agent) (Joining, error) {
	var parsed Joining
	body, err := Call(conn, 200, "POST", g.Path("/join"), a.Org.Token, w.ActingHeader(a), []byte("{}"))
	if err != nil {
		return parsed, err
	}
	if json.Unmarshal(body, &parsed) != nil || parsed.Member.Agent+parsed.Request.Agent != a.ID.String() {
		return parsed, Wrong("not what became of the agent that would join")
	}
	return parsed, nil
}

func (g *Group) Path(rest string) string { return "/groups/" + g.ID.String() + rest }

// ActingHeader returns the header that names the acting agent of a request.
func (w *Deployment) ActingHeader(a *Agent) [][2]string {
	return [][2]string{{"X-" + w.Brand + "-Agent", a.ID.String()}}
}

// AgentsOfBoth creates count agents, alternately of both organizations.
func (w *Deployment) AgentsOfBoth(ctx context.Context, pattern string, first, count int) ([]*Agent, error) {
	half, err := w.Agents(ctx, w.SendingOrg, pattern, first, (count+1)/2)
	if err != nil {
		return nil, err
	}
	other, err := w.Agents(ctx, w.ReceivingOrg, pattern, first, count/2)
	if err != nil {
		return nil, err
	}
	all := make([]*Agent, 0, count)
	for i, a := range half {
		if all = append(all, a); i < len(other) {
			all = append(all, other[i])
		}
	}
	return all, nil
}

// Spread picks at most n members other than speakers, from all over the seats, including
// the last.
func (g *Group) Spread(n int, speakers []*Agent) []*Agent {
	var others, picked []*Agent
	for _, m := range g.Members {
		if !slices.Contains(speakers, m) {
			others = append(others, m)
		}
	}
	n = min(n, len(others))
	for i := range n {
		picked = append(picked, others[(i+1)*len(others)/n-1])
	}
	return picked
}

// Recipients returns how many copies a broadcast has.
func (g *Group) Recipients() int { return len(g.Members) - 1 }

// BroadcastOf returns the broadcast that a message is a copy of, if it is a copy.
func BroadcastOf(id UUID) UUID { return id.Broadcast() }

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"parley/bench/wire"
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

// assembly is a group of the bench.
type assembly struct {
	id      parley.GroupID
	handle  string
	founder *agent
	// members have a seat for the whole bench, in the order of their seats. The founder
	// is the first.
	members []*agent
	// place maps a mailbox to the index of its owner in members.
	place map[uint32]int
}

// assemble creates an open group and seats agents in it, many at once.
func assemble(ctx context.Context, h *Host, name string, founder *agent, agents []*agent) (*assembly, error) {
	h.note("seating %d agents in a group", len(agents))
	made, err := founder.org.client.CreateGroup(ctx, api.CreateGroup{
		ActingAgent: founder.id.String(), Name: name, EnrollmentPolicy: api.EnrollOpen,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: no group: %w", h.name, err)
	}
	g := &assembly{id: made.ID, handle: made.Handle, founder: founder}
	err = h.aside(ctx, min(seaters, len(agents)), func(conn *wire.HTTP, worker, workers int) error {
		for i := worker; i < len(agents); i += workers {
			if err := ctx.Err(); err != nil {
				return err
			}
			joined, err := g.join(conn, h.world, agents[i])
			if err == nil && joined.Status != api.Joined {
				err = wrong("an open group that seats nobody")
			}
			if err != nil {
				return fmt.Errorf("%s does not come into the group: %w", agents[i].handle, err)
			}
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
func (g *assembly) count(ctx context.Context, agents []*agent) error {
	byID := map[parley.AgentID]*agent{g.founder.id: g.founder}
	for _, a := range agents {
		byID[a.id] = a
	}
	expected := len(byID)
	g.place = make(map[uint32]int, expected)
	for m, err := range g.founder.org.client.MembersAll(ctx, api.ListMembers{ID: g.id, Limit: 200}) {
		if err != nil {
			return fmt.Errorf("the members cannot be listed: %w", err)
		}
		if byID[m.AgentID] == nil {
			return fmt.Errorf("%s is in the group twice, or should not be", m.AgentID)
		}
		g.place[byID[m.AgentID].box] = len(g.members)
		g.members = append(g.members, byID[m.AgentID])
		delete(byID, m.AgentID)
	}
	if len(g.members) != expected {
		return fmt.Errorf("the group has %d members of %d", len(g.members), expected)
	}
	return nil
}

// joining holds the members of the answer to a join that are checked.
type joining struct {
	Status string `json:"status"`
	Member struct {
		Agent string `json:"agent_id"`
	} `json:"member"`
	Request struct {
		ID    string `json:"id"`
		Agent string `json:"agent_id"`
	} `json:"request"`
}

// join requests a seat for an agent.
func (g *assembly) join(conn *wire.HTTP, w *world, a *agent) (joining, error) {
	var told joining
	answer, err := conn.Do(wire.Request("POST", g.path("/join"), a.org.token, w.acting(a), []byte("{}")))
	if err != nil {
		return told, err
	}
	if answer.Status != 200 {
		err, _ := refusal(answer)
		return told, err
	}
	if json.Unmarshal(answer.Body, &told) != nil || told.Member.Agent+told.Request.Agent != a.id.String() {
		return told, wrong("not what became of the agent that would join")
	}
	return told, nil
}

func (g *assembly) path(rest string) string { return "/groups/" + g.id.String() + rest }

// acting returns the header that names the acting agent of a request.
func (w *world) acting(a *agent) [][2]string {
	return [][2]string{{"X-" + w.brand + "-Agent", a.id.String()}}
}

// ofBoth creates count agents, alternately of both organizations.
func (w *world) ofBoth(ctx context.Context, pattern string, first, count int) ([]*agent, error) {
	half, err := w.agents(ctx, w.globex, pattern, first, (count+1)/2)
	if err != nil {
		return nil, err
	}
	other, err := w.agents(ctx, w.acme, pattern, first, count/2)
	if err != nil {
		return nil, err
	}
	all := make([]*agent, 0, count)
	for i, a := range half {
		if all = append(all, a); i < len(other) {
			all = append(all, other[i])
		}
	}
	return all, nil
}

// spread picks at most n members other than speakers, from all over the seats, including
// the last.
func (g *assembly) spread(n int, speakers []*agent) []*agent {
	var others, picked []*agent
	for _, m := range g.members {
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

// recipients returns how many copies a broadcast has.
func (g *assembly) recipients() int { return len(g.members) - 1 }

// broadcastOf returns the broadcast that a message is a copy of, if it is a copy.
func broadcastOf(id uuid) uuid { return uuid(parley.MessageID(id).Broadcast()) }

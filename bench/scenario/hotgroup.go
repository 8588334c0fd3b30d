package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"parley/bench/load"
	"parley/bench/scenario/host"
	"parley/bench/wire"
	"parley/client"
	"parley/client/api"
)

const (
	// applicants is the number of join requests that members vote on.
	applicants = 16
	// voterShare is the divisor for the electors that vote: so few vote that no request
	// reaches its threshold and all stay open.
	voterShare = 5
	// commandEvery is the number of operations of a client of HotGroup per join or
	// departure.
	commandEvery = 10
)

// hotGroup is HotGroup: a group with a large electorate and open requests, in which members
// vote, and agents join and leave.
type hotGroup struct {
	host *host.Host
	// assembly is nil until the group was made.
	*host.Group
	requests []host.UUID
	voters   []*host.Agent
	// ballots are indexed by voter and request, see vote.
	ballots []ballot
	// joiners are the agents that join and leave. Each belongs to one client.
	joiners []*joiner
	// open reports whether any agent may join.
	open bool
}

// ballot is the last acknowledged vote of one voter on one request.
type ballot struct {
	cast, approve bool
	// unsure is set after an operation without an answer.
	unsure bool
}

// joiner is an agent that alternately joins and leaves.
type joiner struct {
	*host.Agent
	inside, unsure bool
}

// convene creates the group, once.
func (g *hotGroup) convene(ctx context.Context) error {
	if g.Group != nil {
		return nil
	}
	h := g.host
	count := h.Params.Electors
	h.Note("making %d electors", count)
	if err := h.FreshTokens(ctx); err != nil {
		return err
	}
	chair, err := h.Deployment.Agents(ctx, h.Deployment.SendingOrg, "chair-%d", 0, 1)
	if err != nil {
		return err
	}
	electors, err := h.Deployment.AgentsOfBoth(ctx, "elector-%d", 0, count-1)
	if err != nil {
		return err
	}
	made := *g
	if made.Group, err = host.NewGroup(ctx, h, "electors", chair[0], electors); err != nil {
		return err
	}
	made.voters = electors[:max(1, count/voterShare)]
	if err := made.enroll(ctx, api.EnrollMajority); err != nil {
		return err
	}
	if err := made.file(ctx); err != nil {
		return fmt.Errorf("%s: no requests to vote on: %w", h.Name(), err)
	}
	made.ballots = make([]ballot, len(made.voters)*len(made.requests))
	*g = made
	return nil
}

// enroll changes the enrollment policy of the group.
func (g *hotGroup) enroll(ctx context.Context, policy string) error {
	_, err := g.Founder.Org.Client.Groups.Update(ctx, api.GroupPatch{ID: g.ID, ActingAgent: g.Founder.ID.String(), EnrollmentPolicy: &policy})
	if err != nil {
		return fmt.Errorf("%s: the enrollment policy stays as it was: %w", g.host.Name(), err)
	}
	return nil
}

// file makes the applicants request seats.
func (g *hotGroup) file(ctx context.Context) error {
	seekers, err := g.host.Deployment.AgentsOfBoth(ctx, "applicant-%d", 0, applicants)
	if err != nil {
		return err
	}
	return g.host.OnConnections(ctx, 1, len(seekers), func(c *host.Caller, i int) error {
		filed, err := g.Join(c.Conn, g.host.Deployment, seekers[i])
		if err != nil {
			return err
		}
		id, ok := host.ParseUUID([]byte(filed.Request.ID))
		if filed.Status != api.JoinPending || !ok {
			return host.Wrong("no pending request")
		}
		g.requests = append(g.requests, id)
		return nil
	})
}

// Prepare implements Load: votes, each of which reverses the elector's previous vote, and, a tenth
// of the operations, joins and departures.
func (g *hotGroup) Prepare(ctx context.Context, clients int) (load.Dial, error) {
	if err := g.convene(ctx); err != nil {
		return nil, err
	}
	if clients > len(g.ballots) {
		return nil, fmt.Errorf("%d clients are more than %d voters on %d requests can keep busy", clients, len(g.voters), len(g.requests))
	}
	if err := g.admitJoiners(ctx, clients); err != nil {
		return nil, err
	}
	// Creating agents may have taken long.
	if err := g.host.FreshTokens(ctx); err != nil {
		return nil, err
	}
	return g.host.Clients(func(c *host.Client, _ *load.Parts) error {
		n := int(c.Key.N)
		if n%commandEvery == commandEvery-1 {
			return g.joinOrLeave(c.Conn, g.joiners[c.Worker])
		}
		// Each client alone uses every so-many-th ballot.
		own := (len(g.ballots) - c.Worker + clients - 1) / clients
		return g.vote(c.Conn, c.Worker+n%own*clients)
	}), nil
}

// admitJoiners makes sure that there are as many joiners as clients and that the
// group admits them. Votes on earlier requests continue as before.
func (g *hotGroup) admitJoiners(ctx context.Context, clients int) error {
	if have := len(g.joiners); have < clients {
		made, err := g.host.Deployment.AgentsOfBoth(ctx, "joiner-%d", have, clients-have)
		if err != nil {
			return err
		}
		for _, a := range made {
			g.joiners = append(g.joiners, &joiner{Agent: a})
		}
	}
	if g.open {
		return nil
	}
	if err := g.enroll(ctx, api.EnrollOpen); err != nil {
		return err
	}
	g.open = true
	return nil
}

// vote reverses the vote of one ballot.
func (g *hotGroup) vote(conn *wire.HTTP, at int) error {
	b := &g.ballots[at]
	voter, request := g.voters[at/len(g.requests)], g.requests[at%len(g.requests)]
	choice := api.Approve
	if b.approve {
		choice = api.Deny
	}
	body, path := []byte(`{"vote":"`+choice+`"}`), g.Path("/requests/"+request.String()+"/vote")
	answer, err := conn.Call("POST", path, voter.Org.Token, g.host.Deployment.ActingHeader(voter), body)
	if err != nil {
		b.unsure = b.unsure || !errors.Is(err, wire.ErrClosing)
		return err
	}
	if answer.Status != 200 {
		err, known := host.Refusal(answer)
		b.unsure = b.unsure || !known
		return err
	}
	*b = ballot{cast: true, approve: choice == api.Approve}
	return judgeVote(answer.Body, request, choice)
}

func judgeVote(body []byte, request host.UUID, choice string) error {
	var parsed struct {
		Request string `json:"request_id"`
		Status  string `json:"status"`
		Vote    string `json:"your_vote"`
	}
	err := json.Unmarshal(body, &parsed)
	id, _ := host.ParseUUID([]byte(parsed.Request))
	switch {
	case err != nil || id != request:
		return host.Wrong("the vote on another request")
	case parsed.Status != "pending":
		return host.Wrong("a request that a fifth of its electors settles")
	case parsed.Vote != choice:
		return host.Wrong("another vote than the one cast")
	}
	return nil
}

// joinOrLeave joins the group, or leaves it.
func (g *hotGroup) joinOrLeave(conn *wire.HTTP, c *joiner) error {
	status, path, method, body := 200, g.Path("/join"), "POST", []byte("{}")
	if c.inside {
		status, path, method, body = 204, g.Path("/members/"+c.ID.String()), "DELETE", nil
	}
	answer, err := conn.Call(method, path, c.Org.Token, g.host.Deployment.ActingHeader(c.Agent), body)
	if err != nil {
		c.unsure = c.unsure || !errors.Is(err, wire.ErrClosing)
		return err
	}
	switch {
	case answer.Status == status:
	case c.unsure && (answer.Status == 404 || answer.Status == 409): // the unanswered operation had taken effect
	default:
		err, known := host.Refusal(answer)
		c.unsure = c.unsure || !known
		return err
	}
	c.inside, c.unsure = !c.inside, false
	if parsed := (host.Joining{}); answer.Status == 200 &&
		(json.Unmarshal(answer.Body, &parsed) != nil || parsed.Status != api.Joined || parsed.Member.Agent != c.ID.String()) {
		return host.Wrong("a join of an open group that seats somebody else or nobody")
	}
	return nil
}

// recount compares the votes and the seats of the group with the last
// acknowledged ones. It returns their number and how many are not in effect.
func (g *hotGroup) recount(ctx context.Context) (commands, lost int64, err error) {
	var all, gone atomic.Int64
	err = host.Concurrently(ctx, host.VerifyReaders, len(g.voters), func(ctx context.Context, i int) error {
		page, err := g.voters[i].Org.Client.Groups.Requests(ctx, api.ListRequests{ID: g.ID, ActingAgent: g.voters[i].ID.String(), Limit: 200})
		if err != nil {
			return fmt.Errorf("the votes of %s: %w", g.voters[i].Handle, err)
		}
		seen := map[host.UUID]api.JoinRequest{}
		for _, r := range page.Items {
			seen[host.UUID(r.ID)] = r
		}
		for at, request := range g.requests {
			r, there := seen[request]
			if b := g.ballots[i*len(g.requests)+at]; b.cast && !b.unsure {
				all.Add(1)
				if !there || r.YourVote == nil || (*r.YourVote == api.Approve) != b.approve {
					gone.Add(1)
				}
			}
			if i == 0 && !g.tallied(at, r) {
				gone.Add(1)
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	seats, absent, err := g.roll(ctx)
	return all.Load() + seats, gone.Load() + absent, err
}

// roll checks the members: those that never leave, and the joiners.
func (g *hotGroup) roll(ctx context.Context) (all, gone int64, err error) {
	present := map[string]bool{}
	for m, err := range client.All(ctx, g.Founder.Org.Client.Groups.Members, api.ListMembers{ID: g.ID, Limit: 200}) {
		if err != nil {
			return 0, 0, fmt.Errorf("the members of the group: %w", err)
		}
		present[m.AgentID.String()] = true
	}
	for _, a := range g.Members {
		if all++; !present[a.ID.String()] {
			gone++
		}
	}
	for _, c := range g.joiners {
		if c.unsure {
			continue
		}
		if all++; present[c.ID.String()] != c.inside {
			gone++
		}
	}
	return all, gone, nil
}

// tallied reports whether the counts of a request match the acknowledged votes. After
// operations without an answer the right counts are not known.
func (g *hotGroup) tallied(place int, r api.JoinRequest) bool {
	var approvals, denials int
	for i := place; i < len(g.ballots); i += len(g.requests) {
		switch b := g.ballots[i]; {
		case b.unsure:
			return true
		case !b.cast:
		case b.approve:
			approvals++
		default:
			denials++
		}
	}
	return r.Approvals != nil && r.Denials != nil && *r.Approvals == approvals && *r.Denials == denials
}

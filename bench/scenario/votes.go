package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"parley/bench/load"
	"parley/bench/wire"
	"parley/http/api"
)

const (
	// defaultElectors is the default of Params.Electors.
	defaultElectors = 10_000
	electorsLeast   = 3
	// applicants is the number of join requests that members vote on.
	applicants = 16
	// voterShare is the divisor for the electors that vote: so few vote that no request
	// reaches its threshold and all stay open.
	voterShare = 5
	// commandEvery is the number of operations of a client of HotGroup per join or
	// departure.
	commandEvery = 10
)

// house is a group with a large electorate and open requests.
type house struct {
	*assembly
	requests []uuid
	voters   []*agent
	// ballots are indexed by voter and request, see house.ballot.
	ballots []ballot
	// commuters are the agents that join and leave. Each belongs to one client.
	commuters []*commuter
	// open reports whether any agent may join.
	open bool
}

// ballot is the last acknowledged vote of one voter on one request.
type ballot struct {
	cast, approve bool
	// unsure is set after an operation without an answer.
	unsure bool
}

// commuter is an agent that alternately joins and leaves.
type commuter struct {
	*agent
	inside, unsure bool
}

// convene creates the group of Votes, once.
func (h *Host) convene(ctx context.Context) error {
	if h.house != nil {
		return nil
	}
	count := h.params.Electors
	if count == 0 {
		count = defaultElectors
	}
	h.note("making %d electors", count)
	if err := h.world.freshTokens(ctx); err != nil {
		return err
	}
	chair, err := h.world.agents(ctx, h.world.globex, "chair-%d", 0, 1)
	if err != nil {
		return err
	}
	electors, err := h.world.ofBoth(ctx, "elector-%d", 0, count-1)
	if err != nil {
		return err
	}
	group, err := h.assemble(ctx, "house", chair[0], electors)
	if err != nil {
		return err
	}
	made := &house{assembly: group, voters: electors[:max(1, count/voterShare)]}
	if err := h.enroll(ctx, made, api.EnrollMajority); err != nil {
		return err
	}
	if err := h.file(ctx, made); err != nil {
		return fmt.Errorf("%s: no requests to vote on: %w", h.name, err)
	}
	made.ballots = make([]ballot, len(made.voters)*len(made.requests))
	h.house = made
	return nil
}

// enroll changes the enrollment policy of the group.
func (h *Host) enroll(ctx context.Context, g *house, policy string) error {
	_, err := g.founder.org.client.UpdateGroup(ctx, api.GroupPatch{ID: g.id, ActingAgent: g.founder.id.String(), EnrollmentPolicy: &policy})
	if err != nil {
		return fmt.Errorf("%s: the enrollment policy stays as it was: %w", h.name, err)
	}
	return nil
}

// file makes the applicants request seats.
func (h *Host) file(ctx context.Context, g *house) error {
	seekers, err := h.world.ofBoth(ctx, "applicant-%d", 0, applicants)
	if err != nil {
		return err
	}
	return h.aside(ctx, 1, func(conn *wire.HTTP, _, _ int) error {
		for _, a := range seekers {
			filed, err := h.join(conn, g.assembly, a)
			if err != nil {
				return err
			}
			id, ok := parseUUID([]byte(filed.Request.ID))
			if filed.Status != api.JoinPending || !ok {
				return wrong("no pending request")
			}
			g.requests = append(g.requests, id)
		}
		return nil
	})
}

// prepareVotes prepares votes, each of which reverses the elector's previous vote. With
// commands, a tenth of the operations are joins and departures in the same group.
func (h *Host) prepareVotes(ctx context.Context, clients int, commands bool) (load.Dial, error) {
	if err := h.convene(ctx); err != nil {
		return nil, err
	}
	g := h.house
	if clients > len(g.ballots) {
		return nil, fmt.Errorf("%d clients are more than %d voters on %d requests can keep busy", clients, len(g.voters), len(g.requests))
	}
	if commands {
		if err := h.admitCommuters(ctx, clients); err != nil {
			return nil, err
		}
	}
	// Creating agents may have taken long.
	if err := h.world.freshTokens(ctx); err != nil {
		return nil, fmt.Errorf("%s gives no tokens: %w", h.name, err)
	}
	return func(ctx context.Context, worker int) (load.Client, error) {
		conn, err := wire.DialHTTP(ctx, h.door.Address)
		if err != nil {
			return nil, err
		}
		v := &voting{conn: conn, world: h.world, house: g, at: worker, step: clients}
		if commands {
			v.commuter = g.commuters[worker]
		}
		return v, nil
	}, nil
}

// admitCommuters makes sure that there are as many commuters as clients and that the
// group admits them. Votes on earlier requests continue as before.
func (h *Host) admitCommuters(ctx context.Context, clients int) error {
	g := h.house
	if have := len(g.commuters); have < clients {
		made, err := h.world.ofBoth(ctx, "commuter-%d", have, clients-have)
		if err != nil {
			return err
		}
		for _, a := range made {
			g.commuters = append(g.commuters, &commuter{agent: a})
		}
	}
	if g.open {
		return nil
	}
	if err := h.enroll(ctx, g, api.EnrollOpen); err != nil {
		return err
	}
	g.open = true
	return nil
}

// voting is the client of Votes and HotGroup. It alone uses every step-th ballot.
type voting struct {
	conn     *wire.HTTP
	world    *world
	house    *house
	at, step int
	commuter *commuter // nil if nobody joins or leaves
	request  []byte
	body     []byte
}

// Close implements load.Client.
func (v *voting) Close() error { return v.conn.Close() }

// Do implements load.Client.
func (v *voting) Do(_ context.Context, n int, _ *load.Laps) error {
	if v.commuter != nil && n%commandEvery == commandEvery-1 {
		return v.commute()
	}
	at := v.at
	if v.at += v.step; v.at >= len(v.house.ballots) {
		v.at %= v.step
	}
	return v.vote(at)
}

// vote reverses the vote of one ballot.
func (v *voting) vote(at int) error {
	b := &v.house.ballots[at]
	voter, request := v.house.voters[at/len(v.house.requests)], v.house.requests[at%len(v.house.requests)]
	choice := api.Approve
	if b.approve {
		choice = api.Deny
	}
	v.body = append(append(append(v.body[:0], `{"vote":"`...), choice...), `"}`...)
	path := v.house.path("/requests/" + request.String() + "/vote")
	v.request = wire.AppendRequest(v.request[:0], "POST", path, voter.org.token, v.world.acting(voter), v.body)
	answer, err := v.conn.Do(v.request)
	if err != nil {
		b.unsure = b.unsure || !errors.Is(err, wire.ErrClosing)
		return err
	}
	if answer.Status != 200 {
		err, known := refusal(answer)
		b.unsure = b.unsure || !known
		return err
	}
	*b = ballot{cast: true, approve: choice == api.Approve}
	return judgeVote(answer.Body, request, choice)
}

func judgeVote(body []byte, request uuid, choice string) error {
	walk := membersOf(body)
	var same, pending, counted bool
	for {
		name, value, ok := walk.next()
		if !ok {
			break
		}
		switch string(name) {
		case "request_id":
			id, _ := parseUUID(plainText(value))
			same = id == request
		case "status":
			pending = string(plainText(value)) == "pending"
		case "your_vote":
			counted = string(plainText(value)) == choice
		}
	}
	switch {
	case !walk.ended() || !same:
		return wrong("the vote on another request")
	case !pending:
		return wrong("a request that a fifth of its electors settles")
	case !counted:
		return wrong("another vote than the one cast")
	}
	return nil
}

// commute joins the group, or leaves it.
func (v *voting) commute() error {
	c := v.commuter
	status, path, method, body := 200, v.house.path("/join"), "POST", []byte("{}")
	if c.inside {
		status, path, method, body = 204, v.house.path("/members/"+c.id.String()), "DELETE", nil
	}
	v.request = wire.AppendRequest(v.request[:0], method, path, c.org.token, v.world.acting(c.agent), body)
	answer, err := v.conn.Do(v.request)
	if err != nil {
		c.unsure = c.unsure || !errors.Is(err, wire.ErrClosing)
		return err
	}
	switch {
	case answer.Status == status:
	case c.unsure && (answer.Status == 404 || answer.Status == 409): // the unanswered operation had taken effect
	default:
		err, known := refusal(answer)
		c.unsure = c.unsure || !known
		return err
	}
	c.inside, c.unsure = !c.inside, false
	if told := (joining{}); answer.Status == 200 &&
		(json.Unmarshal(answer.Body, &told) != nil || told.Status != api.Joined || told.Member.Agent != c.id.String()) {
		return wrong("a join of an open group that seats somebody else or nobody")
	}
	return nil
}

// recount compares the votes and the seats of the group of Votes with the last
// acknowledged ones. It returns their number and how many are not in effect.
func (h *Host) recount(ctx context.Context) (commands, lost int64, err error) {
	g := h.house
	var all, gone atomic.Int64
	err = together(ctx, verifyReaders, len(g.voters), func(ctx context.Context, i int) error {
		page, err := g.voters[i].org.client.Requests(ctx, api.ListRequests{ID: g.id, ActingAgent: g.voters[i].id.String(), Limit: 200})
		if err != nil {
			return fmt.Errorf("the votes of %s: %w", g.voters[i].handle, err)
		}
		seen := map[uuid]api.JoinRequest{}
		for _, r := range page.Items {
			seen[uuid(r.ID)] = r
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

// roll checks the members: those that never leave, and the commuters.
func (g *house) roll(ctx context.Context) (all, gone int64, err error) {
	present := map[string]bool{}
	for m, err := range g.founder.org.client.MembersAll(ctx, api.ListMembers{ID: g.id, Limit: 200}) {
		if err != nil {
			return 0, 0, fmt.Errorf("the members of the group: %w", err)
		}
		present[m.AgentID.String()] = true
	}
	for _, a := range g.members {
		if all++; !present[a.id.String()] {
			gone++
		}
	}
	for _, c := range g.commuters {
		if c.unsure {
			continue
		}
		if all++; present[c.id.String()] != c.inside {
			gone++
		}
	}
	return all, gone, nil
}

// tallied reports whether the counts of a request match the acknowledged votes. After
// operations without an answer the right counts are not known.
func (g *house) tallied(place int, r api.JoinRequest) bool {
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

// PrepareMedley prepares the load under which a server is killed: messages; broadcasts,
// votes and joins if there are groups for them; and messages to agents with a webhook if
// there are any.
func (h *Host) PrepareMedley(ctx context.Context, clients int) (load.Dial, error) {
	send, err := h.Prepare(ctx, Send, clients)
	if err != nil {
		return nil, err
	}
	commands := send
	if h.house != nil {
		if commands, err = h.prepareVotes(ctx, min(clients, len(h.house.ballots)), true); err != nil {
			return nil, err
		}
	}
	hooked := send
	if h.hooks != nil {
		h.hooks.sink.forget()
		hooked = h.sendingTo(h.hooks.well, h.hooks.tells())
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		switch {
		case worker%4 == 1 && h.largeGroup != nil:
			c, err := h.herald(ctx, h.largeGroup, h.speakers[worker%len(h.speakers)])
			if err != nil {
				return nil, err
			}
			return &heralding{herald: c, key: Key{Run: run, Worker: uint32(worker)}}, nil
		case worker%4 == 2 && h.house != nil && worker < len(h.house.ballots):
			return commands(ctx, worker)
		case worker%4 == 3:
			return hooked(ctx, worker)
		}
		return send(ctx, worker)
	}, nil
}

package group_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/encoding"
	"parley/actors/group"
	"parley/client/parley"
)

// agentNames lists the agents of random lives, four of each of three organizations.
var agentNames = []string{"ada", "abe", "amy", "art", "bea", "ben", "bob", "bud", "cat", "cid", "coy", "cyd"}

// ceiling is the seat limit in every command of the laws.
const ceiling = 6

func TestLaws(t *testing.T) {
	so := &chronicle{}
	actorstest.Obey(t, rules, draw, func(t *rapid.T, step turn) {
		if !step.Before.Exists() {
			so = &chronicle{}
		}
		if broken := so.judge(step); broken != "" {
			t.Fatalf("%#v at %v: %s", step.Command, step.Now, broken)
		}
	})
}

var lawfulWishes = rapid.SampledFrom(strings.Fields(
	"join join join invite invite invite vote vote vote vote vote answer answer answer remove remove role change expire forget delete found send send commit commit appoint",
))

func draw(t *rapid.T, s *group.State) group.Command {
	limit := ceiling
	kind, who := lawfulWishes.Draw(t, "wish"), rapid.SampledFrom(agentNames).Draw(t, "who")
	switch by := drawCaller(t, s); kind {
	case "join":
		return group.Join{RequestID: nextRequest(s), Agent: agent(who), Org: owner(who), SeatLimit: &limit}
	case "invite":
		return group.Invite{
			RequestID: nextRequest(s), By: by, Agent: agent(who), Org: owner(who), Known: true, SeatLimit: &limit,
			Founding: rapid.Bool().Draw(t, "founding"), Confined: rapid.IntRange(0, 5).Draw(t, "confined") == 5,
		}
	case "answer":
		refusal := rapid.SampledFrom([]string{"", "", "", group.ReasonIsolation}).Draw(t, "refusal")
		return group.Answer{Offer: rapid.Uint32Range(max(s.LastOffer, 2)-2, s.LastOffer+1).Draw(t, "offer"), Refusal: refusal}
	case "vote":
		c := group.CastVote{By: by, Approve: rapid.IntRange(0, 3).Draw(t, "approve") > 0, SeatLimit: &limit}
		if live := s.Requests(); len(live) > 0 {
			c.Request = rapid.SampledFrom(live).Draw(t, "request").RequestID()
		}
		return c
	case "remove":
		if rapid.Bool().Draw(t, "by itself") {
			by.Agent = agent(who)
		}
		return group.Remove{Agent: agent(who), By: by, SeatLimit: &limit}
	case "role":
		return group.ChangeRole{Agent: agent(who), By: by, Role: rapid.SampledFrom([]group.Role{group.Admin, group.RoleMember}).Draw(t, "role")}
	case "change":
		return group.Change{
			By: by, Policy: rapid.Ptr(rapid.SampledFrom(policies), true).Draw(t, "policy"),
			VoteHours: rapid.Ptr(rapid.IntRange(1, 72), true).Draw(t, "hours"),
		}
	case "expire":
		return group.Expire{}
	case "send":
		c := wishToSend(t, agent(who), s.Conversation)
		if rapid.Bool().Draw(t, "sealed") {
			c.MLS = &group.MLSHeader{Epoch: s.Epoch}
		}
		return c
	case "commit":
		return drawCommit(t, s, by.Agent)
	case "forget":
		return group.Forget{Agent: agent(who), SeatLimit: &limit}
	case "appoint":
		return group.Appoint{Agent: agent(who), By: caller("ada"), Org: owner(who), Known: true, SeatLimit: &limit}
	case "delete":
		if rapid.IntRange(0, 3).Draw(t, "really") == 3 {
			return group.Delete{By: by}
		}
	}
	return group.Found{
		ID: actorstest.Named("club"), Org: owner("ada"), Founder: agent("ada"), Name: "club", VoteHours: 72,
		Policy: rapid.SampledFrom(policies).Draw(t, "policy"), Isolated: rapid.Bool().Draw(t, "isolated"),
	}
}

var policies = []group.Policy{group.Majority, group.Unanimity, group.Closed, group.Open}

func nextRequest(s *group.State) parley.JoinRequestID {
	return s.NextRequestID(actorstest.Epoch, [10]byte{})
}

// drawCommit returns a commit that adds and removes some agents, or an external one.
func drawCommit(t *rapid.T, s *group.State, by parley.AgentID) group.Command {
	c := group.Commit{By: by, Epoch: s.Epoch, Suite: 1, External: rapid.IntRange(0, 3).Draw(t, "external") == 3}
	if c.External {
		c.Added = []parley.AgentID{by}
	}
	for _, m := range s.Members() {
		if !c.External && !m.Leaf && m.Agent != by && rapid.Bool().Draw(t, "add") {
			c.Added, c.Welcome = append(c.Added, m.Agent), []byte("welcome")
		}
		if rapid.IntRange(0, 5).Draw(t, "kick") == 5 {
			c.Removed = append(c.Removed, m.Agent)
		}
	}
	for _, l := range s.Abandoned() {
		if rapid.Bool().Draw(t, "remove") {
			c.Removed = append(c.Removed, parley.AgentID(l.GetAgent()))
		}
	}
	return c
}

// drawCaller returns mostly a member, named or not.
func drawCaller(t *rapid.T, s *group.State) group.Caller {
	by := group.Caller{Org: owner("ada"), Agent: agent("ada")}
	if members := s.Members(); len(members) > 0 {
		m := rapid.SampledFrom(members).Draw(t, "by")
		by = group.Caller{Org: m.Org, Agent: m.Agent}
	}
	if rapid.IntRange(0, 4).Draw(t, "unnamed") == 4 {
		by.Agent = parley.AgentID{}
	}
	return by
}

// chronicle records what has happened in a life so far: a settled request stays
// settled.
type chronicle struct {
	filed, settled map[parley.JoinRequestID]bool
	given          map[uint32]bool // offers that were taken or withdrawn
	convened       map[parley.ConversationID]bool
}

// judge returns the law that a turn broke, "" for none.
func (so *chronicle) judge(step turn) string {
	if so.filed == nil {
		so.filed, so.settled, so.given = map[parley.JoinRequestID]bool{}, map[parley.JoinRequestID]bool{}, map[uint32]bool{}
		so.convened = map[parley.ConversationID]bool{}
	}
	for _, law := range []func(turn) string{so.numbers, so.settlements, so.broadcasts, lawOfCommits, lawOfFrozen, lawOfRefusals, lawOfTheEnd} {
		if broken := law(step); broken != "" {
			return broken
		}
	}
	if step.After.Deleted() {
		return ""
	}
	for _, r := range step.After.Requests() {
		if so.settled[r.RequestID()] {
			return "a settled request is live"
		}
	}
	return lawOfState(stored(step.After), step.After)
}

// numbers: the numbers of seats and offers are dense and never reused.
func (so *chronicle) numbers(step turn) string {
	seat, offer := step.Before.LastSeat, step.Before.LastOffer
	for _, e := range step.Events {
		settles := uint32(0)
		switch e := e.(type) {
		case *group.Offered:
			if offer++; e.GetOffer().GetNumber() != offer {
				return fmt.Sprintf("offer %d where %d is next", e.GetOffer().GetNumber(), offer)
			}
		case *group.Seated:
			settles = e.GetOffer()
			if seat++; e.GetSeat() != seat {
				return fmt.Sprintf("seat %d where %d is next", e.GetSeat(), seat)
			}
		case *group.Withdrawn:
			settles = e.GetOffer()
		}
		if settles > offer || so.given[settles] {
			return fmt.Sprintf("offer %d is settled twice, or was never made", settles)
		}
		if settles > 0 {
			so.given[settles] = true
		}
	}
	if step.After.LastSeat != seat || step.After.LastOffer != offer {
		return "a number was skipped"
	}
	return ""
}

// settlements are final: no request reopens or changes after its end, and it ends with
// the votes that it had.
func (so *chronicle) settlements(step turn) string {
	for _, e := range step.Events {
		var about []byte
		switch e := e.(type) {
		case *group.Filed:
			id := e.GetRequest().RequestID()
			if so.filed[id] {
				return "a request was filed twice"
			}
			so.filed[id] = true
		case *group.Resolved:
			about = e.GetRequest().GetId()
		case *group.Voted:
			about = e.GetRequest()
		case *group.Consented:
			about = e.GetRequest()
		case *group.Carried:
			about = e.GetRequest()
		case *group.Offered:
			about = e.GetOffer().GetRequest()
		}
		id := parley.IDFromBytes[parley.JoinRequestID](about)
		if len(about) > 0 && (so.settled[id] || !so.filed[id]) {
			return fmt.Sprintf("%T after the request was settled", e)
		}
		if resolved, ok := e.(*group.Resolved); ok {
			so.settled[id] = true
			if r := resolved.GetRequest(); r.GetResolvedMs() == 0 || r.GetStatus() <= group.Invited {
				return "settled, and yet live"
			}
		}
	}
	return ""
}

// broadcasts: all are in one conversation until it ends, and no earlier one is used
// again. The recipients are the members except the sender, each once, in the order of
// their seats.
func (so *chronicle) broadcasts(step turn) string {
	c, ok := step.Command.(group.Send)
	for _, e := range step.Events {
		convened, begins := e.(*group.Convened)
		id := parley.IDFromBytes[parley.ConversationID](convened.GetConversation())
		switch {
		case begins && (!ok || c.Prior != nil || !c.Over && !step.Before.Conversation.Zero()):
			return "a conversation begins without need"
		case begins && (id.Zero() || so.convened[id]):
			return "a conversation comes back"
		case begins:
			so.convened[id] = true
		case ok:
			return fmt.Sprintf("%T by a broadcast", e)
		}
	}
	if !ok || step.Err != nil {
		return ""
	}
	to, last := step.After.Recipients(c.From), uint32(0)
	for _, seat := range to {
		m, member := step.After.Member(seat.Agent)
		if !member || seat.Number != m.Seat || seat.Number <= last || seat.Agent == c.From {
			return fmt.Sprintf("a broadcast of %v to %v", c.From, to)
		}
		last = seat.Number
	}
	readers := len(step.After.Members()) - step.After.AwaitingLeaf()
	if len(to) == 0 || len(to) != readers-1 || step.After.Conversation.Zero() {
		return fmt.Sprintf("a broadcast among %d members to %d, in %v", readers, len(to), step.After.Conversation)
	}
	if sealed := step.After.Epoch > 0; sealed && (len(step.After.Abandoned()) > 0 || c.MLS == nil || c.MLS.Epoch != step.After.Epoch) {
		return "a broadcast that a former member can read, or that members cannot"
	}
	return ""
}

// lawOfCommits: only commits begin epochs, one each. Leaves come by commits and go by
// commits: what a departure takes from the members is left behind.
func lawOfCommits(step turn) string {
	leaves := func(s *group.State) int { return s.Leaves() + len(s.Abandoned()) }
	commits := 0
	for _, e := range step.Events {
		if _, ok := e.(*group.Committed); ok {
			commits++
		}
	}
	_, commit := step.Command.(group.Commit)
	switch gained := step.After.Epoch - step.Before.Epoch; {
	case gained != uint64(commits) || commits > 1 || commits == 1 && !commit:
		return fmt.Sprintf("%d epochs by %d commits", gained, commits)
	case commits == 0 && leaves(step.After) != leaves(step.Before):
		return fmt.Sprintf("%d leaves without a commit, before %d", leaves(step.After), leaves(step.Before))
	case commits == 1 && step.After.Leaves() == 0:
		return "a commit by nobody"
	}
	return ""
}

// lawOfFrozen: a frozen group gets members and admins from its owner alone, and decides
// nothing else.
func lawOfFrozen(step turn) string {
	_, appointed := step.Command.(group.Appoint)
	for _, e := range step.Events {
		halts := false
		switch e := e.(type) {
		case *group.Changed, *group.Filed, *group.Voted, *group.Consented, *group.Carried:
			halts = true
		case *group.Offered:
			halts = !appointed
		case *group.Left:
			halts = e.GetHow() == group.Departure_kicked
		}
		if halts && group.Frozen(step.Before) {
			return fmt.Sprintf("%T in a frozen group", e)
		}
	}
	return ""
}

// lawOfRefusals: a refusal changes only what the passing of time, or the agent's own
// answer, has settled.
func lawOfRefusals(step turn) string {
	for _, e := range step.Events {
		resolved, ok := e.(*group.Resolved)
		_, consent := e.(*group.Consented)
		if step.Err != nil && !consent && !(ok && resolved.GetRequest().GetStatus() == group.Expired) {
			return fmt.Sprintf("refused, and yet %T", e)
		}
	}
	return ""
}

// lawOfTheEnd: a deleted group no longer changes, and its reserved seats go to nobody.
func lawOfTheEnd(step turn) string {
	if !step.Before.Deleted() {
		return ""
	}
	for _, e := range step.Events {
		if _, ok := e.(*group.Withdrawn); !ok {
			return fmt.Sprintf("%T after the group was deleted", e)
		}
	}
	before, after := stored(step.Before), stored(step.After)
	before.Offers, after.Offers, before.Declined, after.Declined = nil, nil, nil, nil
	if !proto.Equal(before, after) {
		return fmt.Sprintf("a deleted group changed: %v, %v", before, after)
	}
	return ""
}

// stored returns the state as its snapshot.
func stored(s *group.State) *group.Snapshot {
	b, err := encoding.Marshal(s)
	p := &group.Snapshot{}
	if err != nil || encoding.Unmarshal(b, p) != nil {
		panic("a state that cannot be stored")
	}
	return p
}

// lawOfState checks one existing group.
func lawOfState(p *group.Snapshot, s *group.State) string {
	places, admins, leaves := map[string]string{}, 0, 0
	occupy := func(agent []byte, as string) string {
		if was := places[string(agent)]; was != "" && !(was == "a request" && as == "an offer") {
			return fmt.Sprintf("an agent has %s and %s", was, as)
		}
		places[string(agent)] = as
		return ""
	}
	var broken []string
	for i, m := range p.GetSeats() {
		broken = append(broken, occupy(m.GetAgent(), "a seat"))
		if m.GetNumber() > p.GetLastSeat() || i > 0 && m.GetNumber() <= p.GetSeats()[i-1].GetNumber() {
			broken = append(broken, "seats are out of order")
		}
		if m.GetRole() == group.Admin {
			admins++
		}
		if m.GetLeaf() {
			leaves++
		}
	}
	if leaves != s.Leaves() || p.GetEpoch() == 0 && leaves+len(p.GetLeaves()) > 0 {
		broken = append(broken, fmt.Sprintf("%d leaves are counted as %d in epoch %d", leaves, s.Leaves(), p.GetEpoch()))
	}
	for _, l := range p.GetLeaves() {
		if m, member := s.Member(parley.AgentID(l.GetAgent())); member && m.Leaf {
			broken = append(broken, "an agent has two leaves")
		}
	}
	for _, r := range p.GetRequests() {
		broken = append(broken, occupy(r.GetAgent(), "a request"), lawOfVotes(p, s, r))
	}
	for _, o := range p.GetOffers() {
		broken = append(broken, occupy(o.GetAgent(), "an offer"))
	}
	if len(p.GetDeclined()) > group.DeclinedKept {
		broken = append(broken, "too much is remembered")
	}
	if admins == 0 && s.Seats(s.Org) {
		broken = append(broken, "the owner's members without an admin")
	}
	if taken := len(p.GetSeats()) + len(p.GetOffers()); taken > ceiling {
		broken = append(broken, fmt.Sprintf("%d seats of %d are taken", taken, ceiling))
	}
	return strings.Join(slices.DeleteFunc(broken, func(s string) bool { return s == "" }), "; ")
}

// lawOfVotes: the counters of a pending request equal a recount. Both thresholds can be
// reached, but never both at once.
func lawOfVotes(p *group.Snapshot, s *group.State, r *group.Request) string {
	if r.GetStatus() != group.Pending {
		return ""
	}
	electors, votes := 0, map[string]int{}
	for _, m := range p.GetSeats() {
		vote := s.VoteOf(r.RequestID(), parley.AgentID(m.GetAgent()))
		if m.GetNumber() <= r.GetMark() {
			electors++
		} else if vote != "" {
			return "a newcomer voted"
		}
		votes[vote]++
	}
	ballots := 0
	for _, b := range p.GetBallots() {
		if string(b.GetRequest()) == string(r.GetId()) {
			ballots = len(b.GetVotes())
		}
	}
	for_, against := int(r.GetApprovals()), int(r.GetDenials())
	switch e := int(r.GetElectorate()); {
	case e != electors:
		return fmt.Sprintf("an electorate of %d, %d are counted", electors, e)
	case for_ != votes[group.Approve] || against != votes[group.Deny] || ballots != for_+against:
		return fmt.Sprintf("%d for and %d against of %d ballots, counted %d and %d", votes[group.Approve], votes[group.Deny], ballots, for_, against)
	case e > int(r.GetTotal()):
		return "an electorate that grew"
	case e > 0 && (r.ApprovalsNeeded() > e || r.DenialsNeeded() > e || r.ApprovalsNeeded() < 1 || r.DenialsNeeded() < 1):
		return fmt.Sprintf("bars of %d and %d for %d electors", r.ApprovalsNeeded(), r.DenialsNeeded(), e)
	case e > 0 && r.ApprovalsNeeded()+r.DenialsNeeded() <= e:
		return "both bars can be met at once"
	}
	return ""
}

package group_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/group"
	"parley/client/parley"
)

var (
	wishes = rapid.SampledFrom(strings.Fields(`vote vote vote vote vote vote vote vote join join join join join invite invite invite
		answer answer answer remove remove remove change change forget role role expire delete found send send commit end end appoint`))
	early     = rapid.SampledFrom(strings.Fields("vote join invite answer remove change forget role expire delete send commit end appoint"))
	anybody   = rapid.SampledFrom(agentNames)
	policyOf  = rapid.SampledFrom([]group.Policy{group.Majority, group.Unanimity, group.Majority, group.Closed, group.Open})
	groupName = rapid.SampledFrom([]string{largeGroup, largeGroup, largeGroup, "club", sealedGroup, sealedGroup, coldGroup})
	words     = rapid.SampledFrom([]string{"", "hello"})
	often     = rapid.Map(rapid.IntRange(0, 3), func(n int) bool { return n < 3 })
	rarely    = rapid.Map(rapid.IntRange(0, 7), func(n int) bool { return n == 7 })
	seldom    = rapid.Map(rapid.IntRange(0, 15), func(n int) bool { return n == 15 })
	hours     = rapid.SampledFrom([]int{72, 24, 1})
	roles     = rapid.SampledFrom([]group.Role{group.Admin, group.RoleMember})
	refusals  = rapid.SampledFrom([]string{"", "", "", group.ReasonIsolation})
	slack     = rapid.IntRange(-1, 1)
	types     = rapid.SampledFrom([]string{"a.v1.x", "a.v1.y"})
	unnamed   = rapid.SampledFrom([]string{"org:a", "org:b", "org:c"})
)

func wish(t *rapid.T, o *oracle, now time.Time) group.Command {
	for _, way := range o.ways() {
		if c := way(t, now); c != nil && !o.over() {
			return c
		}
	}
	kind := wishes.Draw(t, "wish")
	switch {
	case !o.exists && rapid.Bool().Draw(t, "first of all"):
		kind = "found"
	case !o.exists:
		kind = early.Draw(t, "too early")
	case o.over() && len(o.waiting()) > 0 && often.Draw(t, "too late"):
		kind = "answer"
	case len(o.waiting()) > 0 && (len(o.chairs) == 0 && !seldom.Draw(t, "too early") || o.hurry(t)):
		kind = "answer"
	case o.exists && kind == "found" && !rarely.Draw(t, "again"), o.exists && kind == "vote" && len(o.open()) == 0 && !rarely.Draw(t, "all the same"):
		kind = "join"
	}
	switch kind {
	case "found":
		return group.Found{
			ID: actorstest.Named("club"), Org: ownerIn("ada"), Founder: idIn("ada"), Name: groupName.Draw(t, "name"), VoteHours: 72,
			Policy: policyOf.Draw(t, "policy"), Description: words.Draw(t, "description"), Public: rarely.Draw(t, "public"),
			Isolated: rarely.Draw(t, "isolated"),
		}
	case "vote":
		return wishToVote(t, o)
	case "end":
		return wishToEnd(t, o)
	case "appoint":
		return o.wishToAppoint(t)
	case "send":
		return o.wishToBroadcast(t)
	case "commit":
		return o.wishToCommit(t)
	case "invite":
		who := o.outsider(t)
		return group.Invite{
			RequestID: o.nextID(now), By: o.someone(t), Agent: idIn(who), Org: ownerIn(who), Message: words.Draw(t, "word"),
			Founding: rarely.Draw(t, "founding") || o.wasIn(who), Known: !seldom.Draw(t, "unknown"), Revoked: seldom.Draw(t, "revoked"),
			Confined: seldom.Draw(t, "confined"), SeatLimit: o.limit(t), Queue: o.queues(t),
		}
	case "join":
		who := o.outsider(t)
		return group.Join{
			RequestID: o.nextID(now), Agent: idIn(who), Org: ownerIn(who), Message: words.Draw(t, "word"),
			Confined: seldom.Draw(t, "confined"), SeatLimit: o.limit(t), Queue: o.queues(t),
		}
	case "answer":
		c := group.Answer{Offer: rapid.Uint32Range(0, uint32(len(o.kept))+1).Draw(t, "offer"), Refusal: refusals.Draw(t, "refusal")}
		if waiting := o.waiting(); len(waiting) > 0 && often.Draw(t, "kept") {
			k := rapid.SampledFrom(waiting).Draw(t, "offer")
			for _, other := range waiting {
				if other.byAsker && other.for_ != nil && other.for_.late(now) {
					k, c.Refusal = other, group.ReasonIsolation
				}
			}
			if c.Offer = k.number; k.byAsker && k.for_ != nil && rapid.Bool().Draw(t, "shy") {
				c.Refusal = group.ReasonIsolation
			}
		}
		if len(o.chairs) == 0 && !rarely.Draw(t, "founder refuses") {
			c.Refusal = ""
		}
		return c
	}
	return wishOfAdmins(t, o, kind, now)
}

// queues returns no bounds on pending requests at times, otherwise bounds that are
// nearly reached.
func (o *oracle) queues(t *rapid.T) group.Queue {
	waiting := o.waitingForVotes()
	switch {
	case waiting == 0 || rapid.Bool().Draw(t, "no queue"):
		return group.Queue{}
	case rapid.Bool().Draw(t, "of an organization"):
		return group.Queue{Org: rapid.IntRange(1, 2).Draw(t, "applications")}
	}
	return group.Queue{Group: waiting + rapid.IntRange(0, 1).Draw(t, "room")}
}

func wishOfAdmins(t *rapid.T, o *oracle, kind string, now time.Time) group.Command {
	who, by := o.insider(t), o.someone(t)
	if outside := caller(unnamed.Draw(t, "stranger")); !o.maySeeMembers(outside) && rarely.Draw(t, "by a stranger") {
		who, by = idIn(anybody.Draw(t, "who")), outside
	}
	switch kind {
	case "remove":
		if by := o.nominators(); len(by) > 0 && rapid.Bool().Draw(t, "nominator") {
			who = by[0].who
		}
		c := group.Remove{Agent: who, By: by, SeatLimit: o.limit(t)}
		if rapid.Bool().Draw(t, "by itself") {
			c.By = caller(nameIn(who))
		} else if rapid.Bool().Draw(t, "committed") {
			c.CommittedMs = now.Add(-committedBefore.Draw(t, "before")).UnixMilli()
		}
		if taken := len(o.sitting()) + len(o.waiting()); rapid.Bool().Draw(t, "full") {
			c.SeatLimit = &taken
		}
		return c
	case "forget":
		if rapid.Bool().Draw(t, "outsider") && len(o.sitting()) != 1 {
			who = idIn(o.outsider(t))
		}
		return group.Forget{Agent: who, SeatLimit: o.limit(t)}
	case "role":
		for _, c := range o.sitting() {
			if c.admin && o.admins() > 1 && rapid.Bool().Draw(t, "admin") {
				who = c.who
			}
		}
		return group.ChangeRole{Agent: who, By: by, Role: roles.Draw(t, "role")}
	case "expire":
		return group.Expire{}
	case "delete":
		late := slices.ContainsFunc(o.open(), func(p *petition) bool { return p.late(now) })
		if o.exists && !o.over() && len(o.waiting()) == 0 && !late && !rarely.Draw(t, "really") {
			return group.Expire{}
		}
		return group.Delete{By: by}
	}
	c := group.Change{
		By: by, Description: rapid.Ptr(words, true).Draw(t, "description"), Policy: rapid.Ptr(policyOf, true).Draw(t, "policy"),
		Public: rapid.Ptr(rarely, true).Draw(t, "public"), VoteHours: rapid.Ptr(hours, true).Draw(t, "hours"),
	}
	if rapid.Bool().Draw(t, "what never changes") {
		c.Name, c.Isolated = rapid.Ptr(groupName, true).Draw(t, "name"), rapid.Ptr(rapid.Bool(), true).Draw(t, "isolated")
	}
	return c
}

// wishToVote usually votes on a live request, and usually as one of its electors.
func wishToVote(t *rapid.T, o *oracle) group.Command {
	c := group.CastVote{By: o.someone(t), Approve: often.Draw(t, "approve"), SeatLimit: o.limit(t), Former: rapid.Bool().Draw(t, "former")}
	all := o.petitions
	if open := o.open(); len(open) > 0 && !rarely.Draw(t, "any") {
		all = open
	}
	if len(all) == 0 || seldom.Draw(t, "unknown") {
		c.Request = actorstest.Named("no request")
		return c
	}
	p := rapid.SampledFrom(all).Draw(t, "request")
	for _, other := range o.open() {
		if o.returned(other) != nil && often.Draw(t, "came back") {
			p = other
		}
		if other.status == "pending" && !other.consented && rapid.Bool().Draw(t, "nomination") {
			p, c.Approve = other, true
		}
	}
	c.Request, c.Settled = p.id, !p.live()
	if len(p.electors) > 0 && often.Draw(t, "elector") {
		who := rapid.SampledFrom(p.electors).Draw(t, "who").who
		if back := o.returned(p); back != nil && rapid.Bool().Draw(t, "came back") {
			who = back.who
		}
		c.By = group.Caller{Org: ownerIn(nameIn(who)), Agent: who}
	}
	return c
}

// wishToSend broadcasts in the current conversation, or in a new one if the current one
// has ended.
func wishToSend(t *rapid.T, from parley.AgentID, now parley.ConversationID) group.Send {
	c := group.Send{From: from, Type: types.Draw(t, "type"), Over: rarely.Draw(t, "over"), Conversation: after(now)}
	if rarely.Draw(t, "before") {
		c.Prior = &group.Prior{MessageID: actorstest.Named("message"), Type: types.Draw(t, "sent as")}
	}
	return c
}

// after returns another conversation id, a different one for each id.
func after(id parley.ConversationID) parley.ConversationID {
	binary.BigEndian.PutUint32(id[12:], binary.BigEndian.Uint32(id[12:])+1)
	return id
}

// someone returns mostly a member, sometimes an organization that names no agent.
func (o *oracle) someone(t *rapid.T) group.Caller {
	if rarely.Draw(t, "unnamed") {
		return caller(unnamed.Draw(t, "by"))
	}
	who := o.insider(t)
	return group.Caller{Org: ownerIn(nameIn(who)), Agent: who}
}

func (o *oracle) insider(t *rapid.T) parley.AgentID {
	if sitting := o.sitting(); len(sitting) > 0 && !rarely.Draw(t, "anybody") {
		chair := sitting[0]
		if often.Draw(t, "another") {
			chair = rapid.SampledFrom(sitting).Draw(t, "member")
		}
		return chair.who
	}
	return idIn(anybody.Draw(t, "who"))
}

func (o *oracle) outsider(t *rapid.T) string {
	open, waiting := o.open(), o.waiting()
	switch {
	case len(waiting) > 0 && rarely.Draw(t, "on the way"):
		return nameIn(rapid.SampledFrom(waiting).Draw(t, "seat").who)
	case len(open) > 0 && rapid.Bool().Draw(t, "asked"):
		return nameIn(rapid.SampledFrom(open).Draw(t, "petition").who)
	}
	if gone := o.gone(); len(gone) > 0 && rapid.Bool().Draw(t, "back again") {
		return nameIn(rapid.SampledFrom(gone).Draw(t, "who").who)
	}
	name := anybody.Draw(t, "who")
	if o.chairOf(idIn(name)) != nil && often.Draw(t, "another") {
		name = anybody.Draw(t, "who")
	}
	return name
}

// gone lists the agents that left and have not returned.
func (o *oracle) gone() (all []*chair) {
	for _, c := range o.chairs {
		if c.left && o.chairOf(c.who) == nil {
			all = append(all, c)
		}
	}
	return all
}

// nominators lists the members whose nominations are pending.
func (o *oracle) nominators() (all []*chair) {
	for _, p := range o.open() {
		if c := o.chairOf(p.by); c != nil && p.status == "pending" {
			all = append(all, c)
		}
	}
	return all
}

// wasIn: agents that left return by an invitation, whatever the policy.
func (o *oracle) wasIn(who string) bool {
	for _, c := range o.gone() {
		if c.who == idIn(who) {
			return true
		}
	}
	return false
}

// hurry: reserved seats are usually taken soon, but agents with a request take their
// time.
func (o *oracle) hurry(t *rapid.T) bool {
	if o.waiting()[0].for_ != nil {
		return rarely.Draw(t, "in a hurry")
	}
	return rapid.Bool().Draw(t, "at last")
}

// limit is usually nil, otherwise close to the number of seats taken.
func (o *oracle) limit(t *rapid.T) *int {
	if often.Draw(t, "no limit") {
		return nil
	}
	n := len(o.sitting()) + len(o.waiting()) + slack.Draw(t, "slack")
	return &n
}

func (o *oracle) nextID(now time.Time) parley.JoinRequestID {
	if len(o.petitions) == 0 {
		return parley.NewID[parley.JoinRequestID](o.settings.id.Slot(), now, [10]byte{})
	}
	return parley.NextID(o.petitions[len(o.petitions)-1].id, now, [10]byte{})
}

var trial = actorstest.Trial[*group.State, group.Command, group.Event, *oracle]{
	Rules: actorstest.Rules[*group.State, group.Command, group.Event]{
		Zero: rules.Zero, Decide: rules.Decide, Evolve: crowding, Tag: rules.Tag, New: rules.New,
	},
	Oracle: func() *oracle { return &oracle{} }, Draw: wish, Look: look, Closer: wellFormed,
	Pauses: []time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, time.Millisecond, time.Hour, 25 * time.Hour, 75 * time.Hour},
	Errors: map[string]error{
		"ErrUnknown": group.ErrUnknown, "ErrDeleted": group.ErrDeleted, "ErrUnknownMember": group.ErrUnknownMember,
		"ErrUnknownRequest": group.ErrUnknownRequest, "ErrUnknownAgent": group.ErrUnknownAgent, "ErrAgentRevoked": group.ErrAgentRevoked,
		"ErrNotMember": group.ErrNotMember, "ErrNotAdmin": group.ErrNotAdmin, "ErrInvitationRequired": group.ErrInvitationRequired,
		"ErrNotInElectorate": group.ErrNotInElectorate, "ErrElectorateEmpty": group.ErrElectorateEmpty, "ErrFull": group.ErrFull, "ErrQueueFull": group.ErrQueueFull,
		"ErrAlreadyMember": group.ErrAlreadyMember, "ErrAlreadyInvited": group.ErrAlreadyInvited, "ErrRequestClosed": group.ErrRequestClosed,
		"ErrFiledOften": group.ErrFiledOften, "ErrRequestSettled": group.ErrRequestSettled, "ErrNotConcerned": group.ErrNotConcerned,
		"ErrIsolationConflict": group.ErrIsolationConflict, "ErrNameImmutable": group.ErrNameImmutable,
		"ErrIsolatedImmutable": group.ErrIsolatedImmutable, "ErrLastAdmin": group.ErrLastAdmin, "ErrAgentRequired": group.ErrAgentRequired,
		"ErrCommitRepeated": group.ErrCommitRepeated, "ErrEpochConflict": group.ErrEpochConflict, "ErrMLSPending": group.ErrMLSPending,
		"ErrRemovalPending": group.ErrRemovalPending, "ErrCommitRequired": group.ErrCommitRequired, "ErrKickerRequired": group.ErrKickerRequired,
		"ErrMLSMessage": group.ErrMLSMessage, "ErrNotBegun": group.ErrNotBegun, "ErrCipherSuite": group.ErrCipherSuite, "ErrHasLeaf": group.ErrHasLeaf,
		"ErrExternal": group.ErrExternal, "ErrNoLeaf": group.ErrNoLeaf, "ErrCommitterStays": group.ErrCommitterStays,
		"ErrNotAwaiting": group.ErrNotAwaiting, "ErrFormerLeaf": group.ErrFormerLeaf, "ErrWelcome": group.ErrWelcome,
		"ErrFrozen": group.ErrFrozen, "ErrNotOwners": group.ErrNotOwners, "ErrGoverned": group.ErrGoverned,
		"ErrRepeated": group.ErrRepeated, "ErrIdempotencyMismatch": group.ErrIdempotencyMismatch, "ErrNoRecipients": group.ErrNoRecipients,
	},
	Cases: cases(),
}

// cases lists all outcomes of commands.
func cases() (all []string) {
	for line := range strings.Lines(caseList + frozenCases) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

func TestOracle(t *testing.T) { trial.Run(t) }

const caseList = `
	Answer: approved, cannot come
	Answer: cannot come
	Answer: cannot come, denied
	Answer: cannot come, expired
	Answer: no group
	Answer: no news
	Answer: seated
	Answer: the founder cannot come
	Answer: too late
	CastVote: an invitation
	CastVote: approved
	CastVote: approved, no room
	CastVote: being seated
	CastVote: counted
	CastVote: denied
	CastVote: late
	CastVote: no elector
	CastVote: no group
	CastVote: no member
	CastVote: no request
	CastVote: nobody left
	CastVote: over
	CastVote: said before
	CastVote: said before, judged now
	CastVote: settled
	CastVote: several electors
	Change: another name
	Change: changed
	Change: isolation
	Change: no admin
	Change: no group
	Change: nothing new
	Change: over
	ChangeRole: no admin
	ChangeRole: no group
	ChangeRole: no member
	ChangeRole: nothing new
	ChangeRole: over
	ChangeRole: changed
	ChangeRole: the last admin
	Commit: a former leaf
	Commit: a member with a leaf enters
	Commit: another epoch
	Commit: another suite
	Commit: begun
	Commit: entered
	Commit: entered again
	Commit: made before
	Commit: more than itself
	Commit: next
	Commit: next without a member
	Commit: no admin
	Commit: no group
	Commit: no leaf to remove
	Commit: no member
	Commit: nobody awaits
	Commit: nothing to enter
	Commit: over
	Commit: pending
	Commit: the committer
	Commit: the last admin
	Commit: welcome
	Delete: ended
	Delete: no admin
	Delete: no group
	Delete: over
	EndRequest: approved
	EndRequest: being seated
	EndRequest: declined
	EndRequest: ended before
	EndRequest: hidden
	EndRequest: late
	EndRequest: no group
	EndRequest: no request
	EndRequest: not concerned
	EndRequest: over
	EndRequest: settled
	EndRequest: withdrawn
	Expire: expired
	Expire: no group
	Expire: none is late
	Forget: a member
	Forget: a candidate
	Forget: a stranger
	Forget: no group
	Forget: over
	Forget: the last
	Forget: the last admin
	Found: again
	Found: founded
	Invite: a member
	Invite: asked already
	Invite: confined
	Invite: full
	Invite: invited
	Invite: no admin
	Invite: no group
	Invite: no member
	Invite: nobody
	Invite: nominated
	Invite: not required
	Invite: over
	Invite: revoked
	Invite: too many
	Join: a member
	Join: accepted
	Join: being seated
	Join: closed
	Join: confined
	Join: consented
	Join: filed
	Join: filed often
	Join: followed
	Join: full
	Join: no group
	Join: open
	Join: open after all
	Join: over
	Join: too many
	Remove: committed before
	Remove: kicked
	Remove: left
	Remove: no admin
	Remove: no commit
	Remove: no group
	Remove: no member
	Remove: no member to leave
	Remove: over
	Remove: the last admin
	Remove: unnamed
	Send: a leaf is left
	Send: another epoch
	Send: another under the key
	Send: made before
	Send: no group
	Send: no member
	Send: nobody else
	Send: over
	Send: pending
	Send: unsealed
	Send: sent
	Send: the first
	Send: the next conversation
`

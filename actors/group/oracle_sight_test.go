package group_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/actors/group"
	"parley/client/parley"
)

// sight is everything visible of a group.
type sight struct {
	settings            settings
	createdMs, closedMs int64
	chairs, offers      uint32
	members             []member
	keeping             []keeping
	asking              []asking
	ended               []settled
	left                leaving
	closed              string
	convened            convening
	fates               []string
	sealed              sealing
	behind              string
	awaiting            int
	frozen              bool
}

// convening describes the conversation of the broadcasts, and how it began.
type convening struct {
	id   parley.ConversationID
	by   string
	atMs int64
}

type settings struct {
	id                        parley.GroupID
	org                       parley.OrgID
	name, description, policy string
	public, isolated          bool
	hours                     int
}

type member struct {
	who, role string
	org       parley.OrgID
	sinceMs   int64
	seat, by  uint32
	leaf      bool
}

type keeping struct {
	number    uint32
	who, role string
	request   parley.JoinRequestID
	byAsker   bool
}

// asking is a live request, and what each caller may do about it.
type asking struct {
	id                        parley.JoinRequestID
	who, by, status, policy   string
	word, may, votes          string
	consented, late           bool
	fromMs, toMs              int64
	count                     count
	forNeeded, againstNeeded  int
	org                       parley.OrgID
	notSettled, notTheLastOne bool
}

// settled is the end of a request, leaving the departure of a member, both as the log
// keeps them.
type settled struct {
	id             parley.JoinRequestID
	who            parley.AgentID
	status, reason string
	atMs           int64
	count          count
}

type leaving struct {
	seat    uint32
	how, by string
	atMs    int64
}

// endsSeen is how many of the newest ends, and how many offers besides the next one,
// are compared.
const endsSeen = 3

// callers are those whose right to vote is compared: each agent, each organization that
// names no agent, and the zero caller.
var callers = func() (all []group.Caller) {
	for _, name := range agentNames {
		all = append(all, caller(name))
	}
	return append(all, caller("org:a"), caller("org:b"), caller("org:c"), group.Caller{})
}()

func (o *oracle) Visible(now time.Time) any {
	if !o.exists {
		return sight{}
	}
	seen := sight{
		settings: o.settings, createdMs: o.createdMs, closedMs: o.closedMs, chairs: uint32(len(o.chairs)), offers: uint32(len(o.kept)),
		left: o.left, closed: o.closed, frozen: o.frozen(), convened: o.convened, ended: slices.Clone(o.ended[max(0, len(o.ended)-endsSeen):]),
	}
	for _, c := range o.sitting() {
		name := nameIn(c.who)
		seen.members = append(seen.members, member{name, roleWord(c.admin), ownerIn(name), c.sinceMs, c.number, c.by, c.leaf})
	}
	for _, name := range agentNames {
		if k := o.keptFor(idIn(name)); k != nil {
			row := keeping{number: k.number, who: name, role: roleWord(k.admin), byAsker: k.byAsker}
			if k.for_ != nil {
				row.request = k.for_.id
			}
			seen.keeping = append(seen.keeping, row)
		}
	}
	for _, p := range o.open() {
		n := p.count()
		seen.asking = append(seen.asking, asking{
			id: p.id, who: nameIn(p.who), by: nameIn(p.by), status: p.status, policy: p.policy, word: p.word, may: o.mayVote(p, now),
			votes: o.votes(p), consented: p.consented, late: p.late(now), fromMs: p.fromMs, toMs: p.toMs, count: n, org: ownerIn(nameIn(p.who)),
			forNeeded: fewest(carries, p.policy, n.electors), againstNeeded: fewest(fails, p.policy, n.electors),
		})
	}
	seen.sealed, seen.behind, seen.awaiting = o.sealed, o.tellBehind(), o.awaiting()
	for n := max(0, len(o.kept)-endsSeen); n <= len(o.kept); n++ {
		seen.fates = append(seen.fates, o.fate(n+1))
	}
	return seen
}

// fate returns what became of an offer: pending, seated, or why it was not taken.
func (o *oracle) fate(number int) string {
	if number < 1 || number > len(o.kept) {
		return ""
	}
	switch k := o.kept[number-1]; {
	case !k.settled:
		return "kept"
	case k.chair != nil && !k.chair.left:
		return "seated " + nameIn(k.who)
	default:
		return k.declined
	}
}

func fateOf(s *group.State, number int) string {
	m, seated, reason, kept := s.Fate(uint32(number))
	switch {
	case kept && !seated && reason == "" && m == (group.Member{}):
		return "kept"
	case seated && !kept && reason == "":
		return "seated " + nameIn(m.Agent)
	case seated || kept || m != (group.Member{}):
		return fmt.Sprintf("%v and yet seated %v, kept %v, %q", m, seated, kept, reason)
	}
	return reason
}

func roleWord(admin bool) string { return map[bool]string{true: "admin", false: "member"}[admin] }

// mayVote returns for each caller whether its vote counts, or why not.
func (o *oracle) mayVote(p *petition, now time.Time) string {
	words := make([]string, 0, len(callers))
	for _, by := range callers {
		electors := 0
		for _, chair := range o.acting(by) {
			if p.elector(chair.who) == chair {
				electors++
			}
		}
		switch {
		case p.status == "invited":
			words = append(words, "not_a_vote")
		case o.over() || o.frozen() || p.late(now) || o.beingSeated(p):
			words = append(words, "request_closed")
		case by.Agent == p.who, electors == 0 && by.Agent.Zero() && by.Org == ownerIn(nameIn(p.who)):
			words = append(words, "own_request")
		case electors > 1:
			words = append(words, "no_acting_agent")
		case electors == 0:
			words = append(words, "not_in_electorate")
		default:
			words = append(words, "ok")
		}
	}
	return strings.Join(words, " ")
}

func (o *oracle) votes(p *petition) string {
	words := ""
	for _, name := range agentNames {
		if chair := p.elector(idIn(name)); chair != nil {
			if approve, said := p.said[chair]; said {
				words += name + map[bool]string{true: " approve ", false: " deny "}[approve]
			}
		}
	}
	return words
}

func look(l *life) any {
	s := l.State
	if !s.Exists() {
		return sight{}
	}
	seen := sight{
		settings:  settings{s.ID, s.Org, s.Name, s.Description, s.Policy.String(), s.Public, s.Isolated, s.VoteHours},
		createdMs: s.CreatedAt().UnixMilli(), closedMs: s.DeletedMs, chairs: s.LastSeat, offers: s.LastOffer, frozen: group.Frozen(s),
	}
	for _, m := range s.Members() {
		seen.members = append(seen.members, member{nameIn(m.Agent), m.Role.String(), m.Org, m.JoinedAt().UnixMilli(), m.Seat, m.Offer, m.Leaf})
	}
	for _, name := range agentNames {
		if o := s.OfferTo(idIn(name)); o != nil {
			request := parley.IDFromBytes[parley.JoinRequestID](o.GetRequest())
			seen.keeping = append(seen.keeping, keeping{o.GetNumber(), name, o.GetRole().String(), request, o.GetAsked()})
		}
	}
	for _, r := range s.Requests() {
		seen.asking = append(seen.asking, lookAtRequest(s, r, l.Now))
	}
	for n := max(0, int(s.LastOffer)-endsSeen); n <= int(s.LastOffer); n++ {
		seen.fates = append(seen.fates, fateOf(s, n+1))
	}
	lookBack(&seen, l.History)
	seen.convened.id = s.Conversation
	lookAtSeals(&seen, s, l.History)
	return seen
}

func lookAtRequest(s *group.State, r *group.Request, now time.Time) asking {
	row := asking{
		id: r.RequestID(), who: nameIn(r.AgentID()), by: nameIn(r.Inviter()), status: r.GetStatus().String(), policy: r.GetPolicy().String(),
		word: r.GetMessage(), consented: r.GetConsented(), late: r.Overdue(now), fromMs: r.GetCreatedMs(), toMs: r.GetExpiresMs(),
		count: countOf(r), org: parley.IDFromBytes[parley.OrgID](r.GetOrg()), forNeeded: r.ApprovalsNeeded(), againstNeeded: r.DenialsNeeded(),
		notSettled: s.Request(r.RequestID()) != r || r.GetResolvedMs() != 0, notTheLastOne: s.RequestOf(r.AgentID()) != r,
	}
	words := make([]string, 0, len(callers))
	for _, by := range callers {
		_, because := s.YouMayVote(r, by, now)
		words = append(words, because)
	}
	row.may = strings.Join(words, " ")
	for _, name := range agentNames {
		if vote := s.VoteOf(r.RequestID(), idIn(name)); vote != "" {
			row.votes += name + " " + vote + " "
		}
	}
	return row
}

func countOf(r *group.Request) count {
	return count{int(r.GetTotal()), int(r.GetElectorate()), int(r.GetApprovals()), int(r.GetDenials())}
}

// lookBack reads the newest ends from the log.
func lookBack(seen *sight, history []group.Event) {
	for _, e := range slices.Backward(history) {
		switch e := e.(type) {
		case *group.Resolved:
			if r := e.GetRequest(); len(seen.ended) < endsSeen {
				seen.ended = append(seen.ended, settled{
					r.RequestID(), r.AgentID(), r.GetStatus().String(), r.GetReason(), r.GetResolvedMs(), countOf(r),
				})
			}
		case *group.Left:
			if seen.left == (leaving{}) {
				by := parley.IDFromBytes[parley.AgentID](e.GetBy())
				seen.left = leaving{e.GetSeat(), e.GetHow().String(), nameOrNobody(by), e.GetAtMs()}
			}
		case *group.Convened:
			if seen.convened == (convening{}) {
				seen.convened.by, seen.convened.atMs = nameIn(parley.IDFromBytes[parley.AgentID](e.GetBy())), e.GetAtMs()
			}
		case *group.Deleted:
			seen.closed = nameOrNobody(parley.IDFromBytes[parley.AgentID](e.GetBy()))
		}
	}
	slices.Reverse(seen.ended)
}

// wellFormed makes the costly checks at the end of a life: the laws of the state, pages
// of members, seats by organization, and the order of ids.
func wellFormed(l *life, o *oracle) error {
	s := l.State
	for i, m := range s.Members() {
		if page := s.MembersFrom(m.Seat - 1); len(page) != len(s.Members())-i || page[0].Agent != m.Agent {
			return fmt.Errorf("behind seat %d: %v", m.Seat-1, page)
		}
		if id := m.ID(s.ID); i > 0 && id == s.Members()[i-1].ID(s.ID) || id == parley.AnyID(s.ID) {
			return fmt.Errorf("a membership's id twice: %v", id)
		}
	}
	for letter, org := range owners {
		seats := slices.ContainsFunc(o.sitting(), func(c *chair) bool { return nameIn(c.who)[:1] == letter })
		if s.Seats(org) != seats {
			return fmt.Errorf("%s has a seat: %v, and yet %v", letter, seats, s.Seats(org))
		}
	}
	if next := s.NextRequestID(l.Now, [10]byte{}); o.exists {
		for _, p := range o.petitions {
			if bytes.Compare(next[:], p.id[:]) <= 0 || next.Slot() != s.ID.Slot() {
				return fmt.Errorf("%v follows %v", next, p.id)
			}
		}
	}
	return o.wellTold(s)
}

// wellTold checks the outcome of every offer ever made, which offers are stale, and the
// recipients of each member's broadcasts.
func (o *oracle) wellTold(s *group.State) error {
	for n := range len(o.kept) + 2 {
		fate := o.fate(n)
		if told := fateOf(s, n); told != fate {
			return fmt.Errorf("offer %d: %q, foretold is %q", n, told, fate)
		}
		for _, name := range agentNames {
			stale := fate != "seated "+name && (fate != "kept" || o.kept[n-1].who != idIn(name))
			if s.Stale(uint32(n), idIn(name)) != stale {
				return fmt.Errorf("a seat of %s by offer %d is stale: %v, foretold is %v", name, n, !stale, stale)
			}
		}
	}
	for _, from := range agentNames {
		var to []parley.Seat
		for _, c := range o.readers() {
			if c.who != idIn(from) {
				to = append(to, parley.Seat{Agent: c.who, Number: c.number})
			}
		}
		if got := s.Recipients(idIn(from)); !slices.Equal(got, to) {
			return fmt.Errorf("%s sends to %v, foretold is %v", from, got, to)
		}
	}
	return nil
}

package group_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/group"
	"parley/client/parley"
)

// sealedGroup is the name of a group that is large, and in which commits are frequent.
const sealedGroup = "sealed"

// sealing is what is known of the MLS group, and its latest commit as the log keeps it.
type sealing struct {
	epoch  uint64
	suite  uint16
	latest string
}

// behind lists the chairs of former members whose leaves are still there, in the order in
// which they left.
func (o *oracle) behind() (all []*chair) {
	for _, c := range o.chairs {
		if c.left && c.leaf {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *chair) int { return a.leftAs - b.leftAs })
	return all
}

func (o *oracle) leafBehind(who parley.AgentID) *chair {
	for _, c := range o.behind() {
		if c.who == who {
			return c
		}
	}
	return nil
}

// vacate empties a chair; a leaf stays behind.
func (o *oracle) vacate(c *chair) {
	o.departures++
	c.left, c.leftAs = true, o.departures
}

// readers are the members that get broadcasts.
func (o *oracle) readers() []*chair {
	return slices.DeleteFunc(o.sitting(), func(c *chair) bool { return o.sealed.epoch > 0 && !c.leaf })
}

func (o *oracle) awaiting() int { return len(o.sitting()) - len(o.readers()) }

func (o *oracle) tellBehind() string {
	words := ""
	for _, c := range o.behind() {
		words += fmt.Sprintf("%s:%d ", nameIn(c.who), c.number)
	}
	return words
}

func (o *oracle) adminsOf(org parley.OrgID) []*chair {
	return slices.DeleteFunc(o.sitting(), func(c *chair) bool { return !c.admin || ownerIn(nameIn(c.who)) != org })
}

// commit: the first is an admin's and begins the MLS group; after that, members with a leaf
// commit, and a member without one may add itself.
func (o *oracle) commit(c group.Commit, now time.Time) actorstest.Verdict {
	by, begun := o.chairOf(c.By), o.sealed.epoch > 0
	switch {
	case by == nil:
		return refused("no member", "403 not_member")
	case c.Epoch != o.sealed.epoch:
		return refused("another epoch", fmt.Sprintf("409 epoch_conflict (current_epoch=%d)", o.sealed.epoch))
	case !begun && !by.admin:
		return refused("no admin", "403 not_admin")
	case !begun && c.External:
		return refused("nothing to enter", "422 validation_error (loc=commit)")
	case begun && c.Suite != o.sealed.suite:
		return refused("another suite", "422 validation_error (loc=group_info)")
	case c.External:
		return o.enter(c, by, now)
	case begun && !by.leaf:
		return refused("pending", "409 mls_pending")
	}
	var gone, kicked, added []*chair
	for _, who := range c.Removed {
		one, sits := o.leafBehind(who), false
		if one == nil {
			one, sits = o.chairOf(who), true
		}
		switch {
		case slices.Contains(gone, one):
			continue
		case one == nil:
			return refused("no leaf to remove", "422 validation_error (loc=removed)")
		case sits && o.frozen():
			return refused("frozen", "409 frozen")
		case sits && !by.admin:
			return refused("no admin", "403 not_admin")
		case one == by && o.admins() == 1:
			return refused("the last admin", "422 last_admin")
		case one == by:
			return refused("the committer", "422 validation_error (loc=removed)")
		case sits:
			kicked = append(kicked, one)
		}
		gone = append(gone, one)
	}
	if (len(c.Added) == 0) != (c.Welcome == nil) {
		return refused("welcome", "422 validation_error (loc=welcome)")
	}
	for _, who := range c.Added {
		one, old := o.chairOf(who), o.leafBehind(who)
		switch {
		case slices.Contains(added, one):
			continue
		case one == nil || one.leaf || one == by || slices.Contains(kicked, one):
			return refused("nobody awaits", "422 validation_error (loc=added)")
		case old != nil && !slices.Contains(gone, old):
			return refused("a former leaf", "422 validation_error (loc=added)")
		}
		added = append(added, one)
	}
	o.advance(c, by, added, gone, now)
	for _, one := range kicked {
		o.vacate(one)
		o.left = leaving{one.number, "kicked", nameIn(by.who), now.UnixMilli()}
	}
	o.countAgain(kicked, c.SeatLimit, now)
	if begun && len(kicked) > 0 {
		return taken("next without a member")
	}
	return taken(map[bool]string{false: "begun", true: "next"}[begun])
}

// enter: a pending member for itself alone; the leaf that it left behind goes.
func (o *oracle) enter(c group.Commit, by *chair, now time.Time) actorstest.Verdict {
	old := o.leafBehind(by.who)
	others := append(slices.Clone(c.Removed), c.Added...)
	switch {
	case by.leaf:
		return refused("a member with a leaf enters", "422 validation_error (loc=commit)")
	case len(c.Added) != 1, c.Welcome != nil, slices.ContainsFunc(others, func(a parley.AgentID) bool { return a != by.who }), (len(c.Removed) == 0) != (old == nil):
		return refused("more than itself", "422 validation_error (loc=added)")
	case old == nil:
		o.advance(c, by, []*chair{by}, nil, now)
		return taken("entered")
	}
	o.advance(c, by, []*chair{by}, []*chair{old}, now)
	return taken("entered again")
}

func (o *oracle) advance(c group.Commit, by *chair, added, gone []*chair, now time.Time) {
	for _, one := range gone {
		one.leaf = false
	}
	by.leaf = true
	for _, one := range added {
		one.leaf = true
	}
	o.sealed = sealing{c.Epoch + 1, c.Suite, tellCommit(c.Epoch, by.number, numbersOf(added), numbersOf(gone), c, now)}
}

func tellCommit(epoch uint64, by uint32, added, gone []uint32, c group.Commit, now time.Time) string {
	return fmt.Sprintf("%d by %d: %v in, %v out; %s, %s, %s at %d", epoch, by, added, gone, c.Commit, c.GroupInfo, c.Welcome, now.UnixMilli())
}

func numbersOf(chairs []*chair) (all []uint32) {
	for _, c := range chairs {
		all = append(all, c.number)
	}
	return all
}

// unsealed returns why the MLS group's members cannot read a broadcast, or a former member
// could; the zero verdict if nothing is wrong.
func (o *oracle) unsealed(c group.Send) (none actorstest.Verdict) {
	behind := o.behind()
	switch {
	case o.sealed.epoch == 0:
		return none
	case !o.chairOf(c.From).leaf:
		return refused("pending", "409 mls_pending")
	case c.MLS == nil:
		return refused("unsealed", "422 validation_error (loc=encrypted_payload)")
	case len(behind) > 0:
		var ids []string
		for _, one := range behind {
			ids = append(ids, one.who.String())
		}
		return refused("a leaf is left", fmt.Sprintf("409 mls_removal_pending (removed=%v)", ids))
	case c.MLS.Epoch != o.sealed.epoch:
		return refused("another epoch", fmt.Sprintf("409 epoch_conflict (current_epoch=%d)", o.sealed.epoch))
	}
	return none
}

// lookAtSeals reads the MLS group from the state, and its latest commit from the log.
func lookAtSeals(seen *sight, s *group.State, history []group.Event) {
	seen.sealed, seen.awaiting = sealing{epoch: s.Epoch, suite: s.Suite}, s.AwaitingLeaf()
	for _, l := range s.Abandoned() {
		who := parley.IDFromBytes[parley.AgentID](l.GetAgent())
		seen.behind += fmt.Sprintf("%s:%d ", nameIn(who), l.GetSeat())
		if !s.LeftLeaf(who) {
			seen.behind += "unknown "
		}
	}
	for _, e := range slices.Backward(history) {
		if c, ok := e.(*group.Committed); ok {
			seen.sealed.latest = tellCommit(c.GetEpoch(), c.GetBy(), c.GetAdded(), c.GetRemoved(), group.Commit{
				Commit: c.GetCommit(), GroupInfo: c.GetGroupInfo(), Welcome: c.GetWelcome(),
			}, time.UnixMilli(c.GetAtMs()))
			return
		}
	}
}

var (
	suites          = rapid.SampledFrom([]uint16{1, 1, 1, 1, 1, 2})
	committedBefore = rapid.SampledFrom([]time.Duration{time.Hour, 24*time.Hour - time.Millisecond, 24 * time.Hour, 30 * time.Hour})
)

// wishToBroadcast sends mostly what the MLS group's members can read.
func (o *oracle) wishToBroadcast(t *rapid.T) group.Command {
	from := o.insider(t)
	if readers := o.readers(); len(readers) > 0 && often.Draw(t, "reader") {
		from = rapid.SampledFrom(readers).Draw(t, "from").who
	}
	c := wishToSend(t, from, o.convened.id)
	if often.Draw(t, "sealed") {
		c.MLS = &group.MLSHeader{Epoch: o.epoch(t)}
	}
	return c
}

// epoch is mostly the present one.
func (o *oracle) epoch(t *rapid.T) uint64 {
	if rarely.Draw(t, "another epoch") {
		return o.sealed.epoch + uint64(rapid.IntRange(-1, 1).Draw(t, "off"))
	}
	return o.sealed.epoch
}

// wishToCommit mostly commits what the members' seats call for.
func (o *oracle) wishToCommit(t *rapid.T) group.Command {
	c := group.Commit{
		By: o.insider(t), Repeated: seldom.Draw(t, "repeated"), Epoch: o.epoch(t), Suite: suites.Draw(t, "suite"),
		Commit: []byte(words.Draw(t, "commit")), GroupInfo: []byte("info"), SeatLimit: o.limit(t),
	}
	pending := slices.DeleteFunc(o.sitting(), func(one *chair) bool { return one.leaf })
	if len(pending) > 0 && o.sealed.epoch > 0 && rarely.Draw(t, "from outside") {
		return o.wishToEnter(t, c, rapid.SampledFrom(pending).Draw(t, "newcomer").who)
	}
	if c.External = seldom.Draw(t, "external"); o.sealed.epoch > 0 && len(o.readers()) > 0 && often.Draw(t, "reader") {
		c.By = rapid.SampledFrom(o.readers()).Draw(t, "by").who
	} else if by := o.admin(group.Caller{Org: o.settings.org}); o.sealed.epoch == 0 && by != nil && often.Draw(t, "admin") {
		c.By = by.who
	}
	for _, one := range pending {
		if one.who != c.By && rapid.Bool().Draw(t, "add") {
			c.Added = append(c.Added, one.who)
		}
	}
	for _, one := range o.behind() {
		if often.Draw(t, "remove") {
			c.Removed = append(c.Removed, one.who)
		}
	}
	if rarely.Draw(t, "kick") {
		c.Removed = append(c.Removed, o.insider(t), c.By)[:rapid.IntRange(1, 2).Draw(t, "how many")]
	}
	if rarely.Draw(t, "anybody added") {
		c.Added = append(c.Added, idIn(anybody.Draw(t, "who")))
	}
	if len(c.Added) > 0 {
		c.Welcome = []byte("welcome")
	}
	if seldom.Draw(t, "twice") {
		c.Added, c.Removed = append(c.Added, c.Added...), append(c.Removed, c.Removed...)
	}
	if seldom.Draw(t, "welcome or not") {
		c.Welcome = []byte("welcome")[:rapid.SampledFrom([]int{0, 7}).Draw(t, "length")]
		if len(c.Welcome) == 0 {
			c.Welcome = nil
		}
	}
	return c
}

// wishToEnter is an external commit.
func (o *oracle) wishToEnter(t *rapid.T, c group.Commit, who parley.AgentID) group.Command {
	c.By, c.External, c.Suite, c.Added = who, true, o.sealed.suite, []parley.AgentID{who}
	if o.leafBehind(who) != nil && often.Draw(t, "former leaf") {
		c.Removed = []parley.AgentID{who}
	}
	if rarely.Draw(t, "with another") {
		c.Added = append(c.Added, o.insider(t))
	}
	return c
}

// handshake lets a group whose name asks for it begin an MLS group, and members with a leaf
// leave and come back, so that leaves are left behind. It returns nil at most times.
func (o *oracle) handshake(t *rapid.T, now time.Time) group.Command {
	if o.settings.name != sealedGroup || len(o.sitting()) == 0 {
		return nil
	}
	for _, c := range o.behind() {
		name := nameIn(c.who)
		by, k := o.admin(group.Caller{Org: o.settings.org}), o.keptFor(c.who)
		switch {
		case !rarely.Draw(t, "back with a leaf behind"), o.petitionOf(c.who) != nil && o.petitionOf(c.who).late(now):
		case k != nil:
			return group.Answer{Offer: k.number}
		case o.chairOf(c.who) != nil && rapid.Bool().Draw(t, "enter"):
			return o.wishToEnter(t, group.Commit{Epoch: o.sealed.epoch}, c.who)
		case o.chairOf(c.who) != nil && len(o.readers()) > 0 && rapid.Bool().Draw(t, "forgets the former leaf"):
			by := o.readers()[0].who
			return group.Commit{By: by, Epoch: o.sealed.epoch, Suite: o.sealed.suite, Added: []parley.AgentID{c.who}, Welcome: []byte("welcome")}
		case o.chairOf(c.who) != nil:
			return o.wishToCommit(t)
		case o.petitionOf(c.who) != nil:
			return group.Join{RequestID: o.nextID(now), Agent: c.who, Org: ownerIn(name)}
		case by != nil:
			return group.Invite{RequestID: o.nextID(now), By: caller(nameIn(by.who)), Agent: c.who, Org: ownerIn(name), Known: true, Founding: true}
		}
	}
	if c := o.removal(t, now); c != nil && rarely.Draw(t, "removal") {
		return c
	}
	switch {
	case rarely.Draw(t, "commit"):
		return o.wishToCommit(t)
	case o.sealed.epoch > 0 && rarely.Draw(t, "send"):
		return o.wishToBroadcast(t)
	case o.sealed.epoch > 0 && seldom.Draw(t, "leave"):
		if c := rapid.SampledFrom(o.sitting()).Draw(t, "who"); !c.admin {
			return group.Remove{Agent: c.who, By: caller(nameIn(c.who)), SeatLimit: o.limit(t)}
		}
	}
	return nil
}

// removal lets an admin with a leaf remove members by commits, itself among them, and repeat
// that without a commit. It returns nil if no admin has a leaf.
func (o *oracle) removal(t *rapid.T, now time.Time) group.Command {
	readers := o.readers()
	at := slices.IndexFunc(readers, func(c *chair) bool { return c.admin })
	if o.sealed.epoch == 0 || at < 0 || len(o.sitting()) < 3 {
		return nil
	}
	by := readers[at]
	c := group.Commit{By: by.who, Epoch: o.sealed.epoch, Suite: o.sealed.suite}
	other := rapid.SampledFrom(slices.DeleteFunc(o.sitting(), func(c *chair) bool { return c == by })).Draw(t, "other")
	gone := o.gone()
	switch {
	case other.admin && rapid.Bool().Draw(t, "itself"):
		c.Removed = []parley.AgentID{by.who}
	case !other.admin && rapid.Bool().Draw(t, "two admins"):
		return group.ChangeRole{Agent: other.who, By: caller(nameIn(by.who)), Role: group.Admin}
	case len(gone) > 0 && rapid.Bool().Draw(t, "committed before"):
		who := rapid.SampledFrom(gone).Draw(t, "who").who
		return group.Remove{Agent: who, By: caller(nameIn(by.who)), CommittedMs: now.Add(-committedBefore.Draw(t, "before")).UnixMilli()}
	default:
		c.Removed = []parley.AgentID{other.who}
	}
	return c
}

var handshakesGoneWrong = map[string]func(*groupRules){
	"anybody begins": askingFor(func(s *group.State, c *group.Commit) {
		if _, member := s.Member(c.By); member && s.Epoch == 0 {
			c.By = s.Members()[0].Agent
		}
	}),
	"a commit of another epoch is good": askingFor(func(s *group.State, c *group.Commit) { c.Epoch = s.Epoch }),
	"a repeat is no repeat":             askingFor(func(_ *group.State, c *group.Commit) { c.Repeated = false }),
	"who has no leaf commits": seeing(func(p *group.Snapshot, c group.Commit) {
		for _, m := range p.GetSeats() {
			m.Leaf = m.GetLeaf() || string(m.GetAgent()) == string(c.By.Bytes()) && !c.External
		}
	}),
	"a removed member stays": telling[group.Commit](without[*group.Left]),
	"a removed member leaves its leaf": telling[group.Commit](func(_ *group.State, events []group.Event) []group.Event {
		for _, e := range events {
			if c, ok := e.(*group.Committed); ok {
				c.Removed = nil
			}
		}
		return events
	}),
	"members remove members": seeing(func(p *group.Snapshot, c group.Commit) {
		for _, m := range p.GetSeats() {
			if string(m.GetAgent()) == string(c.By.Bytes()) && m.GetLeaf() {
				m.Role = group.Admin
			}
		}
	}),
	"a leaf is not left behind": evolving(func(before, after *group.Snapshot, _ *group.Left) { after.Leaves = before.GetLeaves() }),
	"a leaf left behind stays": evolving(func(before, after *group.Snapshot, _ *group.Committed) {
		after.Leaves = before.GetLeaves()
	}),
	"newcomers have a leaf": evolving(func(_, after *group.Snapshot, _ *group.Seated) {
		seats := after.GetSeats()
		seats[len(seats)-1].Leaf = after.GetEpoch() > 0
	}),
	"who is back has its old leaf": deciding(func(s *group.State, c group.Commit, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		if strings.Contains(fmt.Sprint(err), "has a former leaf") {
			c.Added, c.Welcome = nil, nil
			return group.Decide(s, c, now)
		}
		return events, err
	}),
	"an external commit adds others": askingFor(func(_ *group.State, c *group.Commit) {
		if c.External && len(c.Added) > 1 {
			c.Added = []parley.AgentID{c.By}
		}
	}),
	"kicked without a commit": seeing(func(p *group.Snapshot, _ group.Remove) { p.Epoch = 0 }),
	"kicked by an organization": askingFor(func(s *group.State, c *group.Remove) {
		if m, named := s.Member(s.Members()[0].Agent); c.By.Agent.Zero() && named && m.Org == c.By.Org && m.Role == group.Admin {
			c.By.Agent = m.Agent
		}
	}),
	"a removal is answered for ever": askingFor(func(_ *group.State, c *group.Remove) {
		if c.CommittedMs > 0 {
			c.CommittedMs = 1 << 60
		}
	}),
	"pending members write": seeing(func(p *group.Snapshot, _ group.Send) {
		for _, m := range p.GetSeats() {
			m.Leaf = true
		}
	}),
	"written unsealed": askingFor(func(s *group.State, c *group.Send) {
		if c.MLS == nil {
			c.MLS = &group.MLSHeader{Epoch: s.Epoch}
		}
	}),
	"written in another epoch": askingFor(func(s *group.State, c *group.Send) {
		if c.MLS != nil {
			c.MLS = &group.MLSHeader{Epoch: s.Epoch}
		}
	}),
	"written for who has left": seeing(func(p *group.Snapshot, _ group.Send) { p.Leaves = nil }),
}

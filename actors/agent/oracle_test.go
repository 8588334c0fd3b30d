package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parley"
	"parley/actors/actorstest"
	"parley/actors/agent"
)

// record is what an agent shows. // spec: Agent (AgentRead)
type record struct {
	id                  parley.AgentID
	org                 parley.OrgID
	name                string
	oversight, unlisted bool
	incoming, outgoing  string
	createdMs           int64
	revokedMs           int64 // 0 for null
	signing, encryption string
	poll                string // hash of the poll token that counts
	former              []former
	warnings            [2]bool // of the incoming, of the outgoing policy
	seats               []seat  // in the order of entering
	confined            bool
}

// seat is a membership in a group, by the name the group has here.
type seat struct {
	group    string
	offer    uint32
	isolated bool
}

// former is a key that was rotated away and is not current.
type former struct {
	curve, raw string
	retiredMs  int64
}

// oracle is an agent as the specification tells of it.
type oracle struct {
	record
	exists bool
	// retired are all keys that were ever rotated away, as it happened.
	retired []former
}

func (o *oracle) revoked() bool { return o.revokedMs != 0 }

// Sight derives the former keys from all that happened: a key counts from its
// last retirement, unless it is current again.
func (o *oracle) Sight(time.Time) any {
	seen := o.record
	seen.former = nil
	for i, k := range o.retired {
		current := k.curve == parley.Ed25519 && k.raw == o.signing || k.curve == parley.X25519 && k.raw == o.encryption
		later := slices.ContainsFunc(o.retired[i+1:], func(l former) bool { return l.curve == k.curve && l.raw == k.raw })
		if !current && !later {
			seen.former = append(seen.former, k)
		}
	}
	seen.warnings = [2]bool{o.incoming == "groups_only" && len(o.seats) == 0, o.outgoing == "groups_only" && len(o.seats) == 0}
	seen.seats = append([]seat(nil), o.seats...)
	seen.confined = slices.ContainsFunc(o.seats, func(s seat) bool { return s.isolated })
	return seen
}

func look(l *life) any {
	s := l.State
	revokedAt, revoked := s.RevokedAt()
	seen := record{
		id: s.AgentID(), org: s.Owner(), name: s.GetName(), oversight: s.GetHumanOversight(), unlisted: s.GetUnlisted(),
		incoming: s.GetIncomingPolicy(), outgoing: s.GetOutgoingPolicy(), createdMs: s.GetCreatedMs(),
		signing: string(s.GetSigningKey()), encryption: string(s.GetEncryptionKey()), poll: string(s.GetPollTokenHash()),
	}
	if revoked {
		seen.revokedMs = revokedAt.UnixMilli()
	}
	for _, k := range s.GetFormerKeys() {
		seen.former = append(seen.former, former{k.Curve, string(k.Raw), k.RetiredMs})
	}
	for _, w := range s.Warnings() {
		seen.warnings[0] = seen.warnings[0] || strings.HasPrefix(w, "incoming_policy")
		seen.warnings[1] = seen.warnings[1] || strings.HasPrefix(w, "outgoing_policy")
	}
	for _, m := range s.GetGroups() {
		for _, name := range groupNames {
			if m.GroupID() == actorstest.Named(name) && s.In(m.GroupID()) {
				seen.seats = append(seen.seats, seat{name, m.Offer, m.Isolated})
			}
		}
	}
	seen.confined = s.Confined()
	return seen
}

// answerable holds which keys are found by kid against which ever were in use.
func answerable(l *life, o *oracle) error {
	for name, raw := range keysByName {
		if name == "" {
			continue
		}
		for _, curve := range []string{parley.Ed25519, parley.X25519} {
			known := o.exists && (curve == parley.Ed25519 && o.signing == string(raw) || curve == parley.X25519 && o.encryption == string(raw))
			for _, k := range o.retired {
				known = known || k.curve == curve && k.raw == string(raw)
			}
			of, found, ok := l.State.KeyByKid(parley.Thumbprint(curve, raw))
			if ok != known || ok && (of != curve || string(found) != string(raw)) {
				return fmt.Errorf("%s as a key of %s: ever in use is %v, found is %v", name, curve, known, ok)
			}
		}
	}
	return nil
}

func (o *oracle) Foretell(c agent.Command, now time.Time) actorstest.Verdict {
	switch c := c.(type) {
	case agent.Create:
		return o.create(c, now)
	case agent.Send:
		return o.send(c)
	case agent.Depart:
		return o.depart(c)
	case agent.Revoke:
		switch {
		case !o.exists:
			return actorstest.Refused("no agent", "404 not_found")
		case o.revoked():
			return actorstest.Taken("again")
		}
		o.revokedMs, o.poll, o.seats = now.UnixMilli(), "", nil
		return actorstest.Taken("revoked")
	}
	switch {
	case !o.exists:
		return actorstest.Refused("no agent", "404 not_found")
	case o.revoked():
		return actorstest.Refused("revoked", "410 gone")
	}
	switch c := c.(type) {
	case agent.Change:
		return o.change(c)
	case agent.RotateKeys:
		signing := o.rotate(parley.Ed25519, &o.signing, string(c.Signing), now)
		encryption := o.rotate(parley.X25519, &o.encryption, string(c.Encryption), now)
		return news(signing || encryption)
	case agent.IssuePollToken:
		fresh := o.poll != string(c.Hash)
		o.poll = string(c.Hash)
		return news(fresh)
	case agent.RevokePollToken:
		had := o.poll != ""
		o.poll = ""
		return news(had)
	case agent.Enter:
		return o.enter(c)
	}
	panic("no such command")
}

func news(changed bool) actorstest.Verdict {
	if changed {
		return actorstest.Taken("changed")
	}
	return actorstest.Taken("nothing new")
}

func (o *oracle) create(c agent.Create, now time.Time) actorstest.Verdict {
	if o.exists {
		return actorstest.Taken("again")
	}
	o.exists = true
	o.record = record{
		id: c.ID, org: c.OrgID, name: c.Name, oversight: c.HumanOversight, unlisted: c.Unlisted,
		incoming: "accept_all", outgoing: "send_all", createdMs: now.UnixMilli(),
		signing: string(c.SigningKey), encryption: string(c.EncryptionKey), poll: string(c.PollTokenHash),
	}
	return actorstest.Taken("created")
}

func (o *oracle) change(c agent.Change) actorstest.Verdict {
	if c.Name != nil && *c.Name != o.name {
		return actorstest.Refused("name", "409 name_immutable")
	}
	was := []any{o.oversight, o.unlisted, o.incoming, o.outgoing}
	set(&o.oversight, c.HumanOversight)
	set(&o.unlisted, c.Unlisted)
	set(&o.incoming, c.IncomingPolicy)
	set(&o.outgoing, c.OutgoingPolicy)
	return news(!slices.Equal(was, []any{o.oversight, o.unlisted, o.incoming, o.outgoing}))
}

func set[T any](has *T, wanted *T) {
	if wanted != nil {
		*has = *wanted
	}
}

func (o *oracle) rotate(curve string, has *string, fresh string, now time.Time) bool {
	if fresh == "" || fresh == *has {
		return false
	}
	o.retired = append(o.retired, former{curve, *has, now.UnixMilli()})
	*has = fresh
	return true
}

// send goes through the contract's order of checks: idempotency, existence,
// access, rule. That the acting agent is the caller's was checked at the door;
// one that was revoked or is on its way since is no reason to forget a repeat.
func (o *oracle) send(c agent.Send) actorstest.Verdict {
	if c.Prior != nil {
		if c.Prior.Recipient == c.Recipient && c.Prior.Type == c.Type {
			return actorstest.Refused("sent before", agent.ErrRepeated.Error())
		}
		return actorstest.Refused("another under the key", "409 idempotency_mismatch")
	}
	for _, rule := range []struct {
		against bool
		because string
		answer  string
	}{
		{!o.exists, "sender not here yet", "503 overloaded"},
		{o.revoked(), "sender revoked", "403 not_owner"},
		{!c.RecipientKnown, "unknown recipient", "404 not_found"},
		{c.RecipientRevoked, "recipient revoked", "410 gone"},
		{c.Parent.Named && !c.Parent.Known, "unknown parent", "404 not_found"},
		{c.Parent.Named && !c.Parent.Participant, "not in the parent", "403 not_owner"},
		{o.apart(c), "kept apart", "403 isolated_agent"},
		{!o.exempt(c) && o.outgoing == "groups_only", "sender's policy", "403 outgoing_policy"},
		{!o.exempt(c) && c.RecipientGroupsOnly, "recipient's policy", "403 incoming_policy"},
		{c.Recipient == o.id, "to itself", "422 self_message"},
	} {
		if rule.against {
			return actorstest.Refused(rule.because, rule.answer)
		}
	}
	return actorstest.Taken("sent")
}

func (o *oracle) at(group parley.GroupID) int {
	return slices.IndexFunc(o.seats, func(s seat) bool { return actorstest.Named(s.group) == group })
}

// enter: an agent in any group cannot join an isolated one, and one in an
// isolated group cannot join any other. // spec: Join request and membership
func (o *oracle) enter(c agent.Enter) actorstest.Verdict {
	at := o.at(c.Group)
	switch {
	case at >= 0 && c.Offer <= o.seats[at].offer:
		return actorstest.Taken("again")
	case at >= 0:
		again := o.seats[at]
		again.offer = c.Offer
		o.seats = append(slices.Delete(o.seats, at, at+1), again)
		return actorstest.Taken("entered anew")
	case len(o.seats) > 0 && o.seats[0].isolated:
		return actorstest.Refused("out of isolation", "409 isolation_conflict")
	case len(o.seats) > 0 && c.Isolated:
		return actorstest.Refused("into isolation", "409 isolation_conflict")
	}
	for _, name := range groupNames {
		if c.Group == actorstest.Named(name) {
			o.seats = append(o.seats, seat{name, c.Offer, c.Isolated})
		}
	}
	return actorstest.Taken("entered")
}

func (o *oracle) depart(c agent.Depart) actorstest.Verdict {
	at := o.at(c.Group)
	switch {
	case at < 0:
		return actorstest.Taken("not in it")
	case o.seats[at].offer > c.Offer:
		return actorstest.Taken("in it since")
	}
	o.seats = slices.Delete(o.seats, at, at+1)
	return actorstest.Taken("departed")
}

// shares reports whether the recipient is in this group too.
func shares(c agent.Send, s seat) bool {
	return slices.ContainsFunc(c.RecipientGroups, func(m *agent.Membership) bool { return m.GroupID() == actorstest.Named(s.group) })
}

// apart: a group with isolated confines its agents to messaging inside it. To
// oneself nobody is outside.
func (o *oracle) apart(c agent.Send) bool {
	if c.Recipient == o.id {
		return false
	}
	for _, s := range o.seats {
		if s.isolated && !shares(c, s) {
			return true
		}
	}
	return slices.ContainsFunc(c.RecipientGroups, func(m *agent.Membership) bool { return m.Isolated && o.at(m.GroupID()) < 0 })
}

// exempt: what distributes or requests a sender key, between agents that share a
// group. // contract: Messaging
func (o *oracle) exempt(c agent.Send) bool {
	return c.KeyExchange && slices.ContainsFunc(o.seats, func(s seat) bool { return shares(c, s) })
}

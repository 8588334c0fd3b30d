package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/client/parley"
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
	poll                string // hash of the current poll token
	former              []former
	warnings            [2]bool // of the inbound, of the outbound policy
	seats               []seat  // in the order of joining
	confined            bool
	bindings            []binding
	inForce             int      // index of the binding in force, -1 for none
	unboundMs           int64    // 0 for never
	sinceMs             [2]int64 // of the signing, of the encryption key
	keysMs              int64
	card                card
	cards               uint32 // published so far
	pq                  pqKey
	leaves              uint32 // of the key log
	packages            keyPackages
	blocks              []blocked // oldest first
}

// card is what is remembered of an agent's card; zero if there is none.
type card struct {
	createdMs, updatedMs, shownMs int64
	public, a2a                   bool
}

// pqKey is a post-quantum key; zero if there is none.
type pqKey struct {
	algorithm, raw string
	sinceMs        int64
}

// seat is a membership in a group, with the test's name of the group.
type seat struct {
	group    string
	offer    uint32
	isolated bool
}

// former is a key that was replaced and is not current.
type former struct {
	curve, raw       string
	sinceMs, untilMs int64
	distrustedMs     int64
}

// oracle is an agent as the specification describes it.
type oracle struct {
	record
	exists bool
	// retired lists all keys that were ever replaced, in the order of the replacements.
	retired []former
	keys    keyLife
}

func (o *oracle) revoked() bool { return o.revokedMs != 0 }

// Visible derives the former keys from the whole history. The last retirement of a key
// counts, unless the key is current again.
func (o *oracle) Visible(time.Time) any {
	seen := o.record
	seen.former = nil
	for i, k := range o.retired {
		current := k.curve == parley.Ed25519 && k.raw == o.signing || k.curve == parley.X25519 && k.raw == o.encryption
		later := slices.ContainsFunc(o.retired[i+1:], func(l former) bool { return l.curve == k.curve && l.raw == k.raw })
		if !current && !later {
			k.sinceMs, k.distrustedMs = o.keys.firstMs[[2]string{k.curve, k.raw}], o.keys.distrustedMs[[2]string{k.curve, k.raw}]
			seen.former = append(seen.former, k)
		}
	}
	seen.blocks = append([]blocked(nil), o.blocks...)
	seen.bindings, seen.unboundMs, seen.keysMs, seen.inForce = append([]binding(nil), o.keys.bindings...), o.keys.unboundMs, o.keys.changedMs, -1
	if o.keys.unboundMs == 0 {
		seen.inForce = len(o.keys.bindings) - 1
	}
	seen.sinceMs = [2]int64{o.keys.firstMs[[2]string{"Ed25519", o.signing}], o.keys.firstMs[[2]string{"X25519", o.encryption}]}
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
	seeKeys(s, &seen)
	if c := s.GetCard(); c != nil {
		seen.card = card{c.CreatedMs, c.UpdatedMs, c.ShownMs, c.IsPublic, c.A2AEnabled}
	}
	seen.cards, seen.leaves = s.GetCardRevision(), s.GetKeyLeaves()
	seen.packages = keyPackages{s.GetKeyPackages(), s.GetHandedOut(), s.GetLastResort()}
	if k := s.GetPqKey(); k != nil {
		found, _ := s.KeyByKid(parley.AKPThumbprint(k.Algorithm, k.Raw))
		seen.pq = pqKey{found.Curve, string(found.Raw), found.Since.UnixMilli()}
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
	seen.blocks = seeBlocks(s)
	return seen
}

func seeKeys(s *agent.State, seen *record) {
	ms := func(at time.Time) int64 {
		if at.IsZero() {
			return 0
		}
		return at.UnixMilli()
	}
	for _, k := range s.GetFormerKeys() {
		found, _ := s.KeyByKid(parley.Thumbprint(k.Curve, k.Raw))
		seen.former = append(seen.former, former{found.Curve, string(found.Raw), ms(found.Since), ms(found.Until), ms(found.Retired)})
	}
	for i, b := range s.GetBindings() {
		seen.bindings = append(seen.bindings, binding{
			string(b.Signature), b.SignedAt, string(b.SigningKey), string(b.EncryptionKey), string(b.PreviousSignature), s.Continuity(i),
		})
	}
	if seen.inForce = -1; s.Exists() {
		signing, _ := s.KeyByKid(parley.Thumbprint(parley.Ed25519, s.GetSigningKey()))
		encryption, _ := s.KeyByKid(parley.Thumbprint(parley.X25519, s.GetEncryptionKey()))
		seen.sinceMs, seen.keysMs = [2]int64{ms(signing.Since), ms(encryption.Since)}, ms(s.KeysChangedAt())
	}
	if place, bound := s.BindingInForce(); bound {
		seen.inForce = place
	}
	seen.unboundMs = ms(s.UnboundSince())
}

// answerable compares the keys that can be found by kid with those that were ever in
// use, and the post-quantum key with that in use.
func answerable(l *life, o *oracle) error {
	for _, name := range pqNames {
		for _, algorithm := range pqAlgorithms {
			_, found := l.State.KeyByKid(parley.AKPThumbprint(algorithm, key(name)))
			if has := o.pq.algorithm == algorithm && o.pq.raw == string(key(name)); found != has {
				return fmt.Errorf("%s as a key of %s: in use is %v, found is %v", name, algorithm, has, found)
			}
		}
	}
	for name, raw := range keysByName {
		if name == "" {
			continue
		}
		for _, curve := range []string{parley.Ed25519, parley.X25519} {
			known := o.exists && (curve == parley.Ed25519 && o.signing == string(raw) || curve == parley.X25519 && o.encryption == string(raw))
			for _, k := range o.retired {
				known = known || k.curve == curve && k.raw == string(raw)
			}
			found, ok := l.State.KeyByKid(parley.Thumbprint(curve, raw))
			if ok != known || ok && (found.Curve != curve || string(found.Raw) != string(raw)) {
				return fmt.Errorf("%s as a key of %s: ever in use is %v, found is %v", name, curve, known, ok)
			}
		}
	}
	return nil
}

func (o *oracle) Predict(c agent.Command, now time.Time) actorstest.Verdict {
	switch c := c.(type) {
	case agent.Logged:
		return o.logged(c, now)
	case agent.Create:
		return o.create(c, now)
	case agent.Send:
		return o.send(c)
	case agent.Depart:
		return o.depart(c)
	case agent.ClaimKeyPackage:
		return o.claimKeyPackage(c)
	case agent.Revoke:
		switch {
		case !o.exists:
			return actorstest.Refused("no agent", "404 not_found")
		case o.revoked():
			return actorstest.Accepted("again")
		}
		o.revokedMs, o.poll, o.seats, o.card, o.packages = now.UnixMilli(), "", nil, card{}, keyPackages{}
		return actorstest.Accepted("revoked")
	}
	switch {
	case !o.exists:
		return actorstest.Refused("no agent", "404 not_found")
	case o.revoked():
		return actorstest.Refused("revoked", "410 gone")
	}
	switch c := c.(type) {
	case agent.Change:
		return o.change(c, now)
	case agent.PublishCard:
		return o.publishCard(c, now)
	case agent.WithdrawCard:
		had := o.card != card{}
		o.card = card{}
		return news(had)
	case agent.SetPQKey:
		return o.setPQKey(c, now)
	case agent.RemovePQKey:
		had := o.pq != pqKey{}
		if had {
			o.pq, o.keys.changedMs = pqKey{}, now.UnixMilli()
		}
		return news(had)
	case agent.RotateKeys:
		return o.rotateKeys(c, now)
	case agent.BindKeys:
		return o.bindKeys(c, now)
	case agent.RetireKey:
		return o.retireKey(c, now)
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
	case agent.StoreKeyPackages:
		return o.storeKeyPackages(c)
	case agent.SetBlock:
		return o.setBlock(c, now)
	case agent.EndBlock:
		return o.endBlock(c)
	}
	panic("no such command")
}

func news(changed bool) actorstest.Verdict {
	if changed {
		return actorstest.Accepted("changed")
	}
	return actorstest.Accepted("nothing new")
}

func (o *oracle) create(c agent.Create, now time.Time) actorstest.Verdict {
	if o.exists {
		return actorstest.Accepted("again")
	}
	o.exists = true
	o.begin(string(c.SigningKey), string(c.EncryptionKey), now.UnixMilli())
	o.record = record{
		id: c.ID, org: c.OrgID, name: c.Name, oversight: c.HumanOversight, unlisted: c.Unlisted,
		incoming: "accept_all", outgoing: "send_all", createdMs: now.UnixMilli(),
		signing: string(c.SigningKey), encryption: string(c.EncryptionKey), poll: string(c.PollTokenHash),
	}
	return actorstest.Accepted("created")
}

// publishCard: the service alone writes the security members of an A2A-enabled agent's
// card. // spec: Agent card
func (o *oracle) publishCard(c agent.PublishCard, now time.Time) actorstest.Verdict {
	if c.NamesSecurity && (c.A2AEnabled || o.card.a2a) {
		return actorstest.Refused("security members", "422 card_security_fields")
	}
	fresh := card{createdMs: now.UnixMilli(), updatedMs: now.UnixMilli(), public: c.Public, a2a: c.A2AEnabled}
	o.cards++
	if (o.card == card{}) {
		o.card = fresh
		return actorstest.Accepted("first card")
	}
	fresh.createdMs, fresh.updatedMs = o.card.createdMs, max(o.card.updatedMs, fresh.updatedMs)
	o.card = fresh
	return actorstest.Accepted("another card")
}

func (o *oracle) setPQKey(c agent.SetPQKey, now time.Time) actorstest.Verdict {
	if o.pq.algorithm == c.Algorithm && o.pq.raw == string(c.Raw) {
		return actorstest.Accepted("nothing new")
	}
	o.pq, o.keys.changedMs = pqKey{c.Algorithm, string(c.Raw), now.UnixMilli()}, now.UnixMilli()
	return actorstest.Accepted("changed")
}

func (o *oracle) change(c agent.Change, now time.Time) actorstest.Verdict {
	if c.Name != nil && *c.Name != o.name {
		return actorstest.Refused("name", "409 name_immutable")
	}
	if c.HumanOversight != nil && *c.HumanOversight != o.oversight && o.card != (card{}) {
		o.card.shownMs = now.UnixMilli()
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

func (o *oracle) rotate(curve string, has *string, fresh string, now time.Time) {
	if fresh == *has {
		return
	}
	o.retired = append(o.retired, former{curve: curve, raw: *has, untilMs: now.UnixMilli()})
	*has = fresh
	if key := [2]string{curve, fresh}; o.keys.firstMs[key] == 0 {
		o.keys.firstMs[key] = now.UnixMilli()
	}
}

// send applies the checks in order: idempotency, existence, access, rules. The server
// has already checked that the acting agent is the caller's. A repeat is recognized
// even if the agent was revoked since or has not been created yet.
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
		{!o.exempt(c) && o.blocksAny(c.Recipient, c.RecipientOrg), "blocked by the sender", "403 outgoing_policy"},
		{!o.exempt(c) && c.RecipientGroupsOnly, "recipient's policy", "403 incoming_policy"},
		{!o.exempt(c) && c.RecipientBlocks, "blocked by the recipient", "403 incoming_policy"},
		{c.Recipient == o.id, "to itself", "422 self_message"},
	} {
		if rule.against {
			return actorstest.Refused(rule.because, rule.answer)
		}
	}
	return actorstest.Accepted("sent")
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
		return actorstest.Accepted("again")
	case at >= 0:
		again := o.seats[at]
		again.offer = c.Offer
		o.seats = append(slices.Delete(o.seats, at, at+1), again)
		return actorstest.Accepted("entered anew")
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
	return actorstest.Accepted("entered")
}

func (o *oracle) depart(c agent.Depart) actorstest.Verdict {
	at := o.at(c.Group)
	switch {
	case at < 0:
		return actorstest.Accepted("not in it")
	case o.seats[at].offer > c.Offer:
		return actorstest.Accepted("in it since")
	}
	o.seats = slices.Delete(o.seats, at, at+1)
	return actorstest.Accepted("departed")
}

// shares reports whether the recipient is in the same group.
func shares(c agent.Send, s seat) bool {
	return slices.ContainsFunc(c.RecipientGroups, func(m *agent.Membership) bool { return m.GroupID() == actorstest.Named(s.group) })
}

// apart: an isolated group confines its agents to messaging inside it. Messages to
// oneself are always inside.
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

// exempt: messages that distribute or request a sender key between agents that share a
// group.
func (o *oracle) exempt(c agent.Send) bool {
	return c.KeyExchange && slices.ContainsFunc(o.seats, func(s seat) bool { return shares(c, s) })
}

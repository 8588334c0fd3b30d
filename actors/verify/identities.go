package verify

import (
	"bytes"
	"fmt"
	"slices"

	"parley/actors/agent"
	"parley/actors/issuer"
	"parley/actors/keylog"
	"parley/actors/operator"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

func replayIssuer(r *replay) {
	follow(r, rules.Issuer, &issuer.State{}, &issuer.State{}, func(uint64, issuer.Event) {})
	r.end = func() {
		known := slices.Contains([]journal.Stream{rules.SigningKeyStream, rules.CardKeyStream, rules.ReceiptKeyStream, rules.LogKeyStream}, r.stream)
		r.must(streamBegin, known, "signing keys exist for access tokens, cards, receipts and the key log, and these are others")
	}
}

func replayOperator(r *replay) {
	follow(r, rules.Operator, &operator.State{}, &operator.State{}, func(uint64, operator.Event) {})
	r.end = func() {
		r.must(streamBegin, r.stream == rules.OperatorStream, "there is one stream of the tokens of operators, and this is another")
	}
}

func replayOrg(r *replay) {
	self, state, once := parley.OrgID(r.stream.ID), &org.State{}, map[int64]bool{}
	follow(r, rules.Org, state, &org.State{}, func(seq uint64, e org.Event) {
		switch e := e.(type) {
		case *org.Registered:
			r.begins(seq, e.GetId())
			slug, claimed := e.GetSlug(), r.HiddenStream(rules.SlugStream(e.GetSlug()))
			r.must(organizationHome, parley.SlotOf(slug) == self.Slot(), "its slug %q is looked for in slot %d", slug, parley.SlotOf(slug))
			r.expect(slugRows, self[:], r.HiddenKey(journal.SlugTable, []byte(slug)))
			r.expect(slugClaims, claimed.ID[:], self[:])
			r.expect(clientRows, e.GetClientId(), self[:])
		case *org.CredentialAdded:
			r.expect(clientRows, e.GetClientId(), self[:])
			for _, client := range e.GetForgotten() {
				r.find(clientRows, client, self[:])
			}
			r.fold()
			added := state.GetCredentials()
			announcements(added[len(added)-1:], once)
		case *org.AgentAdded:
			r.expect(agentsOfOrgs, self[:], e.GetAgentId())
			r.expect(rosterRows, self[:], big(seq), e.GetAgentId())
		case *org.GroupAdded:
			r.expect(groupsOfOrgs, self[:], e.GetGroupId())
			r.expect(groupRosterRows, self[:], big(seq), e.GetGroupId())
		case *org.GroupRetired:
			r.find(groupEndings, self[:], e.GetGroupId())
		case *org.AgentRetired:
			r.find(retirements, self[:], e.GetAgentId())
		case *org.WorkloadProven:
			id := e.GetSpiffeId()
			holder, _ := r.row(parley.SlotOf(id), journal.WorkloadTable, []byte(id))
			r.must(workloadIdentities, bytes.Equal(holder, self[:]), "it has proven %q, which belongs to %x: another organization may prove it too", id, holder)
		case *org.AllowanceLifted, *org.AllowanceSet, *org.Changed, *org.CredentialRevoked, *org.EmailConfirmed,
			*org.ErasureBegun, *org.ExpiryAnnounced, *org.Held, *org.Released, *org.Resumed, *org.Suspended, *org.TierGranted: // no row elsewhere follows
		}
	})
	r.end = func() {
		needed := map[int64]bool{}
		announcements(state.GetCredentials(), needed)
		r.checkTimers(needed, once)
	}
}

// announcements adds the instants, in milliseconds, at which credentials are announced.
func announcements(of []*org.Credential, to map[int64]bool) {
	for _, c := range of {
		for _, due := range c.Announcements() {
			to[due.UnixMilli()] = true
		}
	}
}

func replayKeyLog(r *replay) {
	state := &keylog.State{}
	follow(r, rules.KeyLog, state, &keylog.State{}, func(_ uint64, e keylog.Event) {
		switch e := e.(type) {
		case *keylog.Appended:
			for i, hashes := range keylog.Stored(state, e.GetLeaves()) {
				leaf, number := e.Leaves[i], big(state.GetSize()+uint64(i))
				r.find(keyLogLeaves, leaf)
				r.expect(keyLogHashes, number, hashes)
				r.expect(keyLogPlaces, leaf, number)
			}
		}
	})
	r.end = func() {
		r.must(streamBegin, r.stream == rules.KeyLogStream, "there is one key log, and this is another")
	}
}

// agentReplay is an agent that is being replayed.
type agentReplay struct {
	*replay
	id    parley.AgentID
	state *agent.State
}

func replayAgent(r *replay) {
	a := &agentReplay{r, parley.AgentID(r.stream.ID), &agent.State{}}
	follow(r, rules.Agent, a.state, &agent.State{}, a.judge)
	r.end = func() {
		a.belongs()
		if c := a.state.GetCard(); c != nil {
			r.expect(cardRows, a.id[:], record.CardSummary(c.GetCreatedMs(), c.GetUpdatedMs(), a.state.GetCardRevision(), c.GetIsPublic(), c.GetA2AEnabled()))
		}
		a.keepsKeyPackages()
		a.findable()
	}
}

func (a *agentReplay) judge(seq uint64, e agent.Event) {
	owner := a.state.Owner()
	switch e := e.(type) {
	case *agent.Created:
		owner = parley.IDFromBytes[parley.OrgID](e.GetOrgId())
		a.begins(seq, e.GetId())
		a.expect(nameRows, owner[:], a.id[:], a.hiddenName(journal.NameTable, owner, e.GetName()))
		a.find(agentsOfOrgs, owner[:], a.id[:])
	case *agent.Revoked:
		a.expect(retirements, owner[:], a.id[:])
	case *agent.Entered:
		for _, m := range a.state.GetGroups() {
			may := bytes.Equal(m.GetGroup(), e.GetGroup()) || !m.GetIsolated() && !e.GetIsolated()
			a.must(isolation, may, "it entered group %x while it was in %x, and one of them is isolated", e.GetGroup(), m.GetGroup())
		}
	case *agent.KeyDistrusted, *agent.KeysBound, *agent.Changed, *agent.Departed, *agent.KeysRotated, *agent.PollTokenIssued, *agent.PollTokenRevoked,
		*agent.CardPublished, *agent.CardWithdrawn, *agent.PQKeySet, *agent.PQKeyRemoved, *agent.KeyPackagesStored, *agent.KeyPackageClaimed, *agent.KeyPackagesExpired, *agent.Blocked, *agent.Unblocked: // the changes are checked at the end
	}
	a.keyEvent(owner, e)
}

// belongs adds the groups of which the agent considers itself a member. It leaves out a
// group that the agent is about to leave, and one that is about to learn that the agent
// has entered.
func (a *agentReplay) belongs() {
	groups := a.state.GetGroups()
	for _, m := range groups {
		a.must(isolation, !m.GetIsolated() || len(groups) == 1, "it is in isolated group %s and in %d others", m.GroupID(), len(groups)-1)
		leaves := a.departs[pair(a.stream.ID, parley.AnyID(m.GroupID()))] >= m.GetOffer()
		comes := a.entered[string(membership(a.id, m.GroupID(), m.GetOffer(), false))]
		if !leaves && !comes {
			a.find(memberships, membership(a.id, m.GroupID(), m.GetOffer(), m.GetIsolated()))
		}
	}
}

// What an agent's rows about MLS KeyPackages are for.
const (
	keptOnce = iota
	keptAsLastResort
	handedOut
)

// keepsKeyPackages expects the rows of each use that the agent must have.
func (a *agentReplay) keepsKeyPackages() {
	set, slot := a.multisets[keyPackages], a.id.Slot()
	set.Expect(slot, uint64(a.state.GetKeyPackages()), a.id[:], []byte{keptOnce})
	set.Expect(slot, uint64(a.state.GetHandedOut()), a.id[:], []byte{handedOut})
	if a.state.GetLastResort() {
		set.Expect(slot, 1, a.id[:], []byte{keptAsLastResort})
	}
}

// findable checks the rows that lead to the agent: one for each key that it has or had,
// and one for its valid token. readTables checks that each row names this agent or
// another agent with the same key.
func (a *agentReplay) findable() {
	keys := a.state.GetFormerKeys()
	keys = append(keys[:len(keys):len(keys)],
		&agent.FormerKey{Curve: parley.Ed25519, Raw: a.state.GetSigningKey()}, &agent.FormerKey{Curve: parley.X25519, Raw: a.state.GetEncryptionKey()})
	for _, k := range keys {
		if len(k.GetRaw()) > 0 {
			kid := parley.Thumbprint(k.GetCurve(), k.GetRaw())
			a.must(kidRows, a.leads(journal.KidTable, kid), "its key %s finds nobody: what it signed cannot be verified", kid)
		}
	}
	if hash := string(a.state.GetPollTokenHash()); hash != "" {
		a.must(pollRows, a.leads(journal.PollTable, hash), "its poll token finds nobody: polling answers as if it were unknown")
	}
}

// leads reports whether a row is stored or in an outbox.
func (a *agentReplay) leads(table journal.Table, key string) bool {
	if _, put := a.puts[string(byte(table))+key]; put {
		return true
	}
	_, found := a.row(parley.SlotOf(key), table, []byte(key))
	return found
}

// keyEvent checks an event of the agent that is in the key log: that its entry is in the
// log, is the next one, and names the keys that were in force after the event.
func (a *agentReplay) keyEvent(owner parley.OrgID, e agent.Event) {
	name, number := a.state.GetName(), a.state.GetKeyLeaves()
	if created, ok := e.(*agent.Created); ok {
		name = created.GetName()
	}
	if _, logged := agent.KeyLogEntry(a.id, "", e); !logged {
		return
	}
	entry, _ := agent.KeyLogEntry(a.id, name+"@"+a.slug(owner), e)
	leaf := entry.Commitment()
	a.expect(keyLogLeaves, leaf[:])
	a.must(keyLogEntries, entry.Number == number, "its entry %d of the key log is numbered %d", number, entry.Number)
	a.fold()
	pq, after := "", a.state
	if k := after.GetPqKey(); k != nil {
		pq = parley.AKPThumbprint(k.GetAlgorithm(), k.GetRaw())
	}
	signing, encryption := parley.Thumbprint(parley.Ed25519, after.GetSigningKey()), parley.Thumbprint(parley.X25519, after.GetEncryptionKey())
	same, unsalted := entry.SigningKid == signing && entry.EncryptionKid == encryption && entry.PQKid == pq, make([]byte, len(entry.Salt))
	a.must(keyLogEntries, same && !bytes.Equal(entry.Salt[:], unsalted), "its entry %d of the key log names other keys than it had, or has no salt", entry.Number)
}

// cardRow checks the row of a card. It is never in an outbox: the agent itself writes it.
func (r row) card() {
	where, c := "agent "+idText(r.key), &record.Card{}
	r.holds(cardContent, r.slot == parley.IDFromBytes[parley.AgentID](r.key).Slot(), where, "its card is in slot %d, where nobody looks for it", r.slot)
	err := c.UnmarshalVT(r.value)
	r.holds(cardContent, err == nil, where, "its card cannot be read: %v", err)
	again, err := c.MarshalVT()
	r.holds(cardContent, err == nil && bytes.Equal(again, r.value), where, "its card is stored in another form than this release writes")
	r.find(cardRows, r.key, record.CardSummary(c.GetCreatedMs(), c.GetUpdatedMs(), c.GetRevision(), c.GetIsPublic(), c.GetA2AEnabled()))
}

// activity checks the row with the hour in which an agent last sent. The hour itself is not
// compared with the agent's messages: their ids never go back, not even when the clock
// does. A revoked agent may have a row, because a reply of it may have been under way.
func (r row) activity() {
	id, where := parley.IDFromBytes[parley.AgentID](r.key), "agent "+idText(r.key)
	_, ok := record.HourOf(r.value)
	r.holds(activityRows, r.agent(id) != nil, where, "it has an hour of activity, and does not exist")
	r.holds(activityRows, r.slot == id.Slot() || r.slot == parley.Slots, where, "its hour of activity is in slot %d, where nobody looks for it", r.slot)
	r.holds(activityRows, ok, where, "its hour of activity has %d bytes", len(r.value))
}

// token checks the row with the hour in which a credential last got a token. The credential may
// have been forgotten while the row was under way.
func (r row) token() {
	id, where := parley.IDFromBytes[parley.OrgID](r.key[:16]), "organization "+idText(r.key[:16])
	_, ok := record.HourOf(r.value)
	r.holds(tokenRows, r.slot == id.Slot() || r.slot == parley.Slots, where, "an hour of its tokens is in slot %d, where nobody looks for it", r.slot)
	r.holds(tokenRows, ok, where, "an hour of its tokens has %d bytes", len(r.value))
}

// keyPackage checks the row of a KeyPackage, or of one that was claimed, in its agent's
// slot. It is never in an outbox: the agent itself writes it.
func (r row) keyPackage() {
	id, where, use := parley.IDFromBytes[parley.AgentID](r.key[:16]), "agent "+idText(r.key), byte(handedOut)
	r.holds(keyPackageContent, r.slot == id.Slot(), where, "a row about its KeyPackages is in slot %d, where nobody looks for it", r.slot)
	if k, _ := record.ParseKeyPackageKey(r.key); r.table == journal.KeyPackageTable {
		use = keptOnce
		if k.LastResort {
			use = keptAsLastResort
		}
		r.holds(keyPackageContent, k.Of(r.value), where, "its KeyPackage of hash %x has other bytes: nobody can use it", k.Hash)
	}
	r.find(keyPackages, r.key[:16], []byte{use})
}

// kid checks the row of a key of an agent.
func (r row) kid() {
	has := false
	if s := r.agent(parley.IDFromBytes[parley.AgentID](r.value)); s != nil {
		_, has = s.KeyByKid(string(r.key))
	}
	r.holds(kidRows, has, "key "+string(r.key), "it finds agent %x, which never had it", r.value)
}

// poll checks a poll token's row. Rows of former tokens stay.
func (r row) poll() {
	self, had := parley.IDFromBytes[parley.AgentID](r.value), false
	look := func(_ uint64, _ int64, f journal.StoredEvent) bool {
		e, err := rules.Agent.Decode(f)
		if err != nil {
			return true
		}
		if token, ok := e.(interface{ GetPollTokenHash() []byte }); ok {
			had = had || bytes.Equal(token.GetPollTokenHash(), r.key)
		}
		if token, ok := e.(interface{ GetHash() []byte }); ok {
			had = had || bytes.Equal(token.GetHash(), r.key)
		}
		return !had
	}
	if created := r.created[self]; created != nil {
		for _, f := range created.events {
			look(0, 0, f)
		}
	}
	r.failed(r.Events(rules.AgentStream(self), 1, false, look))
	r.holds(pollRows, had, fmt.Sprintf("poll token of hash %x", r.key), "it finds agent %x, which never had it", r.value)
}

// spent checks the row of a used challenge, and the organization that it registered or
// that used it.
func (r row) spent() {
	made := parley.IDFromBytes[parley.OrgID](r.value)
	there := made.Slot() == r.slot && r.slug(made) != ""
	r.holds(registrations, there, fmt.Sprintf("challenge %q", r.key[4:]), "it was used for organization %s, which is not there", made)
}

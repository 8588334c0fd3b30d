package importing

import (
	"encoding/binary"
	"slices"
	"time"

	"parley"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/http/auth"
	"parley/journal"
)

// writeOrg writes the organization with its agents' names and places, under the key that it
// gets.
func (w *writer) writeOrg() error {
	if err := w.NewKey(w.org.ID); err != nil {
		return err
	}
	hash := auth.HashSecret(w.secret)
	events := append(w.registered(), w.credentialed(hash[:])...)
	order := make([]*party, len(w.agents))
	for i := range w.agents {
		order[w.agents[i].RosterPlace-1] = &w.parties[i]
	}
	entry := &journal.Entry{Slot: w.org.ID.Slot(), At: w.began()}
	events = append(events, roster(entry, w.org.ID, order, len(events), func(p *party) time.Time {
		return w.agents[w.indexOf[p.id]].CreatedAt.Time
	})...)
	events = append(events, w.ownGroups(entry, len(events))...)
	for i := range w.agents {
		if a := &w.agents[i]; a.RevokedAt != nil {
			events = append(events, &org.AgentRetired{AgentId: a.ID.Bytes(), AtMs: a.RevokedAt.UnixMilli()})
		}
	}
	if w.org.Suspended {
		events = append(events, &org.Suspended{AtMs: w.org.Export.SnapshotAt.UnixMilli()})
	}
	return w.found(entry, w.org.ID, *w.org.Slug, events)
}

// registered returns the events up to the organization's present record and terms.
func (w *writer) registered() []org.Event {
	o := &w.org
	at := o.CreatedAt.UnixMilli()
	first := &org.Registered{
		Id: o.ID.Bytes(), Name: o.Name, Slug: *o.Slug, ContactEmail: w.user.Email, TrustTier: int32(o.TrustTier), ClientId: w.firstClient(), AtMs: at,
		ChallengeId: orEmpty(w.challenge.ChallengeID),
	}
	if w.challenge.Difficulty != nil {
		first.Difficulty = uint32(*w.challenge.Difficulty)
	}
	events := []org.Event{first}
	if w.user.VerifiedAt != nil {
		events = append(events, &org.EmailConfirmed{Tier: int32(o.TrustTier), AtMs: w.user.VerifiedAt.UnixMilli()})
	}
	if o.TierGrantedAt != nil {
		events = append(events, &org.TierGranted{Tier: int32(o.TrustTier), AtMs: o.TierGrantedAt.UnixMilli(), Lowered: o.TierLowered})
	}
	for _, a := range o.Allowances {
		set := &org.Allowance{Quota: a.Quota}
		if a.Limit != nil {
			set.Limit = new(int64(*a.Limit))
		}
		events = append(events, &org.AllowanceSet{Allowance: set, AtMs: at})
	}
	changed := &org.Changed{AtMs: at}
	if email := orEmpty(o.ContactEmail); email != w.user.Email {
		changed.ContactEmail = &email
	}
	if o.CountryCode != nil {
		changed.CountryCode = o.CountryCode
	}
	if changed.ContactEmail != nil || changed.CountryCode != nil {
		events = append(events, changed)
	}
	return events
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// firstClient returns the id of the credential that the organization registered with, which
// it may have dropped since.
func (w *writer) firstClient() []byte {
	if all := w.org.Credentials; len(all) > 0 && all[0].CreatedAt.Equal(w.org.CreatedAt.Time) {
		return all[0].ClientID.Bytes()
	}
	w.dropped = parley.NewID[parley.ClientID](w.org.ID.Slot(), w.org.CreatedAt.Time, w.Entropy()).Bytes()
	return w.dropped
}

// credentialed returns the events of the credentials. Secrets are not in an export, so
// those that were live are revoked now, and there is a new one.
func (w *writer) credentialed(hash []byte) (events []org.Event) {
	all, dropped := w.org.Credentials, [][]byte(nil)
	if len(all) > 0 && all[0].CreatedAt.Equal(w.org.CreatedAt.Time) {
		all = all[1:]
	} else {
		dropped = [][]byte{w.dropped}
	}
	add := func(id parley.ClientID, hash []byte, at time.Time) {
		events = append(events, &org.CredentialAdded{ClientId: id.Bytes(), SecretHash: hash, AtMs: at.UnixMilli(), Forgotten: dropped, Cleared: true})
		dropped = nil
	}
	for _, c := range all {
		add(c.ClientID, nil, c.CreatedAt.Time)
	}
	for _, c := range w.org.Credentials {
		at := w.Now
		if c.RevokedAt != nil {
			at = c.RevokedAt.Time
		}
		events = append(events, &org.CredentialRevoked{ClientId: c.ClientID.Bytes(), AtMs: at.UnixMilli()})
	}
	add(w.client, hash, w.Now)
	return events
}

// roster adds the rows of agents in the order of their creation to the entry of their
// organization, and returns the events that count them. before is how many events come
// first: places are numbers of events.
func roster(e *journal.Entry, owner parley.OrgID, agents []*party, before int, created func(*party) time.Time) (events []org.Event) {
	for i, p := range agents {
		events = append(events, &org.AgentAdded{AgentId: p.id.Bytes(), AtMs: created(p).UnixMilli()})
		place := binary.BigEndian.AppendUint64(owner.Bytes(), uint64(before+i+1))
		e.Rows = append(
			e.Rows, journal.Row{Slot: owner.Slot(), Table: journal.NameTable, Key: record.NameKey(owner, p.name), Value: p.id.Bytes()},
			journal.Row{Slot: owner.Slot(), Table: journal.RosterTable, Key: place, Value: p.id.Bytes()},
		)
	}
	return events
}

// found appends the entry that begins an organization with its whole history.
func (w *writer) found(e *journal.Entry, id parley.OrgID, slug string, events []org.Event) error {
	state := &org.State{}
	create, err := stream(rules.Org, rules.OrgStream(id), state, events)
	if err != nil {
		return err
	}
	claim := journal.CreateStream{Stream: rules.SlugStream(slug), Events: []journal.StoredEvent{{Tag: 1, Data: id.Bytes(), Clear: true}}}
	e.Effects = append(e.Effects, create, claim)
	e.Rows = append(e.Rows, journal.Row{Slot: id.Slot(), Table: journal.SlugTable, Key: []byte(slug), Value: id.Bytes()})
	for _, c := range state.GetCredentials() {
		e.Rows = append(e.Rows, journal.Row{Slot: id.Slot(), Table: journal.ClientTable, Key: slices.Clone(c.GetClientId()), Value: id.Bytes()})
	}
	return w.add(e)
}

// strangerOrg is another organization whose agents occur in the export.
type strangerOrg struct {
	id     parley.OrgID
	slug   string
	agents []*party
}

// strangerOrgs returns the other organizations.
func (w *writer) strangerOrgs() (all []*strangerOrg) {
	byID := map[parley.OrgID]*strangerOrg{}
	for i := len(w.agents); i < len(w.parties); i++ {
		p := &w.parties[i]
		o := byID[p.org]
		if o == nil {
			o = &strangerOrg{id: p.org, slug: p.slug}
			byID[p.org], all = o, append(all, o)
		}
		o.agents = append(o.agents, p)
	}
	return all
}

// writeStrangers writes what stands for other organizations: their ids, slugs and names, so
// that messages show who sent them and nobody else gets the names. They are suspended, have
// no credential, and their agents are revoked, so that nobody can write to them.
func (w *writer) writeStrangers(all []*strangerOrg) error {
	for _, o := range all {
		if err := w.NewKey(o.id); err != nil {
			return err
		}
		client := parley.NewID[parley.ClientID](o.id.Slot(), w.Now, w.Entropy()).Bytes()
		events := []org.Event{
			&org.Registered{Id: o.id.Bytes(), Name: o.slug, Slug: o.slug, ClientId: client, AtMs: o.id.Time().UnixMilli()},
			&org.CredentialRevoked{ClientId: client, AtMs: w.Now.UnixMilli()},
			&org.Suspended{AtMs: w.Now.UnixMilli()},
		}
		entry := &journal.Entry{Slot: o.id.Slot(), At: w.began()}
		events = append(events, roster(entry, o.id, o.agents, len(events), func(p *party) time.Time { return p.id.Time() })...)
		for _, p := range o.agents {
			events = append(events, &org.AgentRetired{AgentId: p.id.Bytes(), AtMs: w.Now.UnixMilli()})
		}
		if err := w.found(entry, o.id, o.slug, events); err != nil {
			return err
		}
		for _, p := range o.agents {
			if err := w.writeStranger(p); err != nil {
				return err
			}
		}
	}
	return nil
}

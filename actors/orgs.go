package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/delivery"
	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/query/export"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

type orgTurn = host.Turn[*org.State, org.Command, org.Event]

// Current returns the organization's record with every count up to date.
func (orgs *Orgs) Current(_ context.Context, id parley.OrgID) (*org.State, error) {
	return host.Query[*org.State](orgs.engine, rules.OrgStream(id), host.GetState{})
}

// Export begins to read everything that belongs to an organization, in at most capacity bytes for
// ids. The caller closes the export. Everything that it shows is durable.
func (orgs *Orgs) Export(ctx context.Context, id parley.OrgID, capacity int) (*export.Export, error) {
	return export.Open(ctx, export.Options{Journal: orgs.journal.Reader, Messages: orgs.queries.Messages, Clock: orgs.clock}, id, capacity)
}

// Change alters an organization's record. // spec: Organization
func (orgs *Orgs) Change(ctx context.Context, id parley.OrgID, c org.Change) (*org.State, error) {
	return host.Ask[*org.State](ctx, orgs.engine, rules.OrgStream(id), 0, c)
}

// SetTerms changes what an organization is entitled to: org.GrantTier, org.SetAllowance,
// org.LiftAllowance, org.Hold, org.Release, org.ConfirmEmail, org.Suspend or org.Resume. The webhooks
// of a suspended organization begin no more attempts and keep their pending jobs. The change applies from the organization's next request.
func (orgs *Orgs) SetTerms(ctx context.Context, id parley.OrgID, c org.Command) (*org.State, error) {
	return host.Ask[*org.State](ctx, orgs.engine, rules.OrgStream(id), 0, c)
}

// AddCredential adds a credential to an organization. It sets the id.
func (orgs *Orgs) AddCredential(ctx context.Context, id parley.OrgID, c org.AddCredential) (*org.Credential, error) {
	c.ClientID = parley.NewID[parley.ClientID](id.Slot(), orgs.clock(), orgs.entropy())
	made, err := host.Ask[*org.State](ctx, orgs.engine, rules.OrgStream(id), 0, c)
	if err != nil {
		return nil, err
	}
	return made.Credential(c.ClientID), nil
}

// RevokeCredential revokes a credential. Its tokens are no longer valid.
func (orgs *Orgs) RevokeCredential(ctx context.Context, id parley.OrgID, client parley.ClientID) error {
	_, err := host.Ask[*org.State](ctx, orgs.engine, rules.OrgStream(id), 0, org.RevokeCredential{ClientID: client})
	return err
}

// NewAgent is a request to create an agent. The organization that will own it decides.
type NewAgent struct {
	Create agent.Create
	// Limit is how many active agents the organization may have; nil means no limit.
	Limit *int
	// Kids are the rows that map the thumbprints of its keys to the agent. Create sets them.
	Kids []journal.Effect
	// Salts are those of the leaf by which it is in the key log. Create sets them.
	Salts [2][parley.KeyLogSaltBytes]byte
}

// Create creates an agent. It sets the id.
func (as *Agents) Create(ctx context.Context, c NewAgent) (*agent.State, error) {
	// The agent's slot is random: it need not be in the journal of its organization.
	random := as.entropy()
	slot := parley.Slot(uint16(random[8])<<8|uint16(random[9])) % parley.Slots
	c.Create.ID = parley.NewID[parley.AgentID](slot, as.clock(), as.entropy())
	c.Salts = as.salts()
	var err error
	if c.Kids, err = as.freeKids(ctx, c.Create.ID, c.Create.OrgID, c.Create.SigningKey, c.Create.EncryptionKey); err != nil {
		return nil, err
	}
	return host.Ask[*agent.State](ctx, as.engine, rules.OrgStream(c.Create.OrgID), 0, c)
}

// closeReport closes an open report.
type closeReport struct {
	Report  parley.ReportID
	Subject parley.AnyID
}

// Report files a report of an organization, to which it gives an id, and returns it as it is stored.
// If the organization has an open one about the same subject, that is returned, and nothing changes.
func (orgs *Orgs) Report(ctx context.Context, r *record.Report) (*record.Report, error) {
	r.Id = parley.NewID[parley.ReportID](r.ByOrg().Slot(), orgs.clock(), orgs.entropy()).Bytes()
	return host.Ask[*record.Report](ctx, orgs.engine, rules.OrgStream(r.ByOrg()), len(r.GetNote()), r)
}

// CloseReport closes a report, and returns it. Closing a closed one changes nothing. The errors are
// parley.ErrNotFound and journal.ErrErased.
func (orgs *Orgs) CloseReport(ctx context.Context, id parley.ReportID) (*record.Report, error) {
	for _, closed := range []bool{false, true} {
		all, err := orgs.Reports(ctx, closed)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(r *record.Report) bool { return r.ReportID() == id })
		switch {
		case at < 0:
			continue
		case closed:
			return all[at], nil
		}
		c := closeReport{id, parley.IDFromBytes[parley.AnyID](all[at].GetSubject())}
		r, err := host.Ask[*record.Report](ctx, orgs.engine, rules.OrgStream(all[at].ByOrg()), 0, c)
		if !errors.Is(err, errUnknownReport) { // else somebody closes it at the same time
			return r, err
		}
	}
	return nil, errUnknownReport
}

var errUnknownReport = parley.ErrNotFound.Saying("There is no such report.")

func fileReport(t *orgTurn, r *record.Report) (any, error) {
	if t.State.Erasing() {
		return nil, org.ErrErasing
	}
	open, err := openReport(t, r.Key())
	if err != nil || open != nil {
		return open, err
	}
	r.AtMs = t.Now.UnixMilli()
	return r, putReport(t, journal.ReportTable, r)
}

func (c closeReport) close(t *orgTurn) (any, error) {
	if t.State.Erasing() {
		return nil, errUnknownReport
	}
	key := (&record.Report{By: t.State.GetId(), Subject: c.Subject[:]}).Key()
	r, err := openReport(t, key)
	switch {
	case err != nil:
		return nil, err
	case r == nil || r.ReportID() != c.Report:
		return nil, errUnknownReport
	}
	r.ClosedMs = t.Now.UnixMilli()
	t.DeleteRow(journal.ReportTable, key)
	return r, putReport(t, journal.ClosedReportTable, r)
}

func openReport(t *orgTurn, key []byte) (*record.Report, error) {
	value, open, err := t.Row(journal.ReportTable, key)
	if err != nil || !open {
		return nil, err
	}
	r := &record.Report{}
	return r, r.UnmarshalVT(value)
}

func putReport(t *orgTurn, table journal.Table, r *record.Report) error {
	value, err := r.MarshalVT()
	if err == nil {
		t.PutRow(table, r.Key(), value)
	}
	return err
}

func (orgs *Orgs) kind() *host.Kind[*org.State, org.Command, org.Event] {
	return &host.Kind[*org.State, org.Command, org.Event]{
		Stream: journal.OrgStream, Rules: rules.Org, StateEvery: 1,
		Blank: func() *org.State { return &org.State{} },
		Handle: func(t *orgTurn, request any) (any, error) {
			defer orgs.resumeAfter(t)
			switch r := request.(type) {
			case host.GetState:
				return proto.CloneOf(t.State), nil
			case NewAgent:
				return orgs.createAgent(t, r)
			case beginErasure:
				return orgs.beginErasure(t, r)
			case foundGroup:
				return orgs.groups.found(t, r)
			case org.AddCredential:
				if err := t.Decide(r); err != nil {
					return nil, err
				}
				for _, due := range t.State.Credential(r.ClientID).Announcements() {
					t.Entry.Timers = append(t.Entry.Timers, journal.Timer{Due: due, Stream: t.Entry.Stream})
				}
				for _, e := range t.Events {
					for _, client := range e.(*org.CredentialAdded).GetForgotten() {
						t.DeleteRow(journal.ClientTable, client)
						t.DeleteRow(journal.TokenTable, record.TokenKey(t.State.OrgID(), parley.IDFromBytes[parley.ClientID](client)))
					}
				}
				t.PutRow(journal.ClientTable, r.ClientID.Bytes(), t.State.GetId())
				return proto.CloneOf(t.State), nil
			case host.TimerDue:
				return nil, orgs.announceExpiries(t, r)
			case org.ProveWorkload:
				return orgs.proveWorkload(t, r)
			case *record.Report:
				return fileReport(t, r)
			case closeReport:
				return r.close(t)
			case org.Command:
				err := t.Decide(r)
				return proto.CloneOf(t.State), err
			}
			panic("org: unknown request")
		},
		HandleQueued: func(t *orgTurn, m *record.SagaMessage) error {
			defer orgs.resumeAfter(t)
			if m.GetKind() == record.SagaMessage_retired {
				return host.IgnoreRefusal(t.Decide(org.RetireAgent{AgentID: parley.IDFromBytes[parley.AgentID](m.GetAgent())}))
			}
			return host.IgnoreRefusal(t.Decide(org.RetireGroup{GroupID: parley.IDFromBytes[parley.GroupID](m.GetGroup())}))
		},
	}
}

// announceExpiries tells the webhooks that ask for it which credentials end soon, and cancels the timer.
// One that fires early, or before the node knows all webhooks, fires again.
func (orgs *Orgs) announceExpiries(t *orgTurn, r host.TimerDue) error {
	asks, known := delivery.Subscribed(orgs.webhooks, webhook.CredentialExpiring)
	if t.Now.Before(r.Due) || !known {
		return nil
	}
	t.Entry.Timers = append(t.Entry.Timers, journal.Timer{Due: r.Due, Stream: t.Entry.Stream, Cancel: true})
	if err := t.Decide(org.AnnounceExpiries{}); err != nil || asks == nil || len(t.Events) == 0 {
		return host.IgnoreRefusal(err)
	}
	var to []parley.Seat // numbered from 1, by which a fan-out is divided
	err := t.Rows(journal.RosterTable, t.State.GetId(), func(_, id []byte) {
		if agent := parley.IDFromBytes[parley.AgentID](id); asks(agent) {
			to = append(to, parley.Seat{Agent: agent, Number: uint32(len(to)) + 1})
		}
	})
	if err != nil || len(to) == 0 {
		return err
	}
	for _, e := range t.Events {
		c := t.State.Credential(e.(*org.ExpiryAnnounced).Client())
		t.AddEffects(journal.Fanout{Kind: journal.CredentialEntry, Ref: parley.AnyID(c.Client()), Note: record.ExpiryNote(c.Expires()), To: to})
	}
	return nil
}

// resumeAfter has the organization's webhooks go on when a change is durable, unless the organization
// is suspended.
func (orgs *Orgs) resumeAfter(t *orgTurn) {
	if id := t.State.OrgID(); len(t.Entry.Events) > 0 && !t.State.Suspended() {
		t.OnDurable(func() { orgs.webhooks.Resume(id) })
	}
}

// createAgent checks the name and the quota and begins the agent's stream in the agent's
// slot.
func (orgs *Orgs) createAgent(t *orgTurn, r NewAgent) (any, error) {
	c := r.Create
	if !areKidRows(r.Kids) {
		return nil, parley.ErrInternal
	}
	_, taken, err := t.Row(journal.NameTable, record.NameKey(c.OrgID, c.Name))
	if err != nil {
		return nil, err
	}
	add := org.AddAgent{AgentID: c.ID, Name: c.Name, NameTaken: taken, AgentLimit: r.Limit}
	if err := t.Decide(add); err != nil {
		return nil, err
	}
	made := &agent.State{}
	create, err := rules.Agent.Begin(rules.AgentStream(c.ID), made, agent.Logged{Command: c, Salts: r.Salts}, t.Now)
	if err != nil {
		return nil, err
	}
	leaves, err := createdLeaves(t.State.GetSlug(), made, create.Events)
	if err != nil {
		return nil, err
	}
	t.PutRow(journal.NameTable, record.NameKey(c.OrgID, c.Name), c.ID.Bytes())
	// The roster is ordered by the organization's event count, because clocks may repeat.
	place := t.Seq()
	t.PutRow(journal.RosterTable, binary.BigEndian.AppendUint64(c.OrgID.Bytes(), place), c.ID.Bytes())
	t.AddEffects(create)
	t.AddEffects(r.Kids...)
	t.AddEffects(leaves...)
	t.AddEffects(pollTokenRow(c.ID, c.PollTokenHash))
	return made, nil
}

// pollTokenRow returns the row that maps a poll token to its agent. Rows of former tokens
// stay; the agent's record says which token is valid.
func pollTokenRow(id parley.AgentID, hash []byte) journal.Effect {
	return journal.PutRow{Row: journal.Row{
		Slot: parley.SlotOf(string(hash)), Table: journal.PollTable, Key: hash, Value: id.Bytes(),
	}}
}

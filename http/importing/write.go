package importing

import (
	"context"
	"fmt"
	"time"

	"parley"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/http/auth"
	"parley/journal"
)

// Target is the empty data directory into which an export is written.
type Target struct {
	Journal journal.Journal
	// SameHome reports whether two slots belong to the same journal.
	SameHome func(a, b parley.Slot) bool
	// NewKey makes the key of an organization.
	NewKey func(parley.OrgID) error
	// SealHook seals the secret of a webhook.
	SealHook func(id webhook.ID, secret string) []byte
	Entropy  parley.Entropy
	// Now is the instant of the import.
	Now time.Time
}

// Imported is what an import has made that was not in the export, and how much it has
// written.
type Imported struct {
	OrgID        parley.OrgID
	ClientID     parley.ClientID
	ClientSecret string
	// Agents, Conversations, Messages and Webhooks are the organization's.
	Agents, Groups, Conversations, Messages, Webhooks int
	// Strangers are agents of other organizations, StrangerOrgs these organizations.
	Strangers, StrangerOrgs int
	// Skipped are the records that were left out, by type.
	Skipped map[string]int
}

// writer writes one export.
type writer struct {
	*Export
	Target
	*appender
	secret string
	client parley.ClientID
	// dropped is the id of the credential of the registration if it is not in the export.
	dropped []byte
	// kids are the thumbprints that already lead to an agent.
	kids map[string]bool
}

// Write writes the export. When it returns without an error, everything is durable.
func (x *Export) Write(ctx context.Context, to Target) (*Imported, error) {
	w := &writer{
		Export: x, Target: to, appender: newAppender(ctx, to.Journal), kids: map[string]bool{},
		secret: auth.NewSecret(to.Entropy), client: parley.NewID[parley.ClientID](x.org.ID.Slot(), to.Now, to.Entropy()),
	}
	strangers := w.strangerOrgs()
	for _, write := range []func() error{
		w.writeOrg, w.writeAgents, func() error { return w.writeStrangers(strangers) }, w.writeGroups, w.writeTalks, w.writeWebhooks, w.settle,
		w.writeFeeds, w.settle, w.writeReceipts, w.settle,
	} {
		if err := write(); err != nil {
			return nil, err
		}
	}
	return &Imported{
		OrgID: x.org.ID, ClientID: w.client, ClientSecret: w.secret, Agents: len(x.agents), Groups: len(x.groups), Conversations: len(x.talks),
		Messages: len(x.messages), Webhooks: len(x.webhooks), Strangers: len(x.parties) - len(x.agents), StrangerOrgs: len(strangers),
		Skipped: x.skipped,
	}, nil
}

// began is the instant of everything that has no instant of its own: nothing of the
// organization is older.
func (x *Export) began() time.Time { return x.org.CreatedAt.Time }

// stream returns the effect that begins a stream with its whole history.
func stream[S rules.State, C any, E rules.Event](of rules.Aggregate[S, C, E], s journal.Stream, state S, events []E) (journal.CreateStream, error) {
	for _, e := range events {
		of.Evolve(state, e)
	}
	create := journal.CreateStream{Stream: s, Fresh: true, Owners: of.OwnersOf(state)}
	var err error
	if create.Events, err = of.Encode(events); err == nil {
		create.State, err = state.MarshalVT()
	}
	if err != nil {
		return create, fmt.Errorf("stream %d/%s: %w", s.Kind, s.ID, err)
	}
	return create, nil
}

// outstandingMax is how many entries may be on their way to the disk.
const outstandingMax = 256

// appender appends entries and waits for the disk only when it must.
type appender struct {
	ctx     context.Context //nolint:containedctx // an import is one long write
	journal journal.Journal
	// free has a token for each entry that may be on its way; a released entry puts its
	// token back, or its error into failed.
	free   chan struct{}
	failed chan error
}

func newAppender(ctx context.Context, to journal.Journal) *appender {
	a := &appender{ctx: ctx, journal: to, free: make(chan struct{}, outstandingMax), failed: make(chan error, outstandingMax)}
	for range outstandingMax {
		a.free <- struct{}{}
	}
	return a
}

// add appends an entry.
func (a *appender) add(e *journal.Entry) error {
	if err := a.take(); err != nil {
		return err
	}
	e.Release = func(err error) {
		if err != nil {
			a.failed <- err
			return
		}
		a.free <- struct{}{}
	}
	a.journal.Append(e)
	return nil
}

func (a *appender) take() error {
	select {
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	case err := <-a.failed:
		return err
	case <-a.free:
		return nil
	}
}

// settle returns once all entries are on the disk and applied in every journal.
func (a *appender) settle() error {
	for range outstandingMax {
		if err := a.take(); err != nil {
			return err
		}
	}
	for range outstandingMax {
		a.free <- struct{}{}
	}
	return a.journal.Settle(a.ctx)
}

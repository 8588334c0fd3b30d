package erasure

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// run takes the steps of an erasure from the first one on that is not complete.
func (e *Erasures) run(ctx context.Context, org parley.OrgID) (Result, error) {
	row, found, err := e.row(ctx, org)
	if err != nil {
		return Result{}, err
	}
	if found && row.GetFinishedMs() != 0 {
		return resultOf(org, row), nil
	}
	if !found {
		row.BegunMs = e.Clock().UnixMilli()
	}
	r := &run{Erasures: e, org: org, row: row}
	for _, step := range []struct {
		name string
		take func(context.Context) error
	}{
		{"read", r.read},
		{"count groups", r.countGroups},
		{"destroy the key", r.destroyKey},
		{"leave groups", r.leaveGroups},
		{"close groups", r.closeGroups},
		{"delete rows", r.deleteRows},
		{"drop messages", r.dropMessages},
		{"finish", r.finish},
	} {
		err := step.take(ctx)
		if err == nil && e.step != nil {
			err = e.step(step.name)
		}
		if err != nil {
			return Result{}, err
		}
	}
	return resultOf(org, row), nil
}

func resultOf(org parley.OrgID, row *record.Erasure) Result {
	return Result{
		Org: org, ErasedAt: time.UnixMilli(row.GetBegunMs()).UTC(), Messages: row.GetMessages(),
		Agents: int64(row.GetAgents()), Conversations: row.GetConversations(), Groups: int64(row.GetGroups()),
	}
}

// run is one attempt at an erasure.
type run struct {
	*Erasures
	org parley.OrgID
	row *record.Erasure
	has holdings
}

func (r *run) read(ctx context.Context) error {
	return r.view(ctx, func(v journal.View) (err error) {
		r.has, err = readHoldings(v, r.org)
		return err
	})
}

func (r *run) view(ctx context.Context, read func(journal.View) error) error {
	return journal.Durably(ctx, r.Journal.View(), read)
}

// countGroups counts the groups that exist, which only their actors know while the
// organization has its key.
func (r *run) countGroups(ctx context.Context) error {
	if r.row.GetGroupsCounted() {
		return nil
	}
	r.row.Groups, r.row.Agents = 0, int32(len(r.has.agents))
	for _, id := range r.has.groups {
		exists, err := r.Host.GroupExists(id)
		if err != nil && !errors.Is(err, journal.ErrErased) {
			return err
		}
		if exists {
			r.row.Groups++
		}
	}
	r.row.GroupsCounted = true
	return r.save(ctx)
}

// destroyKey is the fence. What was accepted before it is applied everywhere when it
// returns; nothing more is accepted.
func (r *run) destroyKey(ctx context.Context) error {
	if err := r.Host.DestroyKey(r.org, time.UnixMilli(r.row.GetBegunMs())); err != nil {
		return err
	}
	r.fence(r.has.agents, true)
	r.Host.Forget(r.org, r.has.agents)
	r.Host.Drop(rules.OrgStream(r.org))
	for _, id := range r.has.agents {
		r.Host.Drop(rules.AgentStream(id))
	}
	for _, id := range r.has.groups {
		r.Host.Drop(rules.GroupStream(id))
	}
	err := r.Journal.Settle(ctx)
	r.Host.Forget(r.org, r.has.agents) // what was published when the last entries became durable
	return err
}

// awaitedAtOnce is how many seats are waited for at once.
const awaitedAtOnce = 32

// leaveGroups tells the groups of others that the agents act no more, and waits until the
// agents have no seats there.
func (r *run) leaveGroups(ctx context.Context) error {
	var seats []seat
	if err := r.view(ctx, func(v journal.View) (err error) {
		seats, err = r.has.seatsElsewhere(v)
		return err
	}); err != nil {
		return err
	}
	b := r.batch()
	for _, s := range seats {
		forget := &record.SagaMessage{Kind: record.SagaMessage_forget, Agent: s.agent.Bytes()}
		if err := b.enqueue(ctx, rules.GroupStream(s.group), forget); err != nil {
			return err
		}
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	var waiting sync.WaitGroup
	slots := make(chan struct{}, awaitedAtOnce)
	for _, s := range seats {
		slots <- struct{}{}
		waiting.Go(func() {
			r.Host.AwaitLoss(s.group, s.agent)
			<-slots
		})
	}
	waiting.Wait()
	return ctx.Err()
}

// closeGroups tells the members of the organization's groups that they are members no
// more, and removes the groups from the directory.
func (r *run) closeGroups(ctx context.Context) error {
	b := r.batch()
	for _, id := range r.has.groups {
		var members []seat
		err := r.view(ctx, func(v journal.View) (err error) {
			members, err = r.has.othersIn(v, id)
			return err
		})
		for _, m := range members {
			if err == nil {
				depart := &record.SagaMessage{Kind: record.SagaMessage_depart, Group: id.Bytes(), Number: m.number}
				err = b.enqueue(ctx, rules.AgentStream(m.agent), depart)
			}
		}
		if err == nil {
			err = b.delete(ctx, journal.DirectorySlot, journal.PublicTable, id.Bytes())
		}
		if err != nil {
			return err
		}
	}
	return b.flush(ctx)
}

// deleteRows deletes the rows of webhooks, cards, reports, MLS KeyPackages and the MLS groups of
// groups. Nobody could read them; but observers of tables learn that they are gone, and the
// rows of MLS groups are long.
func (r *run) deleteRows(ctx context.Context) error {
	var hooks map[webhook.ID]parley.AgentID
	var packages map[parley.AgentID]struct{}
	if err := r.view(ctx, func(v journal.View) (err error) {
		if hooks, err = r.has.webhooks(v); err == nil {
			packages, err = r.has.keyPackages(v)
		}
		return err
	}); err != nil {
		return err
	}
	r.Host.ForgetWebhooks(hooks)
	b := r.batch()
	for id, of := range hooks {
		r.Host.Drop(rules.WebhookStream(id))
		if err := r.deleteBeneath(ctx, of.Slot(), id.Bytes(), journal.DeliveryTable, journal.RetryTable); err != nil {
			return err
		}
		if err := b.delete(ctx, of.Slot(), journal.WebhookTable, append(of.Bytes(), id[:]...)); err != nil {
			return err
		}
	}
	if err := r.deleteOwn(ctx); err != nil {
		return err
	}
	sealed, err := r.withMLS(ctx)
	if err != nil {
		return err
	}
	for _, id := range sealed {
		if err := r.deleteBeneath(ctx, id.Slot(), id.Bytes(), journal.MLSTables...); err != nil {
			return err
		}
	}
	for _, id := range r.has.agents {
		for _, table := range []journal.Table{journal.CardTable, journal.ActivityTable} {
			if err := b.delete(ctx, id.Slot(), table, id.Bytes()); err != nil {
				return err
			}
		}
	}
	for id := range packages {
		if err := r.deleteBeneath(ctx, id.Slot(), id.Bytes(), journal.KeyPackageTable, journal.HandedOutTable); err != nil {
			return err
		}
	}
	return b.flush(ctx)
}

// deleteOwn deletes the rows of the organization itself: its reports, and when its credentials got
// tokens.
func (r *run) deleteOwn(ctx context.Context) error {
	b := r.batch()
	for table, at := range map[journal.Table]int{journal.ReportTable: 0, journal.ClosedReportTable: 4, journal.TokenTable: 0} {
		var keys [][]byte
		if err := r.view(ctx, func(v journal.View) error {
			return v.Keys(table, func(key []byte) bool {
				if bytes.HasPrefix(key[at:], r.org[:]) {
					keys = append(keys, bytes.Clone(key))
				}
				return true
			})
		}); err != nil {
			return err
		}
		for _, key := range keys {
			if err := b.delete(ctx, r.org.Slot(), table, key); err != nil {
				return err
			}
		}
	}
	return b.flush(ctx)
}

// withMLS returns the organization's groups that have an MLS group.
func (r *run) withMLS(ctx context.Context) (sealed []parley.GroupID, err error) {
	err = r.view(ctx, func(v journal.View) error {
		for _, id := range r.has.groups {
			_, found, err := v.Row(id.Slot(), journal.MLSGroupInfoTable, id[:])
			switch {
			case err != nil && !errors.Is(err, journal.ErrErased):
				return err
			case err != nil || found:
				sealed = append(sealed, id)
			}
		}
		return nil
	})
	return sealed, err
}

// deleteBeneath deletes the rows of some tables whose keys begin with key.
func (r *run) deleteBeneath(ctx context.Context, slot parley.Slot, key []byte, tables ...journal.Table) error {
	e := &journal.Entry{Slot: slot}
	for _, table := range tables {
		e.Rows = append(e.Rows, journal.Row{Slot: slot, Table: table, Key: key, Delete: true, Beneath: true})
	}
	return r.append(ctx, e)
}

// dropMessages counts messages and conversations, and drops what the agents sent from the
// feeds of others. It drops nothing that it counts: after a crash it counts the same again.
func (r *run) dropMessages(ctx context.Context) error {
	b := r.batch()
	r.row.Conversations, r.row.Messages = 0, 0
	err := r.walk(ctx, visitor{
		conversation: func(id parley.ConversationID, host parley.GroupID) {
			r.Host.Drop(rules.ConversationStream(id))
			if host.Zero() || r.has.isGroup[host] {
				r.row.Conversations++
			}
		},
		received: func(n int) { r.row.Messages += int64(n) },
		sent: func(m sentMessage) {
			r.row.Messages++
			b.drop(m)
		},
		between: func() error {
			if !b.full() {
				return nil
			}
			return b.flush(ctx)
		},
	})
	if err == nil {
		err = b.flush(ctx)
	}
	if err == nil {
		err = r.Journal.Settle(ctx)
	}
	return err
}

func (r *run) finish(ctx context.Context) error {
	r.Host.Forget(r.org, r.has.agents)
	r.row.Counted, r.row.FinishedMs = true, r.Clock().UnixMilli()
	err := r.save(ctx)
	if err == nil {
		r.fence(r.has.agents, false)
	}
	return err
}

// save stores how far the erasure has come.
func (r *run) save(ctx context.Context) error {
	stored, err := r.row.MarshalVT()
	if err != nil {
		return err
	}
	return r.append(ctx, &journal.Entry{
		Slot: r.org.Slot(), Rows: []journal.Row{{Slot: r.org.Slot(), Table: journal.ErasureTable, Key: r.org.Bytes(), Value: stored}},
	})
}

package query

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"parley/actors/org"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// List returns up to limit organizations in a stable order, after the one with the slug
// after, and whether there are more. It leaves out those that were erased.
func (q *Orgs) List(ctx context.Context, after string, limit int) (page []*org.State, more bool, err error) {
	bad := error(nil)
	add := func(_, value []byte) bool {
		var o *org.State
		o, bad = q.Get(ctx, parley.IDFromBytes[parley.OrgID](value))
		switch {
		case errors.Is(bad, journal.ErrErased):
			bad = nil
			return true
		case bad != nil:
			return false
		case len(page) == limit:
			more = true
			return false
		}
		page = append(page, o)
		return true
	}
	err = q.view(ctx, func(v journal.View) error {
		slot, beyond := parley.Slot(0), []byte(nil)
		if after != "" {
			slot, beyond = parley.SlotOf(after), []byte(after)
		}
		for ; slot < parley.Slots && !more; slot++ {
			err := v.Rows(slot, journal.SlugTable, nil, beyond, false, add)
			if beyond = nil; err != nil || bad != nil {
				return errors.Join(err, bad)
			}
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return page, more, nil
}

// Get returns the durable state of an organization; its count of active agents may lag
// behind. The state is shared and must not be changed.
func (q *Orgs) Get(ctx context.Context, id parley.OrgID) (*org.State, error) {
	return q.lookups.org(ctx, id)
}

// BySlug returns the id of the organization with a slug.
func (q *Orgs) BySlug(ctx context.Context, slug string) (parley.OrgID, error) {
	id, err := q.name(ctx, parley.SlotOf(slug), nameOf{table: journal.SlugTable, text: slug})
	return parley.OrgID(id), err
}

// ByClient returns the organization that owns a client id. It is never cached, so that
// timing does not reveal which client ids exist.
func (q *Orgs) ByClient(ctx context.Context, client parley.ClientID) (parley.OrgID, error) {
	id, err := q.lookup(ctx, client.Slot(), journal.ClientTable, client.Bytes())
	return parley.OrgID(id), err
}

// Used returns what an organization has used today, and stores in all.
func (q *Orgs) Used(ctx context.Context, id parley.OrgID) (used journal.Usage, err error) {
	err = q.view(ctx, func(v journal.View) error {
		used, err = v.Used(id, journal.Day(q.clock()))
		return err
	})
	return used, err
}

// LastToken returns the hour in which a credential of an organization last got a token; zero if it
// has not.
func (q *Orgs) LastToken(ctx context.Context, id parley.OrgID, client parley.ClientID) (at time.Time, err error) {
	err = q.row(ctx, func(v journal.View) error {
		value, found, err := v.Row(id.Slot(), journal.TokenTable, record.TokenKey(id, client))
		if found && err == nil {
			at, _ = record.HourOf(value)
		}
		return err
	})
	return at, err
}

// OpenReports returns how many reports are open, of all organizations.
func (q *Orgs) OpenReports(ctx context.Context) (n int, err error) {
	err = q.view(ctx, func(v journal.View) error {
		return v.Keys(journal.ReportTable, func([]byte) bool { n++; return true })
	})
	return n, err
}

// Reports returns the open or the closed reports of all organizations, oldest first.
func (q *Orgs) Reports(ctx context.Context, closed bool) (all []*record.Report, err error) {
	table := journal.ReportTable
	if closed {
		table = journal.ClosedReportTable
	}
	err = q.view(ctx, func(v journal.View) error {
		var bad error
		err := v.Table(table, func(_, value []byte) bool {
			r := &record.Report{}
			bad = r.UnmarshalVT(value)
			all = append(all, r)
			return bad == nil
		})
		return errors.Join(err, bad)
	})
	slices.SortFunc(all, func(a, b *record.Report) int { return bytes.Compare(a.GetId(), b.GetId()) })
	return all, err
}

// OpenReport returns the open report of an organization about a message, an agent or a group, nil
// if there is none.
func (q *Orgs) OpenReport(ctx context.Context, by parley.OrgID, subject parley.AnyID) (r *record.Report, err error) {
	err = q.row(ctx, func(v journal.View) error {
		value, found, err := v.Row(by.Slot(), journal.ReportTable, (&record.Report{By: by[:], Subject: subject[:]}).Key())
		if err != nil || !found {
			return err
		}
		r = &record.Report{}
		return r.UnmarshalVT(value)
	})
	return r, err
}

package query

import (
	"context"
	"errors"

	"parley"
	"parley/actors/org"
	"parley/journal"
)

// List are organizations in an order that stays, those beyond the one with the
// slug after, at most limit of them, and whether there are more.
func (q *Orgs) List(ctx context.Context, after string, limit int) (page []*org.State, more bool, err error) {
	var ids []parley.OrgID
	err = q.view(ctx, func(v journal.View) error {
		slot, beyond := parley.Slot(0), []byte(nil)
		if after != "" {
			slot, beyond = parley.SlotOf(after), []byte(after)
		}
		for ; slot < parley.Slots && len(ids) <= limit; slot++ {
			err := v.Rows(slot, journal.SlugTable, nil, beyond, false, func(_, value []byte) bool {
				ids = append(ids, parley.IDFromBytes[parley.OrgID](value))
				return len(ids) <= limit
			})
			if beyond = nil; err != nil {
				return err
			}
		}
		return nil
	})
	for _, id := range ids[:min(len(ids), limit)] {
		o, unknown := q.Get(ctx, id)
		if err = errors.Join(err, unknown); err != nil {
			return nil, false, err
		}
		page = append(page, o)
	}
	return page, len(ids) > limit, err
}

// Get is the record of an organization as last durable; its count of active
// agents may lag behind. It is shared and must not be changed.
func (q *Orgs) Get(ctx context.Context, id parley.OrgID) (*org.State, error) {
	return q.lookups.org(ctx, id)
}

// BySlug finds an organization by its slug.
func (q *Orgs) BySlug(ctx context.Context, slug string) (parley.OrgID, error) {
	id, err := q.name(ctx, parley.SlotOf(slug), nameOf{table: journal.SlugTable, text: slug})
	return parley.OrgID(id), err
}

// ByClient finds the organization that a credential was made for. It reads the
// row each time: how long it takes does not tell which clients there are.
func (q *Orgs) ByClient(ctx context.Context, client parley.ClientID) (parley.OrgID, error) {
	id, err := q.lookup(ctx, client.Slot(), journal.ClientTable, client.Bytes())
	return parley.OrgID(id), err
}

// Used is how many message slots an organization has used today.
func (q *Orgs) Used(ctx context.Context, id parley.OrgID) (used int64, err error) {
	err = q.view(ctx, func(v journal.View) error {
		used, err = v.Used(id, journal.Day(q.clock()))
		return err
	})
	return used, err
}

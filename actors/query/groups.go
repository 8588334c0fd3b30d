package query

import (
	"context"
	"encoding/binary"
	"errors"

	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// Exists returns group.ErrUnknown if there is no such group. It is checked before a
// group's actor is asked, so that unknown ids do not activate actors.
func (q *Groups) Exists(ctx context.Context, id parley.GroupID) error {
	_, err := q.lookups.group(ctx, id)
	return err
}

// group returns the owner of a group, which never changes.
func (f *lookups) group(ctx context.Context, id parley.GroupID) (owner parley.OrgID, err error) {
	if owner, ok := f.groups.GetIfPresent(id); ok {
		return owner, nil
	}
	v := f.journal.Latest()
	defer v.Close()
	var bad error
	err = v.Events(rules.GroupStream(id), 1, false, func(_ uint64, _ int64, fact journal.StoredEvent) bool {
		var e group.Event
		e, bad = rules.Group.Decode(fact)
		if founded, ok := e.(*group.Founded); ok {
			owner = parley.IDFromBytes[parley.OrgID](founded.GetOrg())
		}
		return false
	})
	if err = errors.Join(err, bad); err == nil {
		err = v.Durable(ctx)
	}
	if err != nil {
		return owner, err
	}
	if owner.Zero() {
		return owner, group.ErrUnknown
	}
	f.groups.Set(id, owner)
	return owner, nil
}

// ByName returns the id of an organization's group with a name, deleted or not.
func (q *Groups) ByName(ctx context.Context, owner parley.OrgID, name string) (parley.GroupID, error) {
	id, err := q.name(ctx, owner.Slot(), nameOf{journal.GroupNameTable, parley.AnyID(owner), name})
	return parley.GroupID(id), err
}

// Owned returns the ids of the groups that an organization created, oldest first, after
// a place in its list (0: from the first). They include deleted groups and groups whose
// founder never got a seat. next is the place to continue from, 0 at the end.
func (q *Groups) Owned(ctx context.Context, owner parley.OrgID, after uint64, limit int) (ids []parley.GroupID, next uint64, err error) {
	beyond := []byte(nil)
	if after != 0 {
		beyond = binary.BigEndian.AppendUint64(owner.Bytes(), after)
	}
	err = q.view(ctx, func(v journal.View) error {
		last := uint64(0)
		return v.Rows(owner.Slot(), journal.GroupRosterTable, owner[:], beyond, false, func(key, value []byte) bool {
			if len(ids) == limit {
				next = last
				return false
			}
			last = binary.BigEndian.Uint64(key[len(owner):])
			ids = append(ids, parley.IDFromBytes[parley.GroupID](value))
			return true
		})
	})
	return ids, next, err
}

// SettledRequests returns a group's settled join requests in the order of their ids,
// after the id after, and whether there are more.
func (q *Groups) SettledRequests(ctx context.Context, id parley.GroupID, after parley.JoinRequestID, limit int) (page []*group.Request, more bool, err error) {
	err = q.view(ctx, func(v journal.View) error {
		var bad error
		scan := v.Rows(id.Slot(), journal.RequestTable, id[:], append(id.Bytes(), after[:]...), false, func(_, value []byte) bool {
			if more = len(page) == limit; more {
				return false
			}
			r := &group.Request{}
			if bad = encoding.Unmarshal(value, r); bad != nil {
				return false
			}
			page = append(page, r)
			return true
		})
		return errors.Join(scan, bad)
	})
	return page, more, err
}

// SettledRequest returns a settled join request; group.ErrUnknownRequest if there is
// none.
func (q *Groups) SettledRequest(ctx context.Context, id parley.GroupID, request parley.JoinRequestID) (r *group.Request, err error) {
	err = q.row(ctx, func(v journal.View) error {
		value, found, err := v.Row(id.Slot(), journal.RequestTable, append(id.Bytes(), request[:]...))
		if err == nil && !found {
			return group.ErrUnknownRequest
		}
		if err != nil {
			return err
		}
		r = &group.Request{}
		return encoding.Unmarshal(value, r)
	})
	return r, err
}

// HadSeat reports whether an agent is, or ever was, a member of a group.
func (q *Groups) HadSeat(ctx context.Context, id parley.GroupID, of parley.AgentID) (had bool, err error) {
	err = q.row(ctx, func(v journal.View) error {
		_, had, err = v.Row(id.Slot(), journal.PlaceTable, append(id.Bytes(), of[:]...))
		return err
	})
	return had, err
}

package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// TestContactLookupIsBounded: finding the agents with which an agent shared
// conversations reads a bounded number of events.
func TestContactLookupIsBounded(t *testing.T) {
	const said, bound = 200, 50
	for name, row := range map[string]struct {
		rows, most int
		finds      int
	}{
		"bounded": {bound, 3*bound + 10, 1}, // itself
		"control": {math.MaxInt, math.MaxInt, 2},
	} {
		t.Run(name, func(t *testing.T) {
			o := &countingJournal{}
			r := newTestNode(t, withTuning(func(n *Node) { n.queries.Limits().CorrespondentRows = row.rows }), withWrap(func(j journal.Journal) journal.Journal { o.Journal = j; return journal.Of(o) }))
			owner, ids := r.agents("acme", 3)
			other, strangers := r.agents("other", 1)
			c := must(r.createGroup(owner, ids[0], "board", group.Open, false))(t)
			must(r.node.Groups.Join(context.Background(), c.id, group.Join{Agent: strangers[0], Org: other}))(t)
			must(c.join(ids[1]))(t)
			talk := must(c.say(ids[0], "first", ""))(t).Message.Conversation()
			if err := c.remove(strangers[0], ids[0]); err != nil {
				t.Fatal(err)
			}
			for i := range said {
				must(c.say(ids[0], fmt.Sprint(i), ""))(t)
			}
			awaitKeyLog(t, r.node, append(ids, strangers...)...)
			var with map[parley.AgentID]time.Time
			read := o.reads(func() {
				with = must(r.node.Groups.Correspondents(context.Background(), talk, c.id, parley.Principal{Org: other}))(t)
			})
			if read > row.most || name == "control" && read < said {
				t.Errorf("%d rows were read", read)
			}
			if len(with) != row.finds {
				t.Errorf("found %v", slices.Collect(maps.Keys(with)))
			}
		})
	}
}

// TestSeatHolder: one row names an organization's holder of a seat, so that its agents
// need not be searched.
func TestSeatHolder(t *testing.T) {
	o := &countingJournal{}
	r := newTestNode(t, withWrap(func(j journal.Journal) journal.Journal { o.Journal = j; return journal.Of(o) }))
	const many = 1100
	owner, ids := r.agents("acme", 2)
	other, strangers := r.agents("other", many)
	c := must(r.createGroup(owner, ids[0], "board", group.Open, false))(t)
	var last parley.AgentID // of the roster
	if err := r.node.Agents.Each(context.Background(), other, func(a *agent.State) bool { last = a.AgentID(); return true }); err != nil || !slices.Contains(strangers, last) {
		t.Fatal(last, err)
	}
	must(r.node.Groups.Join(context.Background(), c.id, group.Join{Agent: last, Org: other}))(t)
	if err := c.remove(last, ids[0]); err != nil {
		t.Fatal(err)
	}
	awaitKeyLog(t, r.node, append(ids, strangers...)...)
	holds := func(want parley.AgentID, most int) {
		t.Helper()
		read := o.reads(func() {
			if got := must(r.node.Groups.SeatHolder(context.Background(), c.id, parley.Principal{Org: other}))(t); got != want {
				t.Errorf("the holder is %v, want %v", got, want)
			}
		})
		if read > most {
			t.Errorf("%d rows were read", read)
		}
	}
	holds(last, 2)
	if got := must(r.node.Groups.SeatHolder(context.Background(), c.id, parley.Principal{Org: parley.OrgID{1}}))(t); !got.Zero() {
		t.Errorf("holder of an organization without a seat: %v", got)
	}
}

// TestAnyAgentOfAnOrganizationMayBeElector: a caller that names no agent counts as an
// elector if any agent of its organization was one, whichever agent the row names.
func TestAnyAgentOfAnOrganizationMayBeElector(t *testing.T) {
	r := newTestNode(t)
	owner, ids := r.agents("acme", 2)
	other, electors := r.agents("other", 2)
	third, applicants := r.agents("third", 1)
	c := must(r.createGroup(owner, ids[0], "board", group.Open, false))(t)
	joins := func(a parley.AgentID, org parley.OrgID) Joined {
		return must(r.node.Groups.Join(context.Background(), c.id, group.Join{Agent: a, Org: org}))(t)
	}
	becomes := func(p group.Policy) {
		if err := r.node.Groups.Change(context.Background(), c.id, group.Change{By: c.by, Policy: &p}); err != nil {
			t.Fatal(err)
		}
	}
	joins(electors[0], other)
	becomes(group.Majority)
	request := joins(applicants[0], third).Request
	becomes(group.Open)
	joins(electors[1], other)
	joins(ids[1], owner)
	if _, err := r.node.Groups.ChangeRole(context.Background(), c.id, group.ChangeRole{By: c.by, Agent: ids[1], Role: group.Admin}); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []parley.AgentID{electors[0], electors[1], ids[0]} {
		if err := c.remove(gone, ids[0]); err != nil {
			t.Fatal(err)
		}
	}
	votes := func(org parley.OrgID, want error) {
		t.Helper()
		_, err := r.node.Groups.Vote(context.Background(), c.id, group.CastVote{Request: request.RequestID(), By: group.Caller{Org: org}, Approve: true})
		if !errors.Is(err, want) {
			t.Errorf("the vote got %v, want %v", err, want)
		}
	}
	note := journal.Row{Slot: c.id.Slot(), Table: journal.HolderTable, Key: record.HolderKey(c.id, other)}
	votes(other, group.ErrElectorateEmpty)
	votes(third, group.ErrNotInElectorate)
	for _, noted := range []parley.AgentID{electors[1], electors[0]} { // the first one was seated after the request was filed
		note.Value = noted.Bytes()
		r.putRow(note)
		votes(other, group.ErrElectorateEmpty)
	}
}

// putRow stores a row without telling the actors.
func (r *testNode) putRow(row journal.Row) {
	r.t.Helper()
	done := make(chan error, 1)
	r.store.Append(&journal.Entry{Slot: row.Slot, Rows: []journal.Row{row}, At: r.clock(), Release: func(err error) { done <- err }})
	if err := <-done; err != nil {
		r.t.Fatal(err)
	}
}

// TestRosterIsReadInPages: finding one of an organization's agents does not read all
// of them.
func TestRosterIsReadInPages(t *testing.T) {
	o := &countingJournal{}
	r := newTestNode(t, withWrap(func(j journal.Journal) journal.Journal { o.Journal = j; return journal.Of(o) }))
	owner, ids := r.agents("acme", 3*query.RosterPage)
	awaitKeyLog(t, r.node, ids...)
	var first parley.AgentID
	read := o.reads(func() { first = must(r.node.Agents.FirstActive(context.Background(), owner))(t).AgentID() })
	if read > query.RosterPage+10 {
		t.Errorf("%d rows were read to find one agent", read)
	}
	var all []parley.AgentID
	if err := r.node.Agents.Each(context.Background(), owner, func(a *agent.State) bool {
		all = append(all, a.AgentID())
		return true
	}); err != nil || len(all) != len(ids) || all[0] != first {
		t.Fatalf("%d agents are listed, want %d: %v", len(all), len(ids), err)
	}
	if !sameAgents(all, ids) {
		t.Error("an agent is listed twice or missing")
	}
}

func sameAgents(a, b []parley.AgentID) bool {
	count := map[parley.AgentID]int{}
	for _, id := range a {
		count[id]++
	}
	for _, id := range b {
		count[id]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

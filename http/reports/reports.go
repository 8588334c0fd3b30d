// Package reports takes reports of organizations about messages, agents and groups, for the
// operator.
package reports

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/actors"
	"parley/actors/group"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/rest"
	"parley/http/submission"
	"parley/journal"
)

const (
	// openMax is how many reports may be open, of all organizations.
	openMax = 10_000
	// countEvery is how long the number of open reports is used. This node adds to it what it
	// accepts; it lacks what other nodes accept meanwhile.
	countEvery = time.Second
)

// Reports takes reports.
type Reports struct {
	node     *actors.Node
	groups   *access.Groups
	capacity capacity
}

// capacity bounds the open reports.
type capacity struct {
	// count counts them as they are stored.
	count func(context.Context) (int, error)

	mu      sync.Mutex
	open    int
	counted time.Time
}

// New returns the reports of a node.
func New(node *actors.Node, groups *access.Groups) *Reports {
	return &Reports{node: node, groups: groups, capacity: capacity{count: node.Orgs.OpenReports}}
}

// File files a report. // docs: api.md#reports
func (s *Reports) File(c *rest.Call, in *api.CreateReport) (filed api.ReportFiled, err error) {
	r := &record.Report{By: c.Caller.Org.Bytes(), Category: in.Category}
	if in.Note != nil {
		r.Note = *in.Note
	}
	if err := s.find(c, in, r); err != nil {
		return filed, err
	}
	open, err := s.node.Orgs.OpenReport(c.Context(), c.Caller.Org, parley.IDFromBytes[parley.AnyID](r.GetSubject()))
	if err != nil {
		return filed, err
	}
	if open == nil {
		if err := s.capacity.take(c.Context(), c.Now()); err != nil {
			return filed, err
		}
		if open, err = s.node.Orgs.Report(c.Context(), r); err != nil {
			s.capacity.giveBack()
			return filed, err
		}
	}
	if filed.ReportID = open.ReportID(); filed.ReportID != r.ReportID() {
		c.SetStatus(200)
	}
	return filed, nil
}

// find finds the subject of a report, which the caller must be able to know.
func (s *Reports) find(c *rest.Call, in *api.CreateReport, r *record.Report) error {
	var owner parley.OrgID
	switch {
	case in.MessageID != nil:
		m, err := s.node.Messages.Get(c.Context(), *in.MessageID)
		switch m, err = submission.Readable(c, m, err); {
		case err == nil && !c.Caller.Owns(m.Record.RecipientOrg(), m.Record.Recipient()), errors.Is(err, submission.ErrForeignMessage):
			return submission.ErrUnknownMessage
		case err != nil:
			return err
		}
		r.Kind, r.Subject, owner = record.Report_message, in.MessageID.Bytes(), m.Record.SenderOrg()
	case in.AgentID != nil:
		a, err := s.node.Agents.Get(c.Context(), *in.AgentID)
		switch {
		case errors.Is(err, parley.ErrNotFound), errors.Is(err, journal.ErrErased):
			return access.ErrUnknownAgent
		case err != nil:
			return err
		}
		r.Kind, r.Subject, owner = record.Report_agent, in.AgentID.Bytes(), a.Owner()
	default:
		g, err := s.groups.View(c, *in.GroupID, group.Onlooker)
		if err != nil {
			return err
		}
		r.Kind, r.Subject, owner = record.Report_group, in.GroupID.Bytes(), g.Org
	}
	r.Reported = owner.Bytes()
	return nil
}

// take counts one more open report, or refuses it.
func (s *capacity) take(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.counted) >= countEvery {
		n, err := s.count(ctx)
		if err != nil {
			return err
		}
		s.open, s.counted = n, now
	}
	if s.open >= openMax {
		return parley.ErrOverloaded
	}
	s.open++
	return nil
}

// giveBack says that a report that was counted was refused.
func (s *capacity) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

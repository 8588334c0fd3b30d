package http

import (
	"context"

	"parley"
	"parley/actors/agent"
	"parley/actors/query"
	"parley/http/rest"
	"parley/http/view"
)

// viewer returns an agent as the reader of its messages; a zero agent stands for its organization.
func (s *core) viewer(org parley.OrgID, agent parley.AgentID) view.Viewer {
	return view.Viewer{Org: org, Agent: agent, Logger: s.Logger}
}

// viewerOf returns a viewer of messages of which the caller's organization owns the
// sender or the recipient.
func (s *core) viewerOf(c *rest.Call, acting *agent.State) view.Viewer {
	if acting == nil {
		return s.viewer(c.Caller.Org, parley.AgentID{})
	}
	return s.viewer(c.Caller.Org, acting.AgentID())
}

// toView returns a message with what is shown beside it.
func (s *core) toView(ctx context.Context, m query.Message) view.Message {
	out := view.Message{Message: m}
	if m.Record.Copied() {
		out.Recipient, _ = s.agents.HandleOf(ctx, m.Record.Recipient()) // if possible
	}
	return out
}

// toViews is toView for a page.
func (s *core) toViews(ctx context.Context, page []query.Message) []view.Message {
	all := make([]view.Message, len(page))
	for i, m := range page {
		all[i] = s.toView(ctx, m)
	}
	return all
}

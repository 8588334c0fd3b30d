package http

import (
	"parley/actors/agent"
	"parley/client/parley"
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

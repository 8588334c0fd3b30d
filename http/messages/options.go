// Package messages serves messages and conversations: sending, inboxes, waits, receipts and traces.
package messages

import (
	"context"
	"log/slog"

	"parley/actors"
	"parley/actors/agent"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/auth"
	"parley/http/rest"
	"parley/http/submission"
	"parley/http/view"
)

// Options are what the handlers of messages need of the service.
type Options struct {
	Node   *actors.Node
	Agents *access.Agents
	Groups *access.Groups
	Desk   *submission.Desk
	Lists  *rest.Lists
	Logger *slog.Logger
	// Brand is the word in message types, BaseURL the issuer of receipts.
	Brand, BaseURL string
	// CutOff reports that this node has lost contact with its cluster: waits end.
	CutOff func() bool
	// ReceiptKey returns the key that signs receipts now.
	ReceiptKey func(context.Context) (auth.SigningKey, error)
	// Listening reports whether a stream of an agent is open on this node.
	Listening func(parley.AgentID) bool
	// Erasures wake requests that wait for an agent.
	Erasures *Erasures
}

// Messages has the requests that send, Inbox those that read and acknowledge.
type (
	Messages      struct{ *Options }
	Inbox         struct{ *Options }
	Conversations struct{ *Options }
)

// viewer returns an agent as the reader of its messages; a zero agent stands for its organization.
func (o *Options) viewer(by parley.Principal, agent parley.AgentID) view.Viewer {
	return view.Viewer{Principal: by, Agent: agent, Logger: o.Logger}
}

// viewerOf returns a viewer of messages of which the caller's organization owns the
// sender or the recipient.
func (o *Options) viewerOf(c *rest.Call, acting *agent.State) view.Viewer {
	if acting == nil {
		return o.viewer(c.Caller.Principal, parley.AgentID{})
	}
	return o.viewer(c.Caller.Principal, acting.AgentID())
}

package http

import (
	"cmp"
	"errors"
	"strings"

	"parley"
	"parley/actors"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/http/api"
	"parley/http/rest"
)

// exchangesKeys reports whether a message distributes or requests a sender key.
// // spec: Message types
func (s messages) exchangesKeys(messageType string) bool {
	word, reserved := strings.CutPrefix(messageType, s.Brand+".v1.")
	return reserved && (word == "sender_key_distribution" || word == "sender_key_request")
}

// handleOfGroup returns the handle of the group that a send addresses, or false if it
// addresses an agent.
func handleOfGroup(in *api.Send) (parley.Handle, bool) {
	if in.ToHandle == nil {
		return parley.Handle{}, false
	}
	h, err := parley.ParseHandle(*in.ToHandle)
	return h, err == nil && h.Group
}

// groupByHandle finds a group, deleted or not, by its handle.
func (s messages) groupByHandle(c *rest.Call, h parley.Handle) (id parley.GroupID, err error) {
	err = parley.ErrNotFound
	if h.Domain == s.Domain {
		var owner parley.OrgID
		if owner, err = s.Node.Orgs.BySlug(c.Context(), h.Slug); err == nil {
			id, err = s.Node.Groups.ByName(c.Context(), owner, h.Name)
		}
	}
	if errors.Is(err, parley.ErrNotFound) {
		err = group.ErrUnknown
	}
	return id, err
}

// broadcast sends to every member of a group except the sender. // spec: Messaging
func (s messages) broadcast(c *rest.Call, in *api.Send, from *agent.State, to parley.Handle) (actors.Posted, error) {
	e := s.envelopeOf(c, in, from, "group")
	if err := s.checkSignatures(c, e, from); err != nil {
		return actors.Posted{}, err
	}
	id, err := s.groupByHandle(c, to)
	if err != nil { // no send is remembered for this error
		return actors.Posted{}, cmp.Or(e.signatureErr, err)
	}
	request := actors.GroupSend{Group: id, From: from.AgentID(), Metadata: in.ConversationMetadata}
	if request.Parent, request.ParentFact, err = s.parentOf(c, in, from); err != nil {
		return actors.Posted{}, err
	}
	request.Content = s.contentFrom(c, e)
	e.sender, e.group, e.groupHandle = from.AgentID(), id, to.String()
	e.senderHandle = parley.Handle{Name: from.GetName(), Slug: c.Caller.Slug, Domain: s.Domain}.String()
	if request.Body, err = writeContent(c, e); err != nil {
		return actors.Posted{}, err
	}
	posted, err := s.Node.Messages.Broadcast(c.Context(), request)
	if errors.Is(err, group.ErrNotMember) || errors.Is(err, group.ErrDeleted) {
		// Only a caller that may know of the group learns that the sender is not a
		// member.
		if unknown := s.mayKnow(c, id); errors.Is(unknown, group.ErrUnknown) {
			err = unknown
		}
	}
	return posted, err
}

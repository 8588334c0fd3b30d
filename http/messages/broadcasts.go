package messages

import (
	"errors"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
)

// handleOfGroup returns the handle of the group that a send addresses, or false if it
// addresses an agent.
func handleOfGroup(in *api.Send) (parley.Handle, bool) {
	if in.ToHandle == nil {
		return parley.Handle{}, false
	}
	h, err := parley.ParseHandle(*in.ToHandle)
	return h, err == nil && h.Group
}

// broadcast sends to every member of a group except the sender. // spec: Messaging
func (s Messages) broadcast(c *rest.Call, in *api.Send, from *agent.State, to parley.Handle) (actors.Posted, error) {
	var id parley.GroupID
	posted, err := s.Desk.Broadcast(c, in, from, to, func() (_ parley.GroupID, err error) {
		id, err = s.Groups.ByHandle(c, to)
		return id, err
	})
	if errors.Is(err, group.ErrNotMember) || errors.Is(err, group.ErrDeleted) {
		// Only a caller that may know of the group learns that the sender is not a
		// member.
		if unknown := s.Groups.MayKnow(c, id); errors.Is(unknown, group.ErrUnknown) {
			err = unknown
		}
	}
	return posted, err
}

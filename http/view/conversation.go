package view

import (
	"parley/actors/conversation"
	"parley/client/api"
)

// Conversation returns a conversation as its participants see it.
func Conversation(s *conversation.State) api.Conversation {
	out := api.Conversation{
		ID: s.ConversationID(), Status: s.GetStatus().String(), CreatedAt: api.At(s.CreatedAt()), Metadata: api.Object(`{}`),
	}
	if len(s.GetMetadata()) > 0 {
		out.Metadata = s.GetMetadata()
	}
	if parent := s.ParentID(); !parent.Zero() {
		out.ParentConversationID = &parent
	}
	return out
}

package conversation

import (
	"slices"

	"parley/client/parley"
)

// ArtifactsMax is of how many artifacts a state keeps the ids: however many messages follow,
// a reader finds these by their ids.
const ArtifactsMax = 64

// authReason is the reason by which input_required says that the initiator has to authorize
// something. A reason is sealed: events and states have a mark of it in the clear.
const authReason = "auth_required"

// idBytes is the length of a message's id.
const idBytes = len(parley.MessageID{})

// meaningOf returns what a reply means for the task that the conversation is. Conversations
// that were not begun over A2A are shown as tasks too, and have artifacts.
func meaningOf(s *State, c Reply) Meaning {
	role := s.Role(c.From)
	switch {
	case s.ofGroup():
	case role == Responder && c.Lone && awaitsFirstReply(s):
		return Meaning_lone_message
	case role == Responder && c.Outcome == Completed:
		return Meaning_artifact
	case role != Responder && awaitsFirstReply(s):
		return Meaning_unanswered
	}
	return Meaning_no_meaning
}

// awaitsFirstReply reports whether the responder of a task has posted nothing. A state that was
// stored before these were counted says no once there is a second message.
func awaitsFirstReply(s *State) bool {
	return s.GetTask() && s.GetMessages() == 1+s.GetUnanswered()
}

// mean folds what a reply means.
func (s *State) mean(e *Posted) {
	switch e.GetMeaning() {
	case Meaning_artifact:
		kept := s.Artifacts
		if over := len(kept) - (ArtifactsMax-1)*idBytes; over > 0 {
			kept = kept[over:]
		}
		s.Artifacts = slices.Concat(kept, e.MessageId)
		s.ArtifactCount++
	case Meaning_lone_message:
		s.LoneMessage = true
	case Meaning_unanswered:
		s.Unanswered++
	case Meaning_no_meaning:
	}
}

// NewestArtifacts returns the ids of the newest artifacts, newest first: at most 64, without
// those that were posted before the server kept them.
func (s *State) NewestArtifacts() []parley.MessageID {
	all := make([]parley.MessageID, 0, len(s.GetArtifacts())/idBytes)
	for id := range slices.Chunk(s.GetArtifacts(), idBytes) {
		all = append(all, parley.IDFromBytes[parley.MessageID](id))
	}
	slices.Reverse(all)
	return all
}

package history

import "slices"

// Submitted is the status that a conversation begins with.
const Submitted = "submitted"

// moves is the table of the specification, written down a second time so that
// the judge does not believe whom it judges. // spec: Conversation status
var moves = map[string][]string{
	Submitted:        {"open", "rejected", "canceled", "failed"},
	"open":           {"paused", "input_required", "completed", "failed", "canceled"},
	"paused":         {"open", "completed", "failed", "canceled"},
	"input_required": {"open", "completed", "failed", "canceled"},
}

// Statuses are the eight words, the ones that end a conversation last.
func Statuses() []string {
	return []string{Submitted, "open", "paused", "input_required", "completed", "failed", "canceled", "rejected"}
}

// Allowed tells whether a conversation may move from one status to the other.
func Allowed(from, to string) bool { return slices.Contains(moves[from], to) }

// Terminal tells whether a conversation never leaves a status.
func Terminal(status string) bool { return moves[status] == nil && slices.Contains(Statuses(), status) }

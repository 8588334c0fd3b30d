package history

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Message is a message as a reader is shown it. The payload is what ties it to
// the send that made it, as a ciphertext does: no two keys may share one.
type Message struct {
	ID           ID     `json:"id"`
	Conversation ID     `json:"conversation_id"`
	From         ID     `json:"from_agent_id"`
	To           ID     `json:"to_agent_id"`
	Payload      string `json:"encrypted_payload"`
	CreatedAt    string `json:"created_at"`
}

// Span is when something was asked and when it was answered, or given up, both
// on one clock that never goes back and counts from wherever it likes.
type Span struct{ Asked, Answered time.Duration }

// Outcome is what the client of a write knows of it.
type Outcome uint8

const (
	// Unknown: no answer, or one that says so. It may have happened.
	Unknown Outcome = iota
	// Acked: answered with success. It has happened.
	Acked
	// Refused: answered with a refusal. It has not happened.
	Refused
)

// Send is one attempt to send or reply. A sender uses a key for one message
// only, in as many attempts as it likes.
type Send struct {
	Span
	Key      string
	Payload  string
	From, To ID
	// ReplyTo is the message that is replied to, zero for a send.
	ReplyTo ID
	Outcome Outcome
	// Refusal is the code of a refusal.
	Refusal string
	// Result is the message in the answer, if the send was acknowledged.
	Result Message
	// Repeat reports that the answer marked the message as a repeat.
	Repeat bool
}

// Page is what was read of an inbox in one go: one page, or several of which
// each went on where the one before ended.
type Page struct {
	Span
	Agent ID
	Rows  []Message // newest first
	Top   bool      // it began with the newest
	End   bool      // it went on to the oldest
}

// Transcript is what a participant read of a conversation, from its first
// message on.
type Transcript struct {
	Span
	Conversation, Reader ID
	Rows                 []Message // oldest first
	Whole                bool      // to its end
}

// Event is one event of a stream: a message, or a status of a conversation.
type Event struct {
	Message      ID
	Conversation ID
	Status       string
}

// Connection is one connection of a follower of an agent's stream; its span is
// from the request to the last event that counted.
type Connection struct {
	Span
	Follower string
	Agent    ID
	After    ID // the Last-Event-ID; zero is the nil UUID: from the first on
	Events   []Event
	// Caught tells that it was followed until everything came that had been
	// acknowledged when it began.
	Caught bool
}

// Change is an attempt to move a conversation to another status.
type Change struct {
	Span
	Conversation ID
	To           string
	Outcome      Outcome
	// Current is the status that a refusal named, if it named one.
	Current string
}

// Look is a status that an answer showed.
type Look struct {
	Span
	Conversation ID
	Status       string
}

// History is what clients were told. Any number of goroutines may record.
type History struct {
	settle time.Duration

	mu          sync.Mutex
	sends       []Send
	seen        map[Message]struct{}
	pages       []Page
	transcripts []Transcript
	connections []Connection
	changes     []Change
	looks       []Look
}

// New makes an empty history. An answer to a write that took longer than settle
// may be ahead of its effect in other homes and proves nothing about when that
// was visible.
func New(settle time.Duration) *History {
	return &History{settle: settle, seen: map[Message]struct{}{}}
}

// Sent records an attempt to send or reply.
func (h *History) Sent(s Send) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sends = append(h.sends, s)
}

// Saw records a message that was read by itself.
func (h *History) Saw(m Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen[m] = struct{}{}
}

// Paged records a reading of an inbox.
func (h *History) Paged(p Page) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pages = append(h.pages, p)
}

// Read records a reading of a transcript.
func (h *History) Read(t Transcript) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.transcripts = append(h.transcripts, t)
}

// Streamed records a connection that is over. Connections of one follower are
// recorded in their order.
func (h *History) Streamed(c Connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connections = append(h.connections, c)
}

// Changed records an attempt to move a conversation.
func (h *History) Changed(c Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = append(h.changes, c)
}

// Looked records a status that was shown.
func (h *History) Looked(l Look) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks = append(h.looks, l)
}

// Unread counts the acknowledged messages that a reading of an inbox does not
// have: the effect of a slow answer may be still to follow.
func (h *History) Unread(p Page) int {
	there := make(map[ID]bool, len(p.Rows))
	for _, m := range p.Rows {
		there[m.ID] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	missing := 0
	for _, s := range h.sends {
		if s.Outcome == Acked && s.To == p.Agent && !there[s.Result.ID] {
			missing++
		}
	}
	return missing
}

// Clone is a history of its own with the same records, to plant faults in.
func (h *History) Clone() *History {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &History{
		settle: h.settle, sends: slices.Clone(h.sends), seen: maps.Clone(h.seen), pages: slices.Clone(h.pages),
		transcripts: slices.Clone(h.transcripts), connections: slices.Clone(h.connections),
		changes: slices.Clone(h.changes), looks: slices.Clone(h.looks),
	}
}

package parley

import (
	"errors"
	"maps"
)

// Reason classes a refusal. Doors translate it (HTTP status, JSON-RPC code);
// nothing else does.
type Reason uint8

const (
	Internal Reason = iota
	Invalid
	Unprocessable
	Unauthenticated
	BadToken
	Forbidden
	BadSignature
	NotFound
	Conflict
	Gone
	RateLimited
	Unavailable
)

// Refusal is an answer of "no" with a stable code and a sentence for a person.
// Refusals are package variables beside the rule that raises them; With adds
// the facts of one case.
type Refusal struct {
	Reason Reason
	// Code is a stable snake_case word.
	Code string
	// Text is one sentence for a person.
	Text string
	// Extra are facts sent beside the sentence, such as current_status.
	Extra map[string]any
	// OfOne: a bound of one caller, agent or list was met. It says nothing of how
	// busy the server is.
	OfOne bool
}

// Refuse declares a refusal.
func Refuse(reason Reason, code, text string) *Refusal {
	return &Refusal{Reason: reason, Code: code, Text: text}
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Text }

// Is matches by reason and code, so that a refusal with extras, or one decoded
// from another node, is still the one it was declared as.
func (r *Refusal) Is(target error) bool {
	other := (*Refusal)(nil)
	return errors.As(target, &other) && other.Reason == r.Reason && other.Code == r.Code
}

// With is the refusal with one more fact.
func (r *Refusal) With(key string, value any) *Refusal {
	c := *r
	c.Extra = maps.Clone(r.Extra)
	if c.Extra == nil {
		c.Extra = map[string]any{}
	}
	c.Extra[key] = value
	return &c
}

// Saying is the refusal with another sentence.
func (r *Refusal) Saying(text string) *Refusal {
	c := *r
	c.Text = text
	return &c
}

// ForOne is the refusal where a bound of one caller, agent or list is met.
func (r *Refusal) ForOne() *Refusal {
	c := *r
	c.OfOne = true
	return &c
}

// OverQuota is the refusal with what every quota_exceeded tells: which quota, its
// limit, what is used of it, and when it resets; nil where nothing resets.
func (r *Refusal) OverQuota(quota string, limit, used int, resets any) *Refusal {
	return r.With("quota", quota).With("limit", limit).With("used", used).With("resets_at", resets)
}

// IsRefusal reports whether an error is a Refusal, which may be told to the caller.
// Any other error is a defect of the server.
func IsRefusal(err error) bool {
	refusal := (*Refusal)(nil)
	return errors.As(err, &refusal)
}

// Refusals that more than one package raises.
var (
	// ErrOverloaded means that nothing happened; it is safe to try again later.
	ErrOverloaded = Refuse(Unavailable, "overloaded", "The server is at capacity; nothing was done. Try again shortly.")
	// ErrOutcomeUnknown means that the request may or may not have happened.
	ErrOutcomeUnknown = Refuse(Unavailable, "outcome_unknown", "The outcome is unknown. Repeat the request with the same Idempotency-Key.")
	ErrNotFound       = Refuse(NotFound, "not_found", "There is no such resource.")
	ErrGone           = Refuse(Gone, "gone", "The resource has been permanently removed.")
	ErrNotOwner       = Refuse(Forbidden, "not_owner", "Your organization has no part in this resource.")
	// ErrIsolatedAgent keeps what is said in an isolated group among its members.
	// spec: Join request and membership
	ErrIsolatedAgent = Refuse(Forbidden, "isolated_agent", "Sender and recipient may not talk: one of them is confined to a group that the other is not in.")
	// ErrInternal is what a caller is told of a defect.
	ErrInternal = Refuse(Internal, "internal", "Internal error.")
)

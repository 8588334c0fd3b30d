// Package egress sends signed POSTs to targets that strangers chose, without
// letting them choose what this process reaches: every address is judged at
// the moment it is dialled, redirects and proxies do not exist, and an answer
// is read in bounded time and size and thrown away.
//
// It knows neither jobs nor schedules. A post goes in, a result comes out by
// callback; when it is tried again, and how often, is decided elsewhere. What
// it does promise is that one target delays no other: each has a queue, a limit
// and a circuit of its own, and all that hang together hold only a share of
// what flies. A post that waits is a few words in a queue, not a goroutine.
package egress

import "parley"

// Refusals of this package.
var (
	// ErrTarget is a text that names no target a webhook may have.
	// docs: webhooks.md
	ErrTarget = parley.Refuse(parley.Unprocessable, "validation_error", "The url must be an https URL without user information and fragment.").
			With("loc", []any{"body", "url"})
	// ErrBlocked is a target whose address is not public. It names no address:
	// what a name resolves to inside this network is nobody's business.
	// spec: Errors
	ErrBlocked = parley.Refuse(parley.Unprocessable, "ssrf_blocked", "The url points to a private or reserved address.").
			With("loc", []any{"body", "url"})
)

// Allow widens what a target may be, for development and tests. The zero value
// allows public https targets and nothing else.
type Allow struct {
	// PlainHTTP admits http beside https.
	PlainHTTP bool
	// Loopback admits 127.0.0.0/8, ::1 and the name localhost. Every other
	// address that is not public stays closed.
	Loopback bool
}

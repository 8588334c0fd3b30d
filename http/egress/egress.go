// Package egress sends signed POSTs to targets that customers choose, without letting
// them choose what this process reaches. Every address is checked when it is dialled,
// redirects and proxies are not supported, and an answer is read within bounds of time
// and size and discarded.
//
// It knows neither jobs nor schedules: a post goes in, a result comes out by callback,
// and the caller decides about retries. It guarantees that one target does not delay
// another: each has its own queue, limit and circuit breaker, and slow targets get only a
// share of the posts in flight. A waiting post is an entry in a queue, not a goroutine.
package egress

import "parley/client/parley"

// Refusals of this package.
var (
	// ErrTarget rejects a text that is not a valid target of a webhook.
	// // docs: webhooks.md
	ErrTarget = parley.Refuse(parley.Unprocessable, "validation_error", "The url must be an https URL without user information and fragment.").
			With("loc", []any{"body", "url"})
	// ErrBlocked rejects a target whose address is not public. It contains no address, so
	// that it does not reveal what a name resolves to inside this network. // spec: Errors
	ErrBlocked = parley.Refuse(parley.Unprocessable, "ssrf_blocked", "The url points to a private or reserved address.").
			With("loc", []any{"body", "url"})
)

// Allow relaxes the rules for targets, for development and tests. The zero value allows
// only public https targets.
type Allow struct {
	// PlainHTTP also allows http.
	PlainHTTP bool
	// Loopback allows 127.0.0.0/8, ::1 and the name localhost. All other non-public
	// addresses stay blocked.
	Loopback bool
}

package http

import (
	"parley"
	"parley/actors"
	"parley/actors/record"
	"parley/http/httpserver"
	"parley/http/rest"
)

const replayedHeader = "Idempotency-Replayed"

// notePosted keeps the message that a call has stored for the observer of the server, and
// tells the caller if it had been stored before. // docs: delivery.md
func notePosted(c *rest.Call, p actors.Posted) {
	if p.Repeated {
		c.SetHeader(replayedHeader, "true")
	}
	c.Note(p.Message)
}

// Posted is the message that a send or a reply has stored: for one to a group the
// broadcast, not a copy. repeated: an earlier request with the same key did. It is asked
// for while the server's Observe runs.
func Posted(a *httpserver.Answer) (id parley.MessageID, repeated, posted bool) {
	p, posted := a.Noted().(*record.Message)
	if !posted {
		return id, false, false
	}
	if id = p.MessageID(); p.Copied() {
		id = id.Broadcast()
	}
	return id, a.Header(replayedHeader) != "", true
}

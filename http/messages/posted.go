package messages

import (
	"parley/actors"
	"parley/actors/record"
	"parley/client/parley"
	"parley/http/httpserver"
	"parley/http/rest"
)

// notePosted keeps the message that a call has stored for the server's Observe function,
// and marks the answer if the message had been stored before. // docs: delivery.md
func notePosted(c *rest.Call, p actors.Posted) {
	if p.Repeated {
		c.SetHeader(rest.ReplayedHeader, "true")
	}
	c.Note(p.Message)
}

// Posted returns the message that a send or a reply has stored; for a send to a group
// this is the broadcast, not a copy. repeated reports that an earlier request with the
// same key stored it. Posted may be called only while the server's Observe runs.
func Posted(a *httpserver.Answer) (id parley.MessageID, repeated, posted bool) {
	p, posted := a.Noted().(*record.Message)
	if !posted {
		return id, false, false
	}
	if id = p.MessageID(); p.Copied() {
		id = id.Broadcast()
	}
	return id, a.Header(rest.ReplayedHeader) != "", true
}

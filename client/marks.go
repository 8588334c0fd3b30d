package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// ReadMessage marks a message as read, for the organization that owns its
// recipient, and returns it.
func (c *Client) ReadMessage(ctx context.Context, id parley.MessageID) (*api.Message, error) {
	return fetch[api.Message](ctx, c, call{method: http.MethodPost, path: "/messages/" + id.String() + "/read", repeatable: true})
}

// Ack marks messages that the agent in.ID received as read: those of in.IDs, or
// all up to in.UpTo.
func (c *Client) Ack(ctx context.Context, in api.Ack) (*api.Acked, error) {
	return fetch[api.Acked](ctx, c, call{method: http.MethodPost, path: "/agents/" + in.ID.String() + "/messages/ack", in: in, repeatable: true})
}

// waitTimeoutDefault is how long the server waits by default.
const waitTimeoutDefault = 30 * time.Second

// Wait returns messages to the agent in.ID, oldest first, as soon as there are any, or
// none after in.TimeoutMS. To continue, pass the After of the answer.
func (c *Client) Wait(ctx context.Context, in api.Wait) (*api.Waited, error) {
	k := get("/agents/" + in.ID.String() + "/wait")
	k.query = url.Values{}
	if in.After != nil {
		k.query.Set("after", in.After.String())
	}
	wait := waitTimeoutDefault
	if in.TimeoutMS != 0 {
		wait = time.Duration(in.TimeoutMS) * time.Millisecond
		k.query.Set("timeout_ms", strconv.Itoa(in.TimeoutMS))
	}
	k.timeout = wait + c.timeout
	return fetch[api.Waited](ctx, c, k)
}

// Trace returns the attempts to deliver a message, and why it is not delivered yet.
func (c *Client) Trace(ctx context.Context, id parley.MessageID) (*api.Traced, error) {
	return fetch[api.Traced](ctx, c, get("/messages/"+id.String()+"/trace"))
}

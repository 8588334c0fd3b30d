package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"parley/bench/target"
	"parley/bench/wire"
)

// courier sends one message at a time to a worker, given by its number, waits for the
// acknowledgement and checks it.
type courier interface {
	deliver(to int, key Key) error
	Close() error
}

// courier connects the client with the number worker of the current run.
func (h *Host) courier(ctx context.Context, worker int) (courier, error) {
	if h.endpoint.Kind == target.NATS {
		conn, err := dialNATS(h.endpoint.Address)
		if err != nil {
			return nil, err
		}
		return &natsCourier{natsConn: conn, payloads: h.payloads, payload: make([]byte, h.payloads.length())}, nil
	}
	c, err := h.caller(ctx)
	if err != nil {
		return nil, err
	}
	return h.postCourier(c, worker), nil
}

// postCourier returns a courier that renders the messages of a worker and checks the
// answers.
func (h *Host) postCourier(c *caller, worker int) *postCourier {
	post := &postCourier{caller: c, agents: h.params.Agents}
	if h.world == nil {
		post.token, post.kind = h.endpoint.Token, "svc.v1.task_request"
		post.from, post.domain = "planner-3@globex.example.org", "@acme.example.org"
		return post
	}
	post.token, post.kind = h.world.globex.token, h.world.messageType("task_request")
	post.from = h.world.planners[worker%len(h.world.planners)].handle
	_, domain, _ := bytes.Cut([]byte(h.world.workers[0].handle), []byte("@"))
	post.domain, post.workers = "@"+string(domain), h.world.workers
	return post
}

// caller is one connection to an HTTP target, with the answers it received.
type caller struct {
	conn     *wire.HTTP
	answers  answers
	book     *book
	payloads *payloads
}

func (h *Host) caller(ctx context.Context) (*caller, error) {
	conn, err := wire.DialHTTP(ctx, h.endpoint.Address)
	if err != nil {
		return nil, err
	}
	return &caller{conn: conn, book: h.acknowledged.begin(), payloads: h.payloads}, nil
}

func (c *caller) Close() error { return c.conn.Close() }

// post sends a request that stores the message of key in a mailbox, and checks the
// answer. The returned message points into the connection's buffer.
func (c *caller) post(request []byte, key Key, box uint32) (message, error) {
	answer, err := c.conn.Do(request)
	if err != nil {
		if !errors.Is(err, wire.ErrClosing) { // which means that nothing was sent
			c.book.lost(key)
		}
		return message{}, err
	}
	return c.told(answer, key, box)
}

// told checks the answer to a request that stores the message of key in a mailbox.
func (c *caller) told(answer wire.Answer, key Key, box uint32) (message, error) {
	if answer.Status != 201 {
		err, known := refusal(answer)
		if !known {
			c.book.lost(key)
		}
		return message{}, err
	}
	m, err := c.answers.readMessage(answer.Body)
	if err != nil {
		c.book.lost(key)
		return message{}, err
	}
	c.book.acknowledged(m.id, key, box)
	if got, sound := c.payloads.read(m.payload); !sound || got != key {
		return message{}, wrong("another payload than the one sent")
	}
	return m, nil
}

// postCourier sends by POST /messages.
type postCourier struct {
	*caller
	token, from, kind, domain string
	agents                    int
	// workers are the agents on Parley; nil for a plain peer.
	workers []*agent
	// ready holds prepared requests by the number of digits of the recipient.
	ready [8]*sendRequest
}

// sendRequest is a request whose recipient and payload are overwritten in place.
type sendRequest struct {
	bytes           []byte
	digits, payload int
}

func (c *postCourier) deliver(to int, key Key) error {
	request := c.request(to, key)
	if c.workers == nil {
		_, err := c.post(request, key, uint32(to))
		return err
	}
	return c.judged(request, to, key)
}

// request renders the message of key to a worker. The result is valid until the next
// call.
func (c *postCourier) request(to int, key Key) []byte {
	var digits [8]byte
	number := strconv.AppendInt(digits[:0], int64(to), 10)
	r := c.ready[len(number)]
	if r == nil {
		r = c.compose(number, key)
		c.ready[len(number)] = r
	}
	copy(r.bytes[r.digits:], number)
	c.payloads.write(r.bytes[r.payload:], key)
	return r.bytes
}

// judged posts to Parley and also checks the recipient in the answer.
func (c *postCourier) judged(request []byte, to int, key Key) error {
	recipient := c.workers[to]
	m, err := c.post(request, key, recipient.box)
	if err != nil {
		return err
	}
	if string(m.recipientHandle) != recipient.handle {
		return wrong("another recipient than the one asked for")
	}
	return nil
}

// compose builds the request for recipients with as many digits as number.
func (c *postCourier) compose(number []byte, key Key) *sendRequest {
	payload := make([]byte, c.payloads.length())
	c.payloads.write(payload, key)
	body := fmt.Appendf(nil, `{"to_handle":"worker-%s%s","from_handle":"%s",`, number, c.domain, c.from)
	body = appendContent(body, c.kind, payload)
	r := &sendRequest{bytes: wire.Request("POST", "/messages", c.token, nil, body)}
	r.digits = bytes.Index(r.bytes, []byte(`"to_handle":"worker-`)) + len(`"to_handle":"worker-`)
	r.payload = bytes.Index(r.bytes, payload)
	return r
}

// appendContent ends a body with the members that all messages of the bench have.
func appendContent(body []byte, kind string, payload []byte) []byte {
	return fmt.Appendf(body, `"type":"%s","encrypted_payload":"%s","encryption_version":"hpke-v1",`+
		`"metadata":{"trace":"0af7651916cd43dd8448eb211c80319c","priority":5,"tags":["a","b","c"]},"content_type":"application/json"}`, kind, payload)
}

// newSendRequest builds the request for a message of one agent to another.
func newSendRequest(h *Host, path string, from, to *agent) *sendRequest {
	payload := make([]byte, h.payloads.length())
	h.payloads.write(payload, Key{})
	body := []byte(`{"to_handle":"` + to.handle + `","from_handle":"` + from.handle + `",`)
	body = appendContent(body, h.world.messageType("task_request"), payload)
	r := &sendRequest{bytes: wire.Request("POST", path, from.org.token, nil, body)}
	r.payload = bytes.Index(r.bytes, payload)
	return r
}

// replyRequest is POST /messages/{id}/reply, with the id and the payload overwritten in
// place.
type replyRequest struct {
	bytes       []byte
	id, payload int
}

func newReplyRequest(h *Host, token string) *replyRequest {
	placeholder := strings.Repeat("0", 36)
	payload := make([]byte, h.payloads.length())
	h.payloads.write(payload, Key{})
	body := appendContent([]byte("{"), h.world.messageType("task_response"), payload)
	r := &replyRequest{bytes: wire.Request("POST", "/messages/"+placeholder+"/reply", token, nil, body)}
	r.id = bytes.Index(r.bytes, []byte(placeholder))
	r.payload = bytes.Index(r.bytes, payload)
	return r
}

// reply replies to the message original with the message of key, which goes to the
// mailbox of to.
func (c *caller) reply(r *replyRequest, original uuid, key Key, to *agent) (message, error) {
	original.put(r.bytes[r.id:])
	c.payloads.write(r.bytes[r.payload:], key)
	m, err := c.post(r.bytes, key, to.box)
	if err != nil {
		return m, err
	}
	if string(m.recipientHandle) != to.handle {
		return m, wrong("another recipient than the one asked for")
	}
	return m, nil
}

package host

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

// Sender sends one message at a time to a worker, given by its number, waits for the
// acknowledgement and checks it.
type Sender interface {
	Send(to int, key Key) error
	Close() error
}

// Sender connects the client with the number worker of the current run.
func (h *Host) Sender(ctx context.Context, worker int) (Sender, error) {
	if h.endpoint.Kind == target.NATS {
		conn, err := DialNATS(h.endpoint.Address)
		if err != nil {
			return nil, err
		}
		return &natsSender{NATSConn: conn, payloads: h.Payloads, payload: make([]byte, h.Payloads.Size)}, nil
	}
	c, err := h.Caller(ctx)
	if err != nil {
		return nil, err
	}
	return h.HTTPSender(c, worker), nil
}

// HTTPSender returns a sender that renders the messages of a worker and checks the
// answers.
func (h *Host) HTTPSender(c *Caller, worker int) *HTTPSender {
	post := &HTTPSender{Caller: c, Agents: h.Params.Agents}
	if h.Deployment == nil {
		post.token, post.kind = h.endpoint.Token, "svc.v1.task_request"
		post.from, post.domain = "planner-3@globex.example.org", "@acme.example.org"
		return post
	}
	post.token, post.kind = h.Deployment.SendingOrg.Token, h.Deployment.MessageType("task_request")
	post.from = h.Deployment.Senders[worker%len(h.Deployment.Senders)].Handle
	_, domain, _ := bytes.Cut([]byte(h.Deployment.Recipients[0].Handle), []byte("@"))
	post.domain, post.Workers = "@"+string(domain), h.Deployment.Recipients
	return post
}

// Caller is one connection to an HTTP target, with the answers it received.
type Caller struct {
	Conn     *wire.HTTP
	answers  answers
	Log      *ClientLog
	Payloads *Payloads
}

func (h *Host) Caller(ctx context.Context) (*Caller, error) {
	conn, err := wire.DialHTTP(ctx, h.endpoint.Address)
	if err != nil {
		return nil, err
	}
	return &Caller{Conn: conn, Log: h.Log.Begin(), Payloads: h.Payloads}, nil
}

func (c *Caller) Close() error { return c.Conn.Close() }

// Ended makes load.Run dial again after an answer that announced the end of the connection.
func (c *Caller) Ended() bool { return c.Conn.Ended() }

// Post sends a request that stores the message of key in a mailbox, and checks the
// answer. The returned message points into the connection's buffer.
func (c *Caller) Post(request []byte, key Key, box uint32) (Message, error) {
	answer, err := c.Exchange(request, key)
	if err != nil {
		return Message{}, err
	}
	return c.Accept(answer, key, box)
}

// Exchange sends a request that stores the message of key, and returns the answer.
func (c *Caller) Exchange(request []byte, key Key) (wire.Answer, error) {
	answer, err := c.Conn.Do(request)
	if err != nil && !errors.Is(err, wire.ErrClosing) { // which means that nothing was sent
		c.Log.Lost(key)
	}
	return answer, err
}

// Accept checks the answer to a request that stores the message of key in a mailbox.
func (c *Caller) Accept(answer wire.Answer, key Key, box uint32) (Message, error) {
	if answer.Status != 201 {
		err, known := Refusal(answer)
		if !known {
			c.Log.Lost(key)
		}
		return Message{}, err
	}
	m, err := c.answers.readMessage(answer.Body)
	if err != nil {
		c.Log.Lost(key)
		return Message{}, err
	}
	c.Log.Acknowledged(m.ID, key, box)
	if got, sound := c.Payloads.Read(m.Payload); !sound || got != key {
		return Message{}, Wrong("another payload than the one sent")
	}
	return m, nil
}

// HTTPSender sends by POST /messages.
type HTTPSender struct {
	*Caller
	token, from, kind, domain string
	Agents                    int
	// Workers are the agents on Parley; nil for a plain peer.
	Workers []*Agent
	// ready holds prepared requests by the number of digits of the recipient.
	ready [8]*SendRequest
}

// SendRequest is a request whose recipient and payload are overwritten in place.
type SendRequest struct {
	Bytes           []byte
	digits, Payload int
}

func (c *HTTPSender) Send(to int, key Key) error {
	request := c.Request(to, key)
	if c.Workers == nil {
		_, err := c.Post(request, key, uint32(to))
		return err
	}
	answer, err := c.Exchange(request, key)
	if err != nil {
		return err
	}
	return c.Verify(answer, to, key)
}

// Request renders the message of key to a worker. The result is valid until the next
// call.
func (c *HTTPSender) Request(to int, key Key) []byte {
	var digits [8]byte
	number := strconv.AppendInt(digits[:0], int64(to), 10)
	r := c.ready[len(number)]
	if r == nil {
		r = c.compose(number, key)
		c.ready[len(number)] = r
	}
	copy(r.Bytes[r.digits:], number)
	c.Payloads.Write(r.Bytes[r.Payload:], key)
	return r.Bytes
}

// Verify checks the answer to the message of key to a worker.
func (c *HTTPSender) Verify(answer wire.Answer, to int, key Key) error {
	recipient := c.Workers[to]
	m, err := c.Accept(answer, key, recipient.Mailbox)
	if err != nil {
		return err
	}
	if string(m.RecipientHandle) != recipient.Handle {
		return Wrong("another recipient than the one asked for")
	}
	return nil
}

// compose builds the request for recipients with as many digits as number.
func (c *HTTPSender) compose(number []byte, key Key) *SendRequest {
	payload := make([]byte, c.Payloads.Size)
	c.Payloads.Write(payload, key)
	body := fmt.Appendf(nil, `{"to_handle":"worker-%s%s","from_handle":"%s",`, number, c.domain, c.from)
	body = AppendContent(body, c.kind, payload)
	r := &SendRequest{Bytes: wire.Request("POST", "/messages", c.token, nil, body)}
	r.digits = bytes.Index(r.Bytes, []byte(`"to_handle":"worker-`)) + len(`"to_handle":"worker-`)
	r.Payload = bytes.Index(r.Bytes, payload)
	return r
}

// AppendContent ends a body with the members that all messages of the bench have.
func AppendContent(body []byte, kind string, payload []byte) []byte {
	return fmt.Appendf(body, `"type":"%s","encrypted_payload":"%s","encryption_version":"hpke-v1",`+
		`"metadata":{"trace":"0af7651916cd43dd8448eb211c80319c","priority":5,"tags":["a","b","c"]},"content_type":"application/json"}`, kind, payload)
}

// NewSendRequest builds the request for a message of one agent to another.
func NewSendRequest(h *Host, path string, from, to *Agent) *SendRequest {
	payload := make([]byte, h.Payloads.Size)
	h.Payloads.Write(payload, Key{})
	body := []byte(`{"to_handle":"` + to.Handle + `","from_handle":"` + from.Handle + `",`)
	body = AppendContent(body, h.Deployment.MessageType("task_request"), payload)
	r := &SendRequest{Bytes: wire.Request("POST", path, from.Org.Token, nil, body)}
	r.Payload = bytes.Index(r.Bytes, payload)
	return r
}

// ReplyRequest is POST /messages/{id}/reply, with the id and the payload overwritten in
// place.
type ReplyRequest struct {
	bytes       []byte
	id, payload int
}

func NewReplyRequest(h *Host, token string) *ReplyRequest {
	placeholder := strings.Repeat("0", 36)
	payload := make([]byte, h.Payloads.Size)
	h.Payloads.Write(payload, Key{})
	body := AppendContent([]byte("{"), h.Deployment.MessageType("task_response"), payload)
	r := &ReplyRequest{bytes: wire.Request("POST", "/messages/"+placeholder+"/reply", token, nil, body)}
	r.id = bytes.Index(r.bytes, []byte(placeholder))
	r.payload = bytes.Index(r.bytes, payload)
	return r
}

// Reply replies to the message original with the message of key, which goes to the
// mailbox of to.
func (c *Caller) Reply(r *ReplyRequest, original UUID, key Key, to *Agent) (Message, error) {
	_, _ = original.AppendText(r.bytes[r.id:r.id])
	c.Payloads.Write(r.bytes[r.payload:], key)
	m, err := c.Post(r.bytes, key, to.Mailbox)
	if err != nil {
		return m, err
	}
	if string(m.RecipientHandle) != to.Handle {
		return m, Wrong("another recipient than the one asked for")
	}
	return m, nil
}

// AnySender sends messages from any agent to any other on one connection.
type AnySender struct {
	*Caller
	Key                    Key
	kind                   string
	payload, body, request []byte
}

// AnySender returns a sender on a connection, with the first key of its messages.
func (h *Host) AnySender(c *Caller, key Key) AnySender {
	return AnySender{Caller: c, Key: key, kind: h.Deployment.MessageType("task_request"), payload: make([]byte, h.Payloads.Size)}
}

// Send sends the message of Key and checks the answer.
func (s *AnySender) Send(from, to *Agent) error {
	s.Payloads.Write(s.payload, s.Key)
	s.body = fmt.Appendf(s.body[:0], `{"to_handle":"%s","from_handle":"%s",`, to.Handle, from.Handle)
	s.body = AppendContent(s.body, s.kind, s.payload)
	s.request = wire.AppendRequest(s.request[:0], "POST", "/messages", from.Org.Token, nil, s.body)
	m, err := s.Post(s.request, s.Key, to.Mailbox)
	if err == nil && string(m.RecipientHandle) != to.Handle {
		err = Wrong("another recipient than the one asked for")
	}
	return err
}

package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	return h.WorkerSender(c, worker), nil
}

// WorkerSender sends to the workers by HTTP.
type WorkerSender struct {
	*Caller
	From    *Agent
	Workers []*Agent
}

// WorkerSender returns a sender for the client with the number worker.
func (h *Host) WorkerSender(c *Caller, worker int) *WorkerSender {
	from := &Agent{Handle: "planner-3@globex.example.org"}
	if h.Deployment != nil {
		from = h.Deployment.Senders[worker%len(h.Deployment.Senders)]
	} else {
		from.Org = h.peerWorkers[0].Org
	}
	return &WorkerSender{c, from, h.Workers()}
}

// Workers returns the recipients.
func (h *Host) Workers() []*Agent {
	if h.Deployment != nil {
		return h.Deployment.Recipients
	}
	return h.peerWorkers
}

// newPeerWorkers returns the recipients on a peer that speaks HTTP: it has no agents, and takes the
// number of an inbox from the handle.
func newPeerWorkers(token string, count int) []*Agent {
	org, all := &Org{Token: token}, make([]*Agent, count)
	for i := range all {
		all[i] = &Agent{Org: org, Handle: fmt.Sprintf("worker-%d@acme.example.org", i), Mailbox: uint32(i)}
	}
	return all
}

// Send implements Sender.
func (s *WorkerSender) Send(to int, key Key) error {
	_, err := s.Caller.Send(s.From, s.Workers[to], key)
	return err
}

// Caller is one connection to an HTTP target, with the answers it received.
type Caller struct {
	Conn     *wire.HTTP
	answers  answers
	Log      *ClientLog
	Payloads *Payloads
	// brand begins the types of messages.
	brand string
	// isParley says that messages are between agents: peers have only numbered inboxes.
	isParley      bool
	body, request []byte
}

// Caller connects a client whose messages are read back.
func (h *Host) Caller(ctx context.Context) (*Caller, error) { return h.CallerInto(ctx, &h.Log) }

// CallerInto connects a client whose messages are recorded in another log.
func (h *Host) CallerInto(ctx context.Context, log *Log) (*Caller, error) {
	conn, err := wire.DialHTTP(ctx, h.endpoint.Address)
	if err != nil {
		return nil, err
	}
	c := &Caller{Conn: conn, Log: log.Begin(), Payloads: h.Payloads, brand: "svc"}
	if h.Deployment != nil {
		c.brand, c.isParley = h.Deployment.Brand, true
	}
	return c, nil
}

func (c *Caller) Close() error { return c.Conn.Close() }

// Ended makes load.Run dial again after an answer that announced the end of the connection.
func (c *Caller) Ended() bool { return c.Conn.Ended() }

// Send sends the message of key from one agent to another and checks the answer. The returned
// message points into the connection's buffer.
func (c *Caller) Send(from, to *Agent, key Key) (Message, error) {
	answer, err := c.Exchange(c.Request("/messages", from, to, key), key)
	if err != nil {
		return Message{}, err
	}
	return c.Accept(answer, key, to)
}

// Reply replies for an organization to the message original, with the message of key to the agent
// that sent the original.
func (c *Caller) Reply(of *Org, original UUID, key Key, to *Agent) (Message, error) {
	c.body = append(c.body[:0], '{')
	answer, err := c.Exchange(c.compose("/messages/"+original.String()+"/reply", of, "task_response", key), key)
	if err != nil {
		return Message{}, err
	}
	return c.Accept(answer, key, to)
}

// Request returns the request for the message of key from one agent to another. It is valid until
// the next one.
func (c *Caller) Request(path string, from, to *Agent, key Key) []byte {
	c.body = append(append(c.body[:0], `{"to_handle":"`...), to.Handle...)
	c.body = append(append(append(c.body, `","from_handle":"`...), from.Handle...), `",`...)
	return c.compose(path, from.Org, "task_request", key)
}

// compose ends the body with the members that all messages of the bench have, and returns the
// request.
func (c *Caller) compose(path string, of *Org, kind string, key Key) []byte {
	c.body = append(append(append(c.body, `"type":"`...), c.brand...), ".v1."...)
	c.body = append(append(c.body, kind...), `","encrypted_payload":"`...)
	at := len(c.body)
	c.body = slices.Grow(c.body, c.Payloads.Size)[:at+c.Payloads.Size]
	c.Payloads.Write(c.body[at:], key)
	c.body = append(c.body, `","encryption_version":"hpke-v1",`+
		`"metadata":{"trace":"0af7651916cd43dd8448eb211c80319c","priority":5,"tags":["a","b","c"]},"content_type":"application/json"}`...)
	c.request = wire.AppendRequest(c.request[:0], "POST", path, of.Token, nil, c.body)
	return c.request
}

// Exchange sends a request that stores the message of key, and returns the answer.
func (c *Caller) Exchange(request []byte, key Key) (wire.Answer, error) {
	answer, err := c.Conn.Do(request)
	if err != nil && !errors.Is(err, wire.ErrClosing) { // which means that nothing was sent
		c.Log.Lost(key)
	}
	return answer, err
}

// Accept checks the answer to a request that stores the message of key in an agent's mailbox.
func (c *Caller) Accept(answer wire.Answer, key Key, to *Agent) (Message, error) {
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
	c.Log.Acknowledged(m.ID, key, to.Mailbox)
	if got, sound := c.Payloads.Read(m.Payload); !sound || got != key {
		return m, Wrong("another payload than the one sent")
	}
	if c.isParley && string(m.RecipientHandle) != to.Handle {
		return m, Wrong("another recipient than the one asked for")
	}
	return m, nil
}

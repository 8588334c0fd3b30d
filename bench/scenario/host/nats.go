package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"parley/bench/load"
	"parley/bench/wire"
)

// natsStream and natsSubject are the stream and the subject prefix of the inboxes in
// NATS.
const (
	natsStream  = "INBOX"
	natsSubject = "inbox."
)

// NATSConn is one connection to NATS. A connection that breaks is not made again: the load
// dials a new one.
type NATSConn struct {
	conn   *nats.Conn
	stream jetstream.JetStream
	// pages receives the pages, which are sent to inbox.
	pages *nats.Subscription
	inbox string
}

func DialNATS(address string) (*NATSConn, error) {
	conn, err := nats.Connect("nats://"+address, nats.Timeout(wire.Patience), nats.NoReconnect())
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", address, err)
	}
	c := &NATSConn{conn: conn, inbox: conn.NewInbox()}
	c.stream, err = jetstream.New(conn, jetstream.WithDefaultTimeout(wire.Patience))
	if err == nil {
		c.pages, err = conn.SubscribeSync(c.inbox)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the connection.
func (c *NATSConn) Close() error {
	c.conn.Close()
	return nil
}

// natsSender publishes to a subject of the stream and waits for the acknowledgement.
type natsSender struct {
	*NATSConn
	payloads *Payloads
	payload  []byte
}

func (c *natsSender) Send(to int, key Key) error {
	c.payloads.Write(c.payload, key)
	stored, err := c.stream.Publish(context.Background(), natsSubject+strconv.Itoa(to), c.payload)
	if err == nil && (stored.Sequence == 0 || stored.Duplicate) {
		err = errors.New("wrong answer: JetStream acknowledges a message that it did not store")
	}
	return err
}

// NATSReader is the client of Inbox for NATS. It reads in the cheapest way that
// JetStream offers, so that the peer is measured at its best: a direct get of one batch.
type NATSReader struct {
	*NATSConn
	Choice *rand.Rand
	Agents int
}

// Do implements load.Client.
func (r *NATSReader) Do(context.Context, int, *load.Parts) error {
	n, err := r.page(natsSubject + strconv.Itoa(r.Choice.IntN(r.Agents)))
	if err == nil && n != PageSize {
		err = Wrong("a page of " + strconv.Itoa(n) + " instead of 20 messages")
	}
	return err
}

// page reads the oldest messages of a subject, one page at most, and counts them.
func (c *NATSConn) page(subject string) (n int, err error) {
	request := fmt.Appendf(nil, `{"seq":1,"next_by_subj":%q,"batch":%d}`, subject, PageSize)
	if err := c.conn.PublishRequest("$JS.API.DIRECT.GET."+natsStream, c.inbox, request); err != nil {
		return 0, err
	}
	for {
		m, err := c.pages.NextMsg(wire.Patience)
		if err != nil {
			return n, err
		}
		switch status := m.Header.Get("Status"); {
		case status == "204" || status == "404": // the end of the batch, or nothing for it
			return n, nil
		case status != "":
			return n, fmt.Errorf("JetStream refuses a direct get: %s %s", status, m.Header.Get("Description"))
		case m.Header.Get("Nats-Subject") != subject:
			return n, errors.New("wrong answer: a page with a message of another inbox")
		}
		n++
	}
}

package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// subscription is the number of a connection's only subscription: to the subjects of its
// replies.
const subscription = "1"

// NATS is one connection that speaks the text protocol of NATS, used by one goroutine at
// a time. After a connection error it stays broken; after a *JetStreamError it is still
// usable.
//
// Each request names its own reply subject, so that the answer to an earlier request is
// never taken for its answer.
type NATS struct {
	conn     net.Conn
	reader   reader
	patience time.Duration
	// inbox is the common prefix of this connection's reply subjects, questions the
	// number of requests so far, and reply the subject of the last request.
	inbox     string
	questions int64
	reply     []byte
	// out and message are reused for each request.
	out     []byte
	message delivery
	broken  error
}

// JetStreamError is an error answer of JetStream.
type JetStreamError struct {
	// Code is the status, such as 503 if a subject has no subscriber.
	Code        int    `json:"code"`
	Description string `json:"description"`
}

func (e *JetStreamError) Error() string {
	return fmt.Sprintf("wire: JetStream refuses: %d %s", e.Code, e.Description)
}

// DialNATS connects, introduces itself and waits for the first PONG.
func DialNATS(ctx context.Context, address string) (*NATS, error) {
	conn, err := dial(ctx, nil, address)
	if err != nil {
		return nil, err
	}
	c := &NATS{conn: conn, reader: reader{in: bufio.NewReaderSize(conn, 16<<10)}, patience: Patience}
	c.inbox = "_INBOX." + rand.Text() + "."
	abandon := context.AfterFunc(ctx, func() { conn.Close() })
	err = c.introduce()
	if !abandon() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, reading("connecting to NATS", err)
	}
	return c, nil
}

// introduce performs the handshake: the server sends first.
func (c *NATS) introduce() error {
	if err := c.conn.SetDeadline(time.Now().Add(c.patience)); err != nil {
		return err
	}
	line, err := c.reader.line(HeadBytesMax)
	if err != nil {
		return cutOff(err)
	}
	if !bytes.HasPrefix(line, []byte("INFO ")) {
		return malformed("NATS begins with INFO", line)
	}
	hello := `CONNECT {"verbose":false,"pedantic":false,"tls_required":false,"name":"parley-bench","lang":"go","version":"1.0.0","protocol":1,"headers":true,"no_responders":true}` +
		"\r\nSUB " + c.inbox + "* " + subscription + "\r\nPING\r\n"
	if _, err := c.conn.Write([]byte(hello)); err != nil {
		return err
	}
	for {
		line, err := c.reader.line(HeadBytesMax)
		if err != nil {
			return cutOff(err)
		}
		if string(line) == "PONG" {
			return nil
		}
		if err := c.control(line); err != nil {
			return err
		}
	}
}

// SetPatience sets the time limit of one Publish or Page.
func (c *NATS) SetPatience(d time.Duration) { c.patience = d }

// Publish sends payload to subject, waits for JetStream's acknowledgement and
// checks that it names a stream and a sequence number.
func (c *NATS) Publish(subject string, payload []byte) error {
	return c.whole(func() error {
		if err := c.ask(subject, payload); err != nil {
			return err
		}
		m, err := c.await()
		if err != nil {
			return err
		}
		if acknowledges(m.payload) {
			return nil
		}
		return refusal(m)
	})
}

// Page reads at most n messages of one subject, oldest first, as a client without an open
// consumer does: it creates an ephemeral consumer with that filter, fetches the available
// messages without waiting, and deletes the consumer. It returns the number of messages.
func (c *NATS) Page(stream, subject string, n int) (int, error) {
	came := 0
	err := c.whole(func() (err error) {
		consumer := "page-" + c.inbox[len("_INBOX."):len(c.inbox)-1] + "-" + strconv.FormatInt(c.questions, 10)
		create := fmt.Sprintf(`{"stream_name":%q,"config":{"name":%q,"filter_subject":%q,"deliver_policy":"all","ack_policy":"none","replay_policy":"instant","mem_storage":true,"inactive_threshold":5000000000}}`, stream, consumer, subject)
		if err := c.request("$JS.API.CONSUMER.CREATE."+stream+"."+consumer+"."+subject, create); err != nil {
			return err
		}
		fetch := fmt.Sprintf(`{"batch":%d,"no_wait":true}`, n)
		if err := c.ask("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer, []byte(fetch)); err != nil {
			return err
		}
		if came, err = c.fetched(consumer, subject, n); err != nil {
			return err
		}
		return c.request("$JS.API.CONSUMER.DELETE."+stream+"."+consumer, "")
	})
	return came, err
}

// fetched counts what a consumer delivers: n messages, or fewer if the last message says
// that none is left or a status ends the page.
func (c *NATS) fetched(consumer, subject string, n int) (int, error) {
	for came := 0; ; {
		m, err := c.receive()
		if err != nil {
			return came, err
		}
		if bytes.Equal(m.subject, c.reply) {
			if m.status == 404 || m.status == 408 {
				return came, nil
			}
			return came, refusal(m)
		}
		left, ours := pending(m.reply, consumer)
		if !ours {
			continue
		}
		if string(m.subject) != subject {
			return came, malformed("a page holds messages of its subject only", m.subject)
		}
		if came++; came == n || left == 0 {
			return came, nil
		}
	}
}

// DirectPage reads at most n messages of one subject, oldest first, with a direct get in
// one batch. It uses no consumer, so it is much cheaper than Page, but has no position to
// continue from. The stream must allow it.
func (c *NATS) DirectPage(stream, subject string, n int) (int, error) {
	came := 0
	err := c.whole(func() error {
		question := fmt.Sprintf(`{"seq":1,"next_by_subj":%q,"batch":%d}`, subject, n)
		if err := c.ask("$JS.API.DIRECT.GET."+stream, []byte(question)); err != nil {
			return err
		}
		for {
			m, err := c.await()
			switch {
			case err != nil:
				return err
			case m.status == 204, m.status == 404:
				return nil
			case m.status != 0:
				return refusal(m)
			}
			if came++; came > n {
				return malformed("a batch is no larger than asked for", m.payload)
			}
		}
	})
	return came, err
}

// pending parses the subject on which a delivery is acknowledged,
// $JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<delivery>.<time>.<pending>, and
// returns the last part. ours is false if it belongs to another consumer.
func pending(reply []byte, consumer string) (left int, ours bool) {
	if !bytes.HasPrefix(reply, []byte("$JS.ACK.")) {
		return 0, false
	}
	part := 0
	for token := range bytes.SplitSeq(reply, []byte{'.'}) {
		if part == 3 {
			ours = string(token) == consumer
		}
		if part == 8 {
			left, _ = decimal(token)
		}
		part++
	}
	return left, ours && part == 9
}

// request calls JetStream's API, whose answer holds an error or the result.
func (c *NATS) request(subject, body string) error {
	if err := c.ask(subject, []byte(body)); err != nil {
		return err
	}
	m, err := c.await()
	if err != nil {
		return err
	}
	if m.status == 0 && !bytes.Contains(m.payload, []byte(`"error":`)) {
		return nil
	}
	return refusal(m)
}

// whole runs one operation under one deadline and keeps the error that broke the
// connection.
func (c *NATS) whole(operation func() error) error {
	if c.broken != nil {
		return c.broken
	}
	err := c.conn.SetDeadline(time.Now().Add(c.patience))
	if err == nil {
		err = operation()
	}
	if err == nil {
		return nil
	}
	var refused *JetStreamError
	if !errors.As(err, &refused) {
		err = reading("speaking with NATS", err)
		c.broken = err
	}
	return err
}

// ask publishes a request with its own reply subject.
func (c *NATS) ask(subject string, payload []byte) error {
	c.questions++
	c.reply = strconv.AppendInt(append(c.reply[:0], c.inbox...), c.questions, 10)
	c.out = append(append(c.out[:0], "PUB "...), subject...)
	c.out = append(append(c.out, ' '), c.reply...)
	c.out = strconv.AppendInt(append(c.out, ' '), int64(len(payload)), 10)
	c.out = append(append(c.out, "\r\n"...), payload...)
	c.out = append(c.out, "\r\n"...)
	_, err := c.conn.Write(c.out)
	return err
}

// await skips answers to earlier requests.
func (c *NATS) await() (*delivery, error) {
	for {
		m, err := c.receive()
		if err != nil || bytes.Equal(m.subject, c.reply) {
			return m, err
		}
	}
}

// Close closes the connection. It may be called during an operation, which then fails.
func (c *NATS) Close() error { return c.conn.Close() }

// acknowledges recognizes {"stream":"INBOX","seq":17} without decoding it, because one of
// these is read for each measured message. Other answers, such as one for a duplicate, do
// not count as an acknowledgement.
func acknowledges(payload []byte) bool {
	rest, ok := bytes.CutPrefix(payload, []byte(`{"stream":"`))
	if !ok {
		return false
	}
	name, rest, ok := bytes.Cut(rest, []byte{'"'})
	if !ok || len(name) == 0 {
		return false
	}
	rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, ", "), []byte(`"seq":`))
	if !ok {
		return false
	}
	digits, ok := bytes.CutSuffix(rest, []byte{'}'})
	sequence, number := decimal(bytes.TrimSpace(digits))
	return ok && number && sequence > 0
}

// refusal returns the error for an unexpected answer.
func refusal(m *delivery) error {
	if m.status != 0 {
		return &JetStreamError{Code: m.status, Description: "on " + string(m.subject)}
	}
	var answer struct {
		Error *JetStreamError `json:"error"`
	}
	if err := json.Unmarshal(m.payload, &answer); err != nil || answer.Error == nil {
		return malformed("an answer of JetStream says what was done or why not", m.payload)
	}
	return answer.Error
}

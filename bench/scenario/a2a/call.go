package a2a

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/bench/load"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

// The states of a task that the bench expects.
const (
	TaskSubmitted = "TASK_STATE_SUBMITTED"
	TaskWorking   = "TASK_STATE_WORKING"
	TaskCompleted = "TASK_STATE_COMPLETED"
)

// partsHead and partsTail enclose the text of the only part of a message.
const (
	partsHead = `[{"text":"`
	partsTail = `"}]`
	// partsInline is how long parts may be to stand in the metadata of a message too.
	partsInline = 2 << 10
)

// taskRequest is SendMessage, with the message's id and text overwritten in place.
type taskRequest struct {
	bytes    []byte
	id, text int
}

// taskRequest builds the request that begins a task: with now it is answered at once, else
// after the reply.
func (a *Scenario) taskRequest(from, to *host.Agent, now bool) *taskRequest {
	h := a.host
	text := make([]byte, h.Payloads.Size)
	h.Payloads.Write(text, host.Key{})
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"%s","role":"ROLE_USER","parts":%s%s%s},"configuration":{"returnImmediately":%t}}}`,
		text[:host.KeyLength], partsHead, text, partsTail, now)
	r := &taskRequest{bytes: wire.Request("POST", "/a2a/"+to.Handle, from.Org.Token, a2aHeaders(h.Deployment, from), body)}
	r.id = bytes.Index(r.bytes, text[:host.KeyLength])
	r.text = bytes.Index(r.bytes, text)
	return r
}

// a2aHeaders are the headers of a call on behalf of an agent.
func a2aHeaders(w *host.Deployment, from *host.Agent) [][2]string {
	brand := w.Brand
	return [][2]string{{"X-" + strings.ToUpper(brand[:1]) + brand[1:] + "-Agent", from.ID.String()}, {"A2A-Version", "1.0"}, {"X-A2A-Timeout", "10"}}
}

// Write makes it the request for the message of key. Its id is the front of its text.
func (r *taskRequest) Write(p *host.Payloads, key host.Key) {
	p.Write(r.bytes[r.text:], key)
	copy(r.bytes[r.id:], r.bytes[r.text:r.text+host.KeyLength])
}

// partsReply is POST /messages/{id}/reply with the result of a task, with the id and the
// text overwritten in place.
type partsReply struct {
	bytes []byte
	// inline is where the text stands in the metadata, 0 if it is too long for that.
	id, payload, inline int
	parts               []byte
}

func (a *Scenario) partsReply(token string) *partsReply {
	h := a.host
	r := &partsReply{parts: partsOf(h.Payloads, host.Key{})}
	placeholder := strings.Repeat("0", 36)
	payload := base64.RawURLEncoding.EncodeToString(r.parts)
	metadata := `{"a2a":{"cleartext":true}}`
	if len(r.parts) <= partsInline {
		metadata = `{"a2a":{"cleartext":true,"parts":` + string(r.parts) + `}}`
	}
	body := fmt.Appendf(nil, `{"type":"%s","encrypted_payload":"%s","encryption_version":"hpke-v1","metadata":%s,"content_type":"application/json"}`,
		h.Deployment.MessageType("task_response"), payload, metadata)
	r.bytes = wire.Request("POST", "/messages/"+placeholder+"/reply", token, nil, body)
	r.id, r.payload = bytes.Index(r.bytes, []byte(placeholder)), bytes.Index(r.bytes, []byte(payload))
	if len(r.parts) <= partsInline {
		r.inline = bytes.Index(r.bytes, r.parts) + len(partsHead)
	}
	return r
}

// Write makes it the reply to a message, with the text of key.
func (r *partsReply) Write(p *host.Payloads, original host.UUID, key host.Key) {
	_, _ = original.AppendText(r.bytes[r.id:r.id])
	p.Write(r.parts[len(partsHead):], key)
	base64.RawURLEncoding.Encode(r.bytes[r.payload:], r.parts)
	if r.inline > 0 {
		p.Write(r.bytes[r.inline:], key)
	}
}

// send sends the reply to a message on a connection and checks the answer.
func (r *partsReply) send(conn *wire.HTTP, p *host.Payloads, original host.UUID, key host.Key) error {
	r.Write(p, original, key)
	answer, err := conn.Do(r.bytes)
	if err != nil {
		return err
	}
	if answer.Status != 201 {
		err, _ := host.Refusal(answer)
		return err
	}
	_, err = host.ReadMessage(answer.Body)
	return err
}

// partsOf returns the parts whose only text is the payload of key.
func partsOf(p *host.Payloads, key host.Key) []byte {
	text := make([]byte, p.Size)
	p.Write(text, key)
	return append(append([]byte(partsHead), text...), partsTail...)
}

// readParts returns the key of the text in a message's payload. buffer is used to decode it.
func readParts(p *host.Payloads, payload []byte, buffer *[]byte) (host.Key, bool) {
	var err error
	if *buffer, err = base64.RawURLEncoding.AppendDecode((*buffer)[:0], payload); err != nil {
		return host.Key{}, false
	}
	text, begins := bytes.CutPrefix(*buffer, []byte(partsHead))
	text, ends := bytes.CutSuffix(text, []byte(partsTail))
	key, sound := p.Read(text)
	return key, begins && ends && sound
}

// calling is one client of A2A: a caller with a waiting request, and an agent that answers
// the messages on its stream.
type calling struct {
	*host.Answering
	payloads *host.Payloads
	request  *taskRequest
	key      host.Key
}

// Prepare implements Load.
func (a *Scenario) Prepare(ctx context.Context, clients int) (load.Dial, error) {
	h := a.host
	if err := a.bridged(ctx, clients); err != nil {
		return nil, err
	}
	run := h.NextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		from, to := a.callers[worker], a.responders[worker]
		c := &calling{payloads: h.Payloads, key: host.Key{Run: run, Worker: uint32(worker)}}
		var err error
		if c.Answering, err = h.OpenAnswering(ctx, to); err != nil {
			return nil, err
		}
		c.request = a.taskRequest(from, to, false)
		reply, buffer := a.partsReply(to.Org.Token), []byte(nil)
		c.Serve(func(m host.Message) error {
			key, sound := readParts(h.Payloads, m.Payload, &buffer)
			switch {
			case !sound:
				return errors.New("wrong answer: the stream brings parts that nobody sent")
			case key.Run != run:
				return nil
			}
			key.Kind = host.KindReply
			return reply.send(c.Answers.Conn, h.Payloads, m.ID, key)
		})
		return c, nil
	}, nil
}

// Do implements load.Client.
func (c *calling) Do(_ context.Context, n int, _ *load.Parts) error {
	c.key.N = uint32(n)
	c.request.Write(c.payloads, c.key)
	answer, err := c.Asks.Conn.Do(c.request.bytes)
	if err != nil {
		return c.Reason(err)
	}
	parsed, err := readA2A(answer)
	if err != nil {
		return err
	}
	return c.Judge(parsed.Result.Task)
}

// Judge checks a task: it has the message that began it and the result that was given.
func (c *calling) Judge(task *a2aTask) error {
	expected := c.key
	expected.Kind = host.KindReply
	id := c.request.bytes[c.request.id : c.request.id+host.KeyLength]
	switch {
	case len(task.History) == 0 || task.History[0].MessageID != string(id):
		return host.Wrong("another message than the one sent")
	case task.Status.State != TaskCompleted:
		return load.Refused{Reason: "the wait ended in " + task.Status.State}
	case len(task.Artifacts) == 0 || !isText(c.payloads, task.Artifacts[0].Parts, expected):
		return host.Wrong("another result than the one given")
	}
	return nil
}

// a2aAnswer holds the members of a JSON-RPC response that are checked, and of an event of a
// subscription.
type a2aAnswer struct {
	Result struct {
		Task     *a2aTask `json:"task"`
		Artifact *struct {
			Artifact a2aArtifact `json:"artifact"`
		} `json:"artifactUpdate"`
		Status *struct {
			TaskID string    `json:"taskId"`
			Status a2aStatus `json:"status"`
		} `json:"statusUpdate"`
	} `json:"result"`
	Error *struct {
		Code int `json:"code"`
		Data []struct {
			Reason string `json:"reason"`
		} `json:"data"`
	} `json:"error"`
}

type a2aTask struct {
	ID      string    `json:"id"`
	Status  a2aStatus `json:"status"`
	History []struct {
		MessageID string `json:"messageId"`
	} `json:"history"`
	Artifacts []a2aArtifact `json:"artifacts"`
}

type a2aStatus struct {
	State string `json:"state"`
}

type a2aArtifact struct {
	Parts []a2aPart `json:"parts"`
}

type a2aPart struct {
	Text string `json:"text"`
}

// readA2A reads a response that has a task.
func readA2A(answer wire.Answer) (parsed a2aAnswer, err error) {
	if answer.Status != 200 {
		err, _ := host.Refusal(answer)
		return parsed, err
	}
	err = json.Unmarshal(answer.Body, &parsed)
	switch {
	case err == nil && parsed.Error != nil:
		reason := ""
		if len(parsed.Error.Data) > 0 {
			reason = parsed.Error.Data[0].Reason
		}
		return parsed, load.Refused{Reason: fmt.Sprintf("A2A error %d %s", parsed.Error.Code, reason)}
	case err != nil || parsed.Result.Task == nil:
		return parsed, errA2A
	}
	return parsed, nil
}

// isText reports whether the first of the parts has the payload of key as its text.
func isText(p *host.Payloads, parts []a2aPart, key host.Key) bool {
	if len(parts) == 0 {
		return false
	}
	got, sound := p.Read([]byte(parts[0].Text))
	return sound && got == key
}

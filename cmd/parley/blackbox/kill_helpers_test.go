package blackbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/history"
)

// participant is an agent with an id of package history.
type participant struct {
	*Agent
	is history.ID
}

// recordedServer is a server with clients that record its answers.
type recordedServer struct {
	t             testing.TB
	s             *Server
	h             *history.History
	began         time.Time
	popular       []*participant // the recipients of most messages
	senders       []*participant
	conversations *trackedConversations
	// dying is set while the server is being killed: connections may break.
	dying atomic.Bool
	// apart is set while a node may have no contact with the others: reads may be refused.
	apart atomic.Bool
	// mortal servers are killed in the middle of a test of orders.
	mortal bool
	// direct, if set, are nodes that get the requests of recorded clients without a proxy.
	direct *Nodes

	mu      sync.Mutex
	pending []attempt // whose outcome is unknown
	tally   tally
	// odd has an *atomic.Int64 for each kind of unexpected answer.
	odd sync.Map
}

// tally holds the counts of a run.
type tally struct {
	keys, acked            atomic.Int64
	kills, retried, before int
	lived                  time.Duration
	restarts               []time.Duration
}

func (y *tally) String() string {
	sorted := slices.Sorted(slices.Values(append(y.restarts, 0)))
	return fmt.Sprintf("%d kills, %d acknowledged, %d unknown retried with the same key, of these %d had been committed, restart %v in the middle and %v at most",
		y.kills, y.acked.Load(), y.retried, y.before, sorted[len(sorted)/2].Round(time.Millisecond), sorted[len(sorted)-1].Round(time.Millisecond))
}

// newRecordedServer registers new agents on a server.
func newRecordedServer(t testing.TB, s *Server, popular, senders int) *recordedServer {
	t.Helper()
	w := &recordedServer{t: t, s: s, h: history.New(SettleWait), began: time.Now()}
	for range popular {
		w.popular = append(w.popular, newParticipant(s.Org(t), "popular"))
	}
	var o *Org
	for i := range senders {
		if i%2 == 0 {
			o = s.Org(t)
		}
		w.senders = append(w.senders, newParticipant(o, "s"+strconv.Itoa(i)))
	}
	w.conversations = &trackedConversations{}
	return w
}

// newParticipant creates an agent whose answers are recorded.
func newParticipant(o *Org, name string) *participant {
	g := o.Agent(name)
	id, err := history.ParseID(g.ID)
	if err != nil {
		o.T.Fatal(err)
	}
	return &participant{Agent: g, is: id}
}

func (w *recordedServer) parties() []*participant {
	return append(append([]*participant{}, w.popular...), w.senders...)
}

// unexpected reports an unexpected answer. It prints only the first few of each kind.
func (w *recordedServer) unexpected(format string, args ...any) {
	first, _ := w.odd.LoadOrStore(format, new(atomic.Int64))
	if first.(*atomic.Int64).Add(1) <= 5 {
		w.t.Errorf(format, args...)
	}
}

func (w *recordedServer) now() time.Duration { return time.Since(w.began) }

// rawAnswer is an undecoded answer.
type rawAnswer struct {
	history.Span
	status int
	header http.Header
	raw    []byte
	err    error
}

func (a *rawAnswer) into(v any) error { return json.Unmarshal(a.raw, v) }

// code returns the error code and the conversation status that the error names.
func (a *rawAnswer) code() (code, current string) {
	var refusal struct {
		Code    string `json:"code"`
		Current string `json:"current_status"`
	}
	_ = a.into(&refusal)
	return refusal.Code, refusal.Current
}

// ask makes one request as a participant.
func (w *recordedServer) ask(ctx context.Context, p *participant, method, path string, body any, headers ...string) *rawAnswer {
	a := &rawAnswer{}
	s, struck := w.next()
	req, err := s.Request(p.Token, method, path, body, append(headers, "X-Svc-Agent", p.ID)...)
	if err != nil {
		w.t.Error(err)
		a.err = err
		return a
	}
	a.Asked = w.now()
	resp, err := Client.Do(req.WithContext(ctx))
	if err == nil {
		a.status, a.header = resp.StatusCode, resp.Header
		a.raw, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	a.Answered, a.err = w.now(), err
	if err != nil && ctx.Err() == nil && !w.dying.Load() && !struck() {
		w.unexpected("%s %s: the connection was lost while the server lived: %v", method, path, err)
	}
	return a
}

// outcome returns what the client of a write knows after an answer. fine lists the error
// codes that are allowed.
func (w *recordedServer) outcome(a *rawAnswer, asked string, fine ...string) history.Outcome {
	if a.err != nil {
		return history.Unknown
	}
	if a.status == http.StatusOK || a.status == http.StatusCreated {
		return history.Acked
	}
	code, _ := a.code()
	if code == "outcome_unknown" {
		return history.Unknown
	}
	for _, c := range append(fine, "overloaded") {
		if c == code {
			return history.Refused
		}
	}
	w.unexpected("%s: answered %d %s", asked, a.status, a.raw)
	return history.Unknown
}

// attempt is a send or a reply with its key.
type attempt struct {
	from, to *participant
	key      string
	replyTo  *history.Message
}

func (w *recordedServer) newKey() string { return "k" + strconv.FormatInt(w.tally.keys.Add(1), 10) }

// payloadOf is the prefix of every payload; the key follows it.
const payloadOf = "payload of "

// filler varies the size of messages.
var filler = strings.Repeat("x", 3000)

// send makes an attempt and records it.
func (w *recordedServer) send(ctx context.Context, at attempt) history.Send {
	out := history.Send{Key: at.key, Payload: B64([]byte(payloadOf + at.key)), From: at.from.is, To: at.to.is}
	path := "/messages"
	body := `{"type":"svc.v1.dm","encrypted_payload":"` + out.Payload + `","self_encrypted_payload":"` + filler[:1+rand.IntN(len(filler))] + `"`
	if at.replyTo != nil {
		path, out.ReplyTo = "/messages/"+at.replyTo.ID.String()+"/reply", at.replyTo.ID
	} else {
		body += `,"to_agent_id":"` + at.to.ID + `"`
	}
	a := w.ask(ctx, at.from, "POST", path, Verbatim(body+"}"), "Idempotency-Key", at.key)
	out.Span, out.Outcome = a.Span, w.outcome(a, path, "conversation_closed")
	if out.Outcome == history.Refused {
		out.Refusal, _ = a.code()
	}
	if out.Outcome == history.Acked {
		if out.Repeat = a.status == http.StatusOK; !out.Repeat {
			w.tally.acked.Add(1)
		}
		if err := a.into(&out.Result); err != nil || out.Repeat != (a.header.Get("Idempotency-Replayed") == "true") {
			w.unexpected("%s: answered %d, Idempotency-Replayed %q, %v", path, a.status, a.header.Get("Idempotency-Replayed"), err)
		}
	}
	w.h.Sent(out)
	return out
}

// write sends and remembers what must be repeated.
func (w *recordedServer) write(at attempt) history.Send {
	out := w.send(context.Background(), at)
	if out.Outcome == history.Unknown {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pending = append(w.pending, at)
	}
	return out
}

// page reads an inbox from its newest row, in at most pages pages of limit rows. Rows
// read before an error are kept.
func (w *recordedServer) page(p *participant, limit, pages int) (history.Page, error) {
	out := history.Page{Agent: p.is, Top: true}
	cursor := ""
	for range pages {
		a := w.ask(context.Background(), p, "GET", p.Path("/messages?limit="+strconv.Itoa(limit)+cursor), nil)
		if out.Asked == 0 {
			out.Span = a.Span
		}
		var page struct {
			Items []history.Message `json:"items"`
			More  bool              `json:"has_more"`
			Next  string            `json:"next_cursor"`
		}
		if err := w.decoded(a, &page); err != nil {
			if len(out.Rows) > 0 {
				w.h.Paged(out)
			}
			return out, err
		}
		out.Rows, out.Answered = append(out.Rows, page.Items...), a.Answered
		if out.End = !page.More; out.End {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
	w.h.Paged(out)
	return out, nil
}

var errApart = errors.New("the node is cut off from the others")

// decoded reads an answer, which must be 200 unless the server died.
func (w *recordedServer) decoded(a *rawAnswer, v any) error {
	switch {
	case a.err != nil:
		return a.err
	case a.status == http.StatusServiceUnavailable && w.apart.Load():
		return errApart
	case a.status != http.StatusOK:
		w.unexpected("after %v a read was answered %d %s", (a.Answered - a.Asked).Round(time.Millisecond), a.status, a.raw)
		return fmt.Errorf("answered %d", a.status)
	}
	if err := a.into(v); err != nil {
		w.unexpected("a read was answered %s: %v", a.raw, err)
		return err
	}
	return nil
}

// transcript reads a conversation from its first message.
func (w *recordedServer) transcript(k *trackedConversation, reader *participant, limit, pages int) error {
	out := history.Transcript{Conversation: k.root.Conversation, Reader: reader.is}
	cursor := ""
	for range pages {
		a := w.ask(context.Background(), reader, "GET", k.path("/messages?limit="+strconv.Itoa(limit)+cursor), nil)
		if out.Asked == 0 {
			out.Span = a.Span
		}
		var page struct {
			Items []history.Message `json:"items"`
			More  bool              `json:"has_more"`
			Next  string            `json:"next_cursor"`
		}
		if err := w.decoded(a, &page); err != nil {
			return err
		}
		out.Rows, out.Answered = append(out.Rows, page.Items...), a.Answered
		if out.Whole = !page.More; out.Whole {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
	w.h.Read(out)
	return nil
}

// look reads a conversation's status.
func (w *recordedServer) look(ctx context.Context, k *trackedConversation, reader *participant) (history.Look, error) {
	a := w.ask(ctx, reader, "GET", k.path(""), nil)
	var record struct {
		Status string `json:"status"`
	}
	if err := w.decoded(a, &record); err != nil {
		return history.Look{}, err
	}
	out := history.Look{Span: a.Span, Conversation: k.root.Conversation, Status: record.Status}
	w.h.Looked(out)
	return out, nil
}

// move requests another status.
func (w *recordedServer) move(ctx context.Context, k *trackedConversation, by *participant, to string) history.Change {
	a := w.ask(ctx, by, "PATCH", k.path("/status"), Verbatim(`{"status":"`+to+`"}`))
	out := history.Change{Span: a.Span, Conversation: k.root.Conversation, To: to, Outcome: w.outcome(a, "PATCH "+to, "invalid_transition")}
	if out.Outcome == history.Refused {
		_, out.Current = a.code()
	}
	w.h.Changed(out)
	return out
}

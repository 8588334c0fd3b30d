package recorded

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

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/history"
)

// Participant is an agent with an id of package history.
type Participant struct {
	*kit.Agent
	is history.ID
}

// Server is a server with clients that record its answers.
type Server struct {
	T             testing.TB
	S             *kit.Server
	H             *history.History
	Began         time.Time
	Popular       []*Participant // the recipients of most messages
	Senders       []*Participant
	Conversations *TrackedConversations
	// Dying is set while the server is being killed: connections may break.
	Dying atomic.Bool
	// Apart is set while a node may have no contact with the others: reads may be refused.
	Apart atomic.Bool
	// Mortal servers are killed in the middle of a test of orders.
	Mortal bool
	// Direct, if set, are nodes that get the requests of recorded clients without a proxy.
	Direct *kit.Nodes

	mu      sync.Mutex
	Pending []Attempt // whose outcome is unknown
	Tally   Tally
	// odd has an *atomic.Int64 for each kind of unexpected answer.
	odd sync.Map
}

// Tally holds the counts of a run.
type Tally struct {
	keys, Acked            atomic.Int64
	Kills, Retried, before int
	Lived                  time.Duration
	Restarts               []time.Duration
}

// String sums the run up.
func (y *Tally) String() string {
	sorted := slices.Sorted(slices.Values(append(y.Restarts, 0)))
	return fmt.Sprintf("%d kills, %d acknowledged, %d unknown retried with the same key, of these %d had been committed, restart %v in the middle and %v at most",
		y.Kills, y.Acked.Load(), y.Retried, y.before, sorted[len(sorted)/2].Round(time.Millisecond), sorted[len(sorted)-1].Round(time.Millisecond))
}

// NewServer registers new agents on a server.
func NewServer(t testing.TB, s *kit.Server, popular, senders int) *Server {
	t.Helper()
	w := &Server{T: t, S: s, H: history.New(kit.SettleWait), Began: time.Now()}
	for range popular {
		w.Popular = append(w.Popular, NewParticipant(s.Org(t), "popular"))
	}
	var o *kit.Org
	for i := range senders {
		if i%2 == 0 {
			o = s.Org(t)
		}
		w.Senders = append(w.Senders, NewParticipant(o, "s"+strconv.Itoa(i)))
	}
	w.Conversations = &TrackedConversations{}
	return w
}

// NewParticipant creates an agent whose answers are recorded.
func NewParticipant(o *kit.Org, name string) *Participant {
	g := o.Agent(name)
	id, err := history.ParseID(g.ID)
	if err != nil {
		o.T.Fatal(err)
	}
	return &Participant{Agent: g, is: id}
}

// Parties are all participants.
func (w *Server) Parties() []*Participant {
	return append(append([]*Participant{}, w.Popular...), w.Senders...)
}

// unexpected reports an unexpected answer. It prints only the first few of each kind.
func (w *Server) unexpected(format string, args ...any) {
	first, _ := w.odd.LoadOrStore(format, new(atomic.Int64))
	if first.(*atomic.Int64).Add(1) <= 5 {
		w.T.Errorf(format, args...)
	}
}

// Now is the time since the history began.
func (w *Server) Now() time.Duration { return time.Since(w.Began) }

// RawAnswer is an undecoded answer.
type RawAnswer struct {
	history.Span
	Status int
	header http.Header
	Raw    []byte
	Err    error
}

// Into decodes the body.
func (a *RawAnswer) Into(v any) error { return json.Unmarshal(a.Raw, v) }

// Code returns the error code and the conversation status that the error names.
func (a *RawAnswer) Code() (code, current string) {
	var refusal struct {
		Code    string `json:"code"`
		Current string `json:"current_status"`
	}
	_ = a.Into(&refusal)
	return refusal.Code, refusal.Current
}

// Ask makes one request as a participant.
func (w *Server) Ask(ctx context.Context, p *Participant, method, path string, body any, headers ...string) *RawAnswer {
	a := &RawAnswer{}
	s, struck := w.next()
	req, err := s.Request(p.Token, method, path, body, append(headers, "X-Svc-Agent", p.ID)...)
	if err != nil {
		w.T.Error(err)
		a.Err = err
		return a
	}
	a.Asked = w.Now()
	resp, err := kit.Client.Do(req.WithContext(ctx))
	if err == nil {
		a.Status, a.header = resp.StatusCode, resp.Header
		a.Raw, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	a.Answered, a.Err = w.Now(), err
	if err != nil && ctx.Err() == nil && !w.Dying.Load() && !struck() {
		w.unexpected("%s %s: the connection was lost while the server lived: %v", method, path, err)
	}
	return a
}

// outcome returns what the client of a write knows after an answer. fine lists the error
// codes that are allowed.
func (w *Server) outcome(a *RawAnswer, asked string, fine ...string) history.Outcome {
	if a.Err != nil {
		return history.Unknown
	}
	if a.Status == http.StatusOK || a.Status == http.StatusCreated {
		return history.Acked
	}
	code, _ := a.Code()
	if code == "outcome_unknown" {
		return history.Unknown
	}
	for _, c := range append(fine, "overloaded") {
		if c == code {
			return history.Refused
		}
	}
	w.unexpected("%s: answered %d %s", asked, a.Status, a.Raw)
	return history.Unknown
}

// Attempt is a send or a reply with its key.
type Attempt struct {
	From, To *Participant
	Key      string
	ReplyTo  *history.Message
}

// NewKey returns an Idempotency-Key that no other request has.
func (w *Server) NewKey() string { return "k" + strconv.FormatInt(w.Tally.keys.Add(1), 10) }

// PayloadOf is the prefix of every payload; the key follows it.
const PayloadOf = "payload of "

// filler varies the size of messages.
var filler = strings.Repeat("x", 3000)

// Send makes an attempt and records it.
func (w *Server) Send(ctx context.Context, at Attempt) history.Send {
	out := history.Send{Key: at.Key, Payload: kit.B64([]byte(PayloadOf + at.Key)), From: at.From.is, To: at.To.is}
	path := "/messages"
	body := `{"type":"svc.v1.dm","encrypted_payload":"` + out.Payload + `","self_encrypted_payload":"` + filler[:1+rand.IntN(len(filler))] + `"`
	if at.ReplyTo != nil {
		path, out.ReplyTo = "/messages/"+at.ReplyTo.ID.String()+"/reply", at.ReplyTo.ID
	} else {
		body += `,"to_agent_id":"` + at.To.ID + `"`
	}
	a := w.Ask(ctx, at.From, "POST", path, kit.Verbatim(body+"}"), "Idempotency-Key", at.Key)
	out.Span, out.Outcome = a.Span, w.outcome(a, path, "conversation_closed")
	if out.Outcome == history.Refused {
		out.Refusal, _ = a.Code()
	}
	if out.Outcome == history.Acked {
		if out.Repeat = a.Status == http.StatusOK; !out.Repeat {
			w.Tally.Acked.Add(1)
		}
		if err := a.Into(&out.Result); err != nil || out.Repeat != (a.header.Get("Idempotency-Replayed") == "true") {
			w.unexpected("%s: answered %d, Idempotency-Replayed %q, %v", path, a.Status, a.header.Get("Idempotency-Replayed"), err)
		}
	}
	w.H.Sent(out)
	return out
}

// Write sends and remembers what must be repeated.
func (w *Server) Write(at Attempt) history.Send {
	out := w.Send(context.Background(), at)
	if out.Outcome == history.Unknown {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.Pending = append(w.Pending, at)
	}
	return out
}

// Page reads an inbox from its newest row, in at most pages pages of limit rows. Rows
// read before an error are kept.
func (w *Server) Page(p *Participant, limit, pages int) (history.Page, error) {
	out := history.Page{Agent: p.is, Top: true}
	cursor := ""
	for range pages {
		a := w.Ask(context.Background(), p, "GET", p.Path("/messages?limit="+strconv.Itoa(limit)+cursor), nil)
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
				w.H.Paged(out)
			}
			return out, err
		}
		out.Rows, out.Answered = append(out.Rows, page.Items...), a.Answered
		if out.End = !page.More; out.End {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
	w.H.Paged(out)
	return out, nil
}

var errApart = errors.New("the node is cut off from the others")

// decoded reads an answer, which must be 200 unless the server died.
func (w *Server) decoded(a *RawAnswer, v any) error {
	switch {
	case a.Err != nil:
		return a.Err
	case a.Status == http.StatusServiceUnavailable && w.Apart.Load():
		return errApart
	case a.Status != http.StatusOK:
		w.unexpected("after %v a read was answered %d %s", (a.Answered - a.Asked).Round(time.Millisecond), a.Status, a.Raw)
		return fmt.Errorf("answered %d", a.Status)
	}
	if err := a.Into(v); err != nil {
		w.unexpected("a read was answered %s: %v", a.Raw, err)
		return err
	}
	return nil
}

// transcript reads a conversation from its first message.
func (w *Server) transcript(k *TrackedConversation, reader *Participant, limit, pages int) error {
	out := history.Transcript{Conversation: k.root.Conversation, Reader: reader.is}
	cursor := ""
	for range pages {
		a := w.Ask(context.Background(), reader, "GET", k.path("/messages?limit="+strconv.Itoa(limit)+cursor), nil)
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
	w.H.Read(out)
	return nil
}

// Look reads a conversation's status.
func (w *Server) Look(ctx context.Context, k *TrackedConversation, reader *Participant) (history.Look, error) {
	a := w.Ask(ctx, reader, "GET", k.path(""), nil)
	var record struct {
		Status string `json:"status"`
	}
	if err := w.decoded(a, &record); err != nil {
		return history.Look{}, err
	}
	out := history.Look{Span: a.Span, Conversation: k.root.Conversation, Status: record.Status}
	w.H.Looked(out)
	return out, nil
}

// Move requests another status.
func (w *Server) Move(ctx context.Context, k *TrackedConversation, by *Participant, to string) history.Change {
	a := w.Ask(ctx, by, "PATCH", k.path("/status"), kit.Verbatim(`{"status":"`+to+`"}`))
	out := history.Change{Span: a.Span, Conversation: k.root.Conversation, To: to, Outcome: w.outcome(a, "PATCH "+to, "invalid_transition")}
	if out.Outcome == history.Refused {
		_, out.Current = a.Code()
	}
	w.H.Changed(out)
	return out
}

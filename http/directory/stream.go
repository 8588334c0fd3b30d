package directory

import (
	"context"
	"net"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	index "parley/actors/directory"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/connlimit"
	"parley/http/limit"
	"parley/http/rest"
)

const (
	// searchStreamLife bounds a search stream; within it the reader has to accept
	// everything.
	searchStreamLife = 10 * time.Second
	// searchStreamMeaning is how long it waits for a vector.
	searchStreamMeaning = 8 * time.Second
)

// Stream takes over a connection and writes what a search for cards finds, in two
// phases. The first is written before the vector of semantic is asked for.
// // spec: Directory stream (GET /directory/agents/stream, public)
func (s Agents) Stream(c *rest.Call, in *api.SearchStream) error {
	st := &searchStream{Directory: s.Directory, account: c.Account(), draining: c.Draining(), until: c.Now().Add(searchStreamLife)}
	st.semantic, st.query = trimmed(in.Semantic), index.Query{Limit: in.Limit}
	words := st.query
	var err error
	if words.First, err = s.named(c, textOf(&in.SearchText), false); err != nil {
		return err
	}
	if words.Text = textOf(&in.SearchText); words.Text == "" {
		words.Text = st.semantic
	}
	first, err := s.kept.of(c, "", func() ([]byte, bool, error) {
		found, err := s.ranked(c, words)
		if err != nil {
			return nil, false, err
		}
		phase, err := s.phase(c.Context(), api.PhaseFuzzy, found)
		if err != nil {
			return nil, false, err
		}
		event, err := appendPhase(nil, phase)
		return event, true, err
	})
	if err != nil {
		return err
	}
	opening := append(append(c.AppendStreamHead(nil), "\r\n"...), first...)
	if st.semantic == "" {
		opening = append(opening, endOfSearch...)
	}
	st.hold = s.Budget.Hold(st.account, nil)
	if !st.hold.Grow(cap(opening) + connlimit.SendBytes) {
		return rest.ErrHeld
	}
	ctx := c.Context()
	c.RequestCtx().HijackSetNoResponse(true)
	c.RequestCtx().Hijack(func(conn net.Conn) { st.serve(ctx, conn, opening) })
	return nil
}

// endOfSearch is the last event of a search stream.
const endOfSearch = "data: " + api.StreamDone + "\n\n"

// searchStream is a search stream that has taken its connection over.
type searchStream struct {
	*Directory
	query    index.Query
	semantic string
	account  limit.Account
	draining <-chan struct{}
	until    time.Time
	hold     limit.Hold
}

// serve writes the stream, and closes the connection. It runs in the engine's hijack
// goroutine.
func (st *searchStream) serve(ctx context.Context, conn net.Conn, opening []byte) {
	conn, line := connlimit.Hijack(conn)
	written := false
	defer func() {
		if cause := recover(); cause != nil {
			st.Logger.Error("search stream failed", "panic", cause, "stack", string(debug.Stack()))
		}
		if written {
			connlimit.AwaitRead(conn, st.draining)
		}
		_ = connlimit.Shut(conn)
		if line != nil {
			line.Leave()
		}
		st.hold.Release()
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if conn.SetDeadline(st.until) != nil {
		return
	}
	if _, err := conn.Write(opening); err != nil || st.semantic == "" {
		written = err == nil
		return
	}
	go func() { // notices that the client has closed the connection
		var sink [16]byte
		for {
			if _, err := conn.Read(sink[:]); err != nil {
				cancel()
				return
			}
		}
	}()
	b, err := appendPhase(nil, st.byMeaning(ctx))
	if err == nil && !st.hold.Grow(cap(opening)+cap(b)+connlimit.SendBytes) {
		b, err = appendPhase(nil, failedPhase("The results take more memory than the server has at the moment."))
	}
	if err == nil && ctx.Err() == nil {
		_, err = conn.Write(append(b, endOfSearch...))
		written = err == nil
	}
}

// failedPhase returns the second phase of a search that has failed.
func failedPhase(text string) searchPhase {
	return searchPhase{Phase: api.PhaseSemantic, Results: []jsontext.Value{}, Error: &text}
}

// byMeaning returns the second phase.
func (st *searchStream) byMeaning(ctx context.Context) searchPhase {
	wait := min(searchStreamMeaning, st.until.Sub(st.Clock())-time.Second)
	vector, threshold, err := st.meaning(ctx, st.account, st.draining, st.semantic, wait)
	if err != nil {
		return failedPhase("Searching by meaning is not possible at the moment.")
	}
	st.query.Vector, st.query.Threshold = vector, threshold
	leave, err := st.queries.Enter(st.account, st.draining)
	if err != nil {
		return failedPhase("Too many searches are under way.")
	}
	found, err := st.Index.Agents(st.query)
	leave()
	if err != nil {
		return failedPhase("The search failed.")
	}
	phase, err := st.phase(ctx, api.PhaseSemantic, found)
	if err != nil {
		return failedPhase("The search failed.")
	}
	return phase
}

// searchPhase is an api.SearchPhase whose rows are rendered.
type searchPhase struct {
	Phase   string           `json:"phase"`
	Results []jsontext.Value `json:"results"`
	Error   *string          `json:"error,omitzero"`
}

// phase renders a phase. It ends before the row that would make it too long.
func (s *Directory) phase(ctx context.Context, name string, found *index.Result) (searchPhase, error) {
	rows, _, err := s.render(ctx, found, map[parley.AnyID]jsontext.Value{})
	return searchPhase{Phase: name, Results: rows}, err
}

// appendPhase appends the event of a phase.
func appendPhase(b []byte, phase searchPhase) ([]byte, error) {
	data, err := json.Marshal(phase)
	return append(append(append(b, "data: "...), data...), "\n\n"...), err
}

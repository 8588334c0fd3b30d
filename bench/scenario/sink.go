package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"sync"
	"time"

	"parley/bench/scenario/host"

	"github.com/valyala/fasthttp"
)

const (
	// sinkBodyMax is the maximum length in bytes of a delivery that a sink reads.
	sinkBodyMax = 4096
	// sinkGrace bounds how long the closing of a sink waits for requests in progress.
	sinkGrace = 5 * time.Second
)

// Prefixes of the paths of a sink's targets, each followed by the agent's id: targets
// that answer, and targets that never do.
const (
	taking  = "/take/"
	hanging = "/hang/"
)

// deliveryEvent is the event type of a delivery about a message.
const deliveryEvent = "message.received"

// sink receives the deliveries of webhooks on this machine. It records when each
// message was acknowledged and when its delivery arrived, in either order. It shares
// the processors with the server that it measures, so the record of a message is only three
// numbers.
type sink struct {
	server fasthttp.Server
	base   string
	// opened is the zero of the sink's clock.
	opened time.Time
	// end ends the requests that hang, which wait for ended.
	ended context.Context
	end   context.CancelFunc
	mu    sync.Mutex
	seen  map[host.UUID]delivery
	// due counts the acknowledged messages, landed those of them whose delivery arrived.
	due, landed int
	// first and last are the times of the first and the last acknowledgement; 0 if there
	// is none.
	first, last time.Duration
}

// delivery is the record of one message, by the sink's clock; 0 means not yet.
type delivery struct {
	accepted, came time.Duration
	again          int32
}

func openSink() (*sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{base: "http://" + listener.Addr().String(), opened: time.Now(), seen: map[host.UUID]delivery{}}
	s.ended, s.end = context.WithCancel(context.Background())
	s.server = fasthttp.Server{
		Handler: s.take, CloseOnShutdown: true, MaxRequestBodySize: sinkBodyMax, Logger: discardLog{},
		NoDefaultServerHeader: true, NoDefaultDate: true, NoDefaultContentType: true, DisablePreParseMultipartForm: true,
	}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// discardLog discards the log of a server whose clients are killed on purpose.
type discardLog struct{}

// Printf implements fasthttp.Logger.
func (discardLog) Printf(string, ...any) {}

// close stops the sink. Requests that hang end without an answer.
func (s *sink) close() {
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), sinkGrace)
	defer cancel()
	_ = s.server.ShutdownWithContext(ctx)
}

// now returns the time by the sink's clock. It is never 0, which stands for not yet.
func (s *sink) now() time.Duration { return max(1, time.Since(s.opened)) }

// take receives one delivery. Only requests that are valid deliveries count.
func (s *sink) take(c *fasthttp.RequestCtx) {
	if bytes.HasPrefix(c.Path(), []byte(hanging)) {
		<-s.ended.Done()
		_ = c.Conn().Close()
		return
	}
	agent, ours := bytes.CutPrefix(c.Path(), []byte(taking))
	id, ok := readDelivery(c.PostBody(), agent)
	if !ours || !c.IsPost() || !ok {
		c.SetStatusCode(fasthttp.StatusBadRequest)
		return
	}
	s.came(id)
	c.SetStatusCode(fasthttp.StatusNoContent)
}

// readDelivery returns the message that a delivery to an agent is about; ok is false for any other
// delivery.
func readDelivery(body, agent []byte) (id host.UUID, ok bool) {
	var parsed struct {
		Message string `json:"message_id"`
		Agent   string `json:"agent_id"`
		Event   string `json:"event"`
	}
	if json.Unmarshal(body, &parsed) != nil || parsed.Agent != string(agent) || parsed.Event != deliveryEvent {
		return host.UUID{}, false
	}
	return host.ParseUUID([]byte(parsed.Message))
}

// came records that the delivery of a message arrived now.
func (s *sink) came(id host.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.seen[id]
	if n.came != 0 {
		n.again++
	} else if n.came = s.now(); n.accepted != 0 {
		s.landed++
	}
	s.seen[id] = n
}

// accepted records that a message was acknowledged now.
func (s *sink) accepted(id host.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.seen[id]
	if n.accepted != 0 {
		return // an id that two messages have is found when the acknowledged messages are checked
	}
	n.accepted = s.now()
	s.seen[id] = n
	if s.first == 0 {
		s.first = n.accepted
	}
	s.last = n.accepted
	s.due++
	if n.came != 0 {
		s.landed++
	}
}

// waiting returns how many acknowledged messages have no delivery yet.
func (s *sink) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due - s.landed
}

// forget deletes all records.
func (s *sink) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.seen)
	s.due, s.landed, s.first, s.last = 0, 0, 0, 0
}

// summary summarizes the deliveries of the acknowledged messages.
type summary struct {
	accepted, came, again int
	// firstAnswer and lastAnswer are the times of the first and the last acknowledgement,
	// and last is the time of the last delivery, by the sink's clock; 0 if there was
	// none.
	firstAnswer, lastAnswer, last time.Duration
	// after is the number of deliveries after the last acknowledgement.
	after int
	waits []time.Duration
}

// summarize computes the summary over all messages, once at the end of a window.
func (s *sink) summarize() summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := summary{waits: make([]time.Duration, 0, s.landed), firstAnswer: s.first, lastAnswer: s.last}
	for _, n := range s.seen {
		if n.accepted == 0 {
			continue
		}
		c.accepted++
		if n.came == 0 {
			continue
		}
		c.came, c.again = c.came+1, c.again+int(n.again)
		c.waits = append(c.waits, max(0, n.came-n.accepted))
		c.last = max(c.last, n.came)
		if n.came > c.lastAnswer {
			c.after++
		}
	}
	return c
}

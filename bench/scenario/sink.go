package scenario

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// sinkShards spreads what a sink knows over locks.
const sinkShards = 32

// hanging is where the paths begin that a sink never answers.
const hanging = "/hang/"

// sink takes the deliveries of webhooks, on this machine, and knows when each
// message was acknowledged and when the news of it came, in whatever order.
type sink struct {
	server *http.Server
	base   string
	shards [sinkShards]sinkShard
	closed chan struct{}
}

type sinkShard struct {
	mu   sync.Mutex
	seen map[uuid]news
}

// news is what is known of one message.
type news struct {
	accepted, came time.Time
	again          int
}

func openSink() (*sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{base: "http://" + listener.Addr().String(), closed: make(chan struct{})}
	s.forget()
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

func (s *sink) close() {
	close(s.closed)
	_ = s.server.Close()
}

// ServeHTTP takes one delivery.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, hanging) {
		select {
		case <-r.Context().Done():
		case <-s.closed:
		}
		return
	}
	var told struct {
		Message string `json:"message_id"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 4096))
	if err == nil {
		err = json.Unmarshal(body, &told)
	}
	id, ok := parseUUID([]byte(told.Message))
	if err != nil || !ok {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	now := time.Now()
	s.note(id, func(n *news) {
		if n.came.IsZero() {
			n.came = now
		} else {
			n.again++
		}
	})
	w.WriteHeader(http.StatusNoContent)
}

func (s *sink) note(id uuid, change func(*news)) {
	shard := &s.shards[id[15]%sinkShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	n := shard.seen[id]
	change(&n)
	shard.seen[id] = n
}

// accepted notes that a message was acknowledged.
func (s *sink) accepted(id uuid, at time.Time) { s.note(id, func(n *news) { n.accepted = at }) }

// forget begins anew.
func (s *sink) forget() {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		s.shards[i].seen = map[uuid]news{}
		s.shards[i].mu.Unlock()
	}
}

// catch is what a sink has taken of the messages that were acknowledged.
type catch struct {
	accepted, came, again int
	first, last           time.Time // of those that came
	waits                 []time.Duration
}

func (s *sink) catch() (c catch) {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		for _, n := range shard.seen {
			if n.accepted.IsZero() {
				continue
			}
			c.accepted++
			if n.came.IsZero() {
				continue
			}
			c.came, c.again = c.came+1, c.again+n.again
			c.waits = append(c.waits, max(0, n.came.Sub(n.accepted)))
			if c.first.IsZero() || n.came.Before(c.first) {
				c.first = n.came
			}
			if n.came.After(c.last) {
				c.last = n.came
			}
		}
		shard.mu.Unlock()
	}
	return c
}

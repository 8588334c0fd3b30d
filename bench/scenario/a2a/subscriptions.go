package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

const (
	// TasksPerAgent is how many tasks an agent begins, and has begun with it: as many as
	// the profile public allows an agent streams in its highest tier.
	TasksPerAgent = 50
	// subscribedFrom is the number of client addresses that the streams come from.
	subscribedFrom = 8
	// completers is the number of connections on which tasks are completed.
	completers = 64
)

// task is a task that was begun and not answered.
type task struct {
	id, message host.UUID
	key         host.Key
	from, to    *host.Agent
}

// beginTasks begins tasks: an equal number by each of many agents, half of which belong to
// one organization and half to the other.
func (a *Scenario) beginTasks(ctx context.Context, n int) ([]task, error) {
	h := a.host
	pairs := (n + TasksPerAgent - 1) / TasksPerAgent
	if err := a.subscribers(ctx, pairs); err != nil {
		return nil, fmt.Errorf("%s: no agents for subscriptions: %w", h.Name(), err)
	}
	if err := h.FreshTokens(ctx); err != nil {
		return nil, err
	}
	run := h.NextRun()
	tasks := make([]task, n)
	err := host.Concurrently(ctx, host.SetupCalls, pairs, func(ctx context.Context, i int) error {
		own := tasks[i*n/pairs : (i+1)*n/pairs]
		for k := range own {
			own[k] = task{key: host.Key{Run: run, Worker: uint32(i), N: uint32(k)}, from: a.subscribing[i][0], to: a.subscribing[i][1]}
		}
		return a.beginOf(ctx, own)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: tasks cannot be begun: %w", h.Name(), err)
	}
	return tasks, nil
}

// subscribers makes sure that there are n pairs of an agent that begins tasks and one that
// answers them.
func (a *Scenario) subscribers(ctx context.Context, n int) error {
	h := a.host
	for have := len(a.subscribing); have < n; have = len(a.subscribing) {
		from, to, count := h.Deployment.SendingOrg, h.Deployment.ReceivingOrg, (n+1)/2
		if have > 0 { // the other half, in the other direction
			from, to, count = to, from, n-have
		}
		begin, err := h.Deployment.Create(ctx, from, "subscriber-%d", have, count)
		if err != nil {
			return err
		}
		answer, err := h.Deployment.Create(ctx, to, "provider-%d", have, count)
		if err != nil {
			return err
		}
		if err := enable(ctx, answer); err != nil {
			return err
		}
		for i := range begin {
			a.subscribing = append(a.subscribing, [2]*host.Agent{begin[i], answer[i]})
		}
	}
	return nil
}

// beginOf begins the tasks of one agent with another, and finds their messages in the
// other's inbox.
func (a *Scenario) beginOf(ctx context.Context, tasks []task) error {
	h := a.host
	conn, err := wire.DialHTTP(ctx, h.Endpoint().Address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	places := make(map[host.UUID]*task, len(tasks))
	request := a.taskRequest(tasks[0].from, tasks[0].to, true)
	for i := range tasks {
		t := &tasks[i]
		request.Write(h.Payloads, t.key)
		answer, err := conn.Do(request.bytes)
		if err != nil {
			return err
		}
		parsed, err := readA2A(answer)
		if err != nil {
			return err
		}
		var known bool
		if t.id, known = host.ParseUUID([]byte(parsed.Result.Task.ID)); !known || parsed.Result.Task.Status.State != TaskSubmitted {
			return host.Wrong("not a task that was submitted")
		}
		places[t.id] = t
	}
	err = host.ReadInbox(ctx, h.Endpoint().Address, tasks[0].to, func(m host.Message) error {
		id, _ := host.ParseUUID(m.Conversation)
		if t := places[id]; t != nil {
			t.message = m.ID
			delete(places, id)
		}
		return nil
	})
	if err == nil && len(places) > 0 {
		err = host.Wrong("a task that is not in its agent's inbox")
	}
	return err
}

// subscribe subscribes to tasks, measures the memory of the streams, and answers all tasks.
// Each stream must bring the result and the end of its task, and then end. It adds to the
// figures and parts of run.
func (a *Scenario) subscribe(ctx context.Context, tasks []task, meter host.Meter, run *result.Run) error {
	h := a.host
	if err := h.FreshTokens(ctx); err != nil {
		return err
	}
	s := &subscriptions{a2a: a, host: h, tasks: tasks, streams: make([]*wire.Stream, len(tasks)), ends: make(chan taskEnd, len(tasks))}
	defer s.close()
	before := measured(ctx, meter)
	if err := s.open(ctx); err != nil {
		return err
	}
	after := measured(ctx, meter)
	for name, grown := range map[string]float64{FigureSubscriptionBytes: after.resident - before.resident, FigureSubscriptionLive: after.live - before.live} {
		if grown != 0 {
			run.Figures[name] = math.Round(grown / float64(len(tasks)))
		}
	}
	run.Figures[FigureSubscriptions] = float64(len(tasks))
	return s.complete(ctx, run)
}

// memory is the memory of a target.
type memory struct{ resident, live float64 }

func measured(ctx context.Context, meter host.Meter) memory {
	meter.Settle(ctx)
	return memory{live: float64(meter.Live(ctx)), resident: float64(meter.Resident())}
}

// subscriptions holds the streams of tasks.
type subscriptions struct {
	a2a     *Scenario
	host    *host.Host
	tasks   []task
	streams []*wire.Stream
	ends    chan taskEnd
	readers sync.WaitGroup
}

// taskEnd is the end of the stream of a task. err says what was wrong with it.
type taskEnd struct {
	task int
	at   time.Time
	err  error
}

// open opens all streams and waits for the first event of each.
func (s *subscriptions) open(ctx context.Context) error {
	return host.Concurrently(ctx, host.StreamDials, len(s.tasks), func(ctx context.Context, i int) error {
		t := &s.tasks[i]
		body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"%s"}}`, t.id)
		request := wire.Request("POST", "/a2a/"+t.to.Handle, t.from.Org.Token, append(a2aHeaders(s.host.Deployment, t.from), [2]string{"Accept", "text/event-stream"}), body)
		stream, err := wire.OpenStream(ctx, s.host.AddressOf(i%subscribedFrom), s.host.Endpoint().Address, request)
		if err != nil {
			return fmt.Errorf("subscription %d of %d cannot be opened: %w", i+1, len(s.tasks), err)
		}
		s.streams[i] = stream
		event, err := stream.Next()
		if err != nil {
			return fmt.Errorf("a subscription without its first event: %w", err)
		}
		var parsed a2aAnswer
		if json.Unmarshal(event.Data, &parsed) != nil || parsed.Result.Task == nil || parsed.Result.Task.ID != t.id.String() {
			return host.Wrong("a subscription begins with another task")
		}
		s.readers.Go(func() {
			at, err := readEnd(stream, s.host.Payloads, t)
			s.ends <- taskEnd{i, at, err}
		})
		return nil
	})
}

// readEnd reads a stream to its end: the result of the task, its completion and nothing
// else except that the task is being worked on. arrived is when the completion arrived.
func readEnd(stream *wire.Stream, p *host.Payloads, t *task) (arrived time.Time, err error) {
	for given := false; ; {
		event, err := stream.Next()
		if err != nil {
			return arrived, fmt.Errorf("a subscription ends before its task: %w", err)
		}
		arrived = time.Now()
		var parsed a2aAnswer
		if json.Unmarshal(event.Data, &parsed) != nil {
			return arrived, errA2A
		}
		if update := parsed.Result.Artifact; update != nil {
			expected := t.key
			expected.Kind = host.KindReply
			if given || !isText(p, update.Artifact.Parts, expected) {
				return arrived, host.Wrong("a subscription brings another result than the one given")
			}
			given = true
			continue
		}
		update := parsed.Result.Status
		switch own := update != nil && update.TaskID == t.id.String(); {
		case own && update.Status.State == TaskWorking && !given:
			continue
		case !own || update.Status.State != TaskCompleted || !given:
			return arrived, host.Wrong("a subscription does not bring the end of its task")
		}
		if _, err = stream.Next(); !errors.Is(err, io.EOF) {
			return arrived, host.Wrong("a subscription goes on after the end of its task")
		}
		return arrived, nil
	}
}

// complete answers all tasks and waits for the end of all streams.
func (s *subscriptions) complete(ctx context.Context, run *result.Run) error {
	sent, began := make([]time.Time, len(s.tasks)), time.Now()
	err := s.host.OnConnections(ctx, completers, len(s.tasks), func(c *host.Caller, i int) error {
		t := &s.tasks[i]
		key := t.key
		key.Kind = host.KindReply
		reply := s.a2a.partsReply(t.to.Org.Token)
		sent[i] = time.Now()
		if err := reply.send(c.Conn, c.Payloads, t.message, key); err != nil {
			return fmt.Errorf("a task cannot be answered: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	replied := time.Now()
	ends, last, err := s.await(ctx, sent)
	if err != nil {
		return err
	}
	run.Parts[PartEnd] = ends.Latency()
	run.Figures[FigureLastEnd] = float64(last.Sub(began).Microseconds()) / 1e3
	run.Figures[FigureLastEndAfter] = float64(max(0, last.Sub(replied)).Microseconds()) / 1e3
	return nil
}

// await waits for the end of all streams.
func (s *subscriptions) await(ctx context.Context, sent []time.Time) (ends *load.Histogram, last time.Time, err error) {
	ends = load.NewHistogram()
	err = host.Gather(ctx, len(s.tasks), "subscriptions got the end of their task", s.ends, func(e taskEnd) error {
		if e.err == nil {
			ends.Record(e.at.Sub(sent[e.task]))
		}
		if e.at.After(last) {
			last = e.at
		}
		return e.err
	})
	return ends, last, err
}

func (s *subscriptions) close() {
	for _, stream := range s.streams {
		if stream != nil {
			_ = stream.Close()
		}
	}
	s.readers.Wait()
}

package host

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/client/parley"
	"parley/journal"
)

// BenchmarkIdleActor measures the memory of an idle actor without its state. It
// measures once, regardless of b.N.
func BenchmarkIdleActor(b *testing.B) {
	const actors = 100_000
	e, _ := newEngine(b, 1)
	streams := make([]journal.Stream, actors)
	for i := range streams {
		streams[i] = journal.Stream{Kind: journal.OrgStream, ID: parley.AnyID{0: byte(i >> 16), 6: 0x70, 8: 0x80, 14: byte(i >> 8), 15: byte(i)}}
		e.journal.Writer.(*fakeJournal).stream(streams[i]).events = []journal.StoredEvent{{Tag: 1, Data: []byte{7: 1}}}
	}
	before := inUse()
	for _, s := range streams {
		if sum, err := e.ask(s, look{}, nil, func() {}); sum != uint64(1) || err != nil {
			b.Fatal(fmt.Sprint(sum, err))
		}
	}
	time.Sleep(100 * time.Millisecond) // until the last of them stop running
	b.ReportMetric((inUse()-before)/actors, "B/actor")
	if n := e.live.Load(); n != actors {
		b.Fatalf("%d actors are in memory", n)
	}
	runtime.KeepAlive(streams)
}

// inUse returns the bytes of heap and stacks in use after a garbage collection.
func inUse() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// nothing is an actor that does nothing.
type nothing struct{}

func (nothing) Receive(actor.Context) {}

// BenchmarkActorSystem measures what the parts of the actor system cost that the engine uses and
// those that it does not: props of a kind, names in its registry, and messages that go by it.
func BenchmarkActorSystem(b *testing.B) {
	system := NewSystem(slog.New(slog.DiscardHandler))
	defer system.Shutdown()
	var workers workerPool
	defer workers.close()
	producer := func() actor.Actor { return nothing{} }
	open := func() actor.Mailbox {
		m := newMailbox()
		m.open()
		return m
	}
	own := func(m *mailbox) *actor.Props {
		return actor.PropsFromProducer(producer, actor.WithMailbox(func() actor.Mailbox { return m }), actor.WithDispatcher(&workers))
	}
	kind := actor.PropsFromProducer(producer, actor.WithMailbox(open), actor.WithDispatcher(&workers))
	b.Run("spawn, props of its own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := newMailbox()
			m.open()
			system.Root.Stop(system.Root.Spawn(own(m)))
		}
	})
	b.Run("spawn, props of the kind", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			system.Root.Stop(system.Root.Spawn(kind))
		}
	})
	b.Run("spawn, props of the kind, a name", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			pid, err := system.Root.SpawnNamed(kind, fmt.Sprintf("agent/%032x", n))
			if err != nil {
				b.Fatal(err)
			}
			system.Root.Stop(pid)
		}
	})
	m := newMailbox()
	m.open()
	pid, err := system.Root.SpawnNamed(own(m), "agent/one")
	if err != nil {
		b.Fatal(err)
	}
	drained := func(b *testing.B) {
		for b.StopTimer(); m.UserMessageCount() > mailboxMax/2; {
			runtime.Gosched()
		}
		b.StartTimer()
	}
	for name, send := range map[string]func(){
		"message to the mailbox":  func() { m.PostUserMessage(sweep{}) },
		"message by the registry": func() { system.Root.Send(pid, sweep{}) },
		"message by its name":     func() { system.Root.Send(system.NewLocalPID("agent/one"), sweep{}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; n < b.N; n++ {
				if send(); n%(mailboxMax/4) == 0 {
					drained(b)
				}
			}
		})
	}
}

package limits

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

var soakStreams = flag.Int("soak.streams", 0, "so many streams in TestStreamsUnderLoad instead of 5000, and twenty times the messages")

// writeWait is how long the server waits for a client that does not read.
const writeWait = 5 * time.Second

// TestStreamsUnderLoad opens 5,000 streams, a hundred for each agent. Of every ten, seven
// read, one never reads, one is reset while messages arrive, and one vanishes without a
// packet. Those that read receive everything exactly once, in order and in time. The
// server closes the others, and nothing of any stream remains at the end.
//
//	go test ./cmd/parley/blackbox/limits -run '^TestStreamsUnderLoad$' -v -soak.streams 9000 -timeout 20m
func TestStreamsUnderLoad(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the process can be observed on Linux only")
	}
	streams, messages := 5000, 24
	if *soakStreams > 0 {
		streams, messages = *soakStreams, 20*messages
	}
	if most := openFilesMax() - 1000; streams > most {
		t.Logf("!! ONLY %d STREAMS INSTEAD OF %d: a process may open only %d files here", most, streams, openFilesMax())
		streams = most
	}
	c := newStreamLoad(t, streams/100, 100)
	c.open()
	c.sendAll(messages)
	c.check()
	c.checkNothingLeft()
}

// streamLoad are many agents with many streams each.
type streamLoad struct {
	t       *testing.T
	s       *kit.Server
	in      observedProcess
	base    observation
	from    *kit.Agent
	agents  []*kit.Agent
	readers [][]*streamReader // by agent
	sent    [][]string
}

func newStreamLoad(t *testing.T, agents, each int) *streamLoad {
	s, in := watched(t, "--journals", "4")
	c := &streamLoad{t: t, s: s, in: in, from: s.Org(t).Agent("sender"), sent: make([][]string, agents), readers: make([][]*streamReader, agents)}
	for o, i := (*kit.Org)(nil), 0; i < agents; i++ {
		if i%25 == 0 {
			o = s.Org(t)
		}
		c.agents = append(c.agents, o.Agent(fmt.Sprintf("singer-%d", i)))
		c.readers[i] = make([]*streamReader, each)
	}
	// What remains after a load belongs to the base.
	kit.Concurrently(64, func(i int) *kit.Answer { return c.from.TrySend(c.agents[i%agents], nil) })
	for _, g := range c.agents {
		g.Everything()
	}
	time.Sleep(300 * time.Millisecond)
	c.base = in.observe(t)
	t.Logf("base: %v", c.base)
	return c
}

func mannerOf(i int) manner {
	return [10]manner{reads, reads, neverRds, reads, resets, reads, reads, vanishes, reads, reads}[i%10]
}

// open opens all streams and starts reading those whose manner is to read.
func (c *streamLoad) open() {
	began := time.Now()
	var opening sync.WaitGroup
	var failed atomic.Pointer[error]
	next := atomic.Int64{}
	each := len(c.readers[0])
	for range 64 {
		opening.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(c.readers)*each && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				e, err := openStreamReader(c.agents[i/each], mannerOf(i))
				if err != nil {
					failed.Store(&err)
					return
				}
				c.readers[i/each][i%each] = e
				if e.manner == reads || e.manner == resets {
					go e.listen()
				}
			}
		})
	}
	opening.Wait()
	if err := failed.Load(); err != nil {
		c.t.Fatal(*err)
	}
	c.t.Cleanup(c.closeAll)
	now := c.in.observe(c.t)
	c.t.Logf("%d streams opened after %v: %v", len(c.readers)*each, time.Since(began).Round(time.Millisecond), now)
	if now.streams != len(c.readers)*each {
		c.t.Errorf("%d streams are open of %d", now.streams, len(c.readers)*each)
	}
}

// sendAll sends messages to all agents, in sequence for each agent. Some streams are reset
// meanwhile.
func (c *streamLoad) sendAll(messages int) {
	began := time.Now()
	payload := strings.Repeat("x", 6000)
	after := make([]int, len(c.agents)) // resets happen after this many messages
	for i := range after {
		after[i] = 1 + rand.IntN(messages-1)
	}
	var sending sync.WaitGroup
	failed := make([]*kit.Answer, len(c.agents))
	for i, g := range c.agents {
		sending.Go(func() {
			for n := range messages {
				a := c.from.TrySend(g, obj{"encrypted_payload": payload})
				if a.Err != nil || a.Status != 201 {
					failed[i] = a
					return
				}
				c.sent[i] = append(c.sent[i], kit.Text(a.Body, "id"))
				for _, e := range c.readers[i] {
					if n == after[i] && e.manner == resets {
						e.reset()
					}
				}
			}
		})
	}
	sending.Wait()
	for _, a := range failed {
		if a != nil {
			a.Fatalf("a send beside streams that do not read")
		}
	}
	c.t.Logf("%d messages to %d agents in %v", messages, len(c.agents), time.Since(began).Round(time.Millisecond))
}

// check checks the outcome for each manner.
func (c *streamLoad) check() {
	began := time.Now()
	// Clients that read do not wait for those that do not.
	const soon = 15 * time.Second
	for i, readers := range c.readers {
		for _, e := range readers {
			if e.manner != reads {
				continue
			}
			for deadline := began.Add(soon); !e.sameAs(c.sent[i]); time.Sleep(5 * time.Millisecond) {
				if n, _ := e.count(); n > len(c.sent[i]) || time.Now().After(deadline) {
					c.t.Fatalf("a stream of agent %d brought %d of %d messages within %v, or other ones, or in another order (its end: %v)", i, n, len(c.sent[i]), soon, e.err)
				}
			}
		}
	}
	c.t.Logf("all messages had arrived after %v", time.Since(began).Round(time.Millisecond))
	reading := 0
	for _, readers := range c.readers {
		for _, e := range readers {
			if e.manner == reads {
				reading++
			}
		}
	}
	for deadline := time.Now().Add(writeWait + 10*time.Second); ; time.Sleep(100 * time.Millisecond) {
		now := c.in.observe(c.t)
		if now.streams == reading {
			c.t.Logf("only the streams that read are left %v after the last message: %v", time.Since(began).Round(time.Millisecond), now)
			return
		}
		if now.streams < reading || time.Now().After(deadline) {
			c.t.Fatalf("%d streams are open, %d of them read: %v", now.streams, reading, now)
		}
	}
}

// checkNothingLeft closes everything and checks that nothing remains. The control keeps
// one stream open, which the check must find.
func (c *streamLoad) checkNothingLeft() {
	kept, err := openStreamReader(c.agents[0], reads)
	if err != nil {
		c.t.Fatal(err)
	}
	c.closeAll()
	if now, is := c.in.returnsTo(c.t, c.base, time.Second); is {
		c.t.Errorf("one stream is left and the check does not show it: %v", now)
	}
	kept.reset()
	began := time.Now()
	now, is := c.in.returnsTo(c.t, c.base, 30*time.Second)
	if !is {
		c.t.Errorf("left over: %v, the base was %v", now, c.base)
	}
	c.t.Logf("back to the base %v after the end: %v", time.Since(began).Round(time.Millisecond), now)
}

func (c *streamLoad) closeAll() {
	for _, readers := range c.readers {
		for _, e := range readers {
			if e != nil {
				_ = e.conn.Close()
			}
		}
	}
}

package actors

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/agent"
	"parley/actors/encoding"
	"parley/actors/host"
	"parley/actors/keylog"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
)

// asServed stores a node in a temporary directory of the machine, with the memory and the
// pauses that a server has by default.
func asServed(b *testing.B) option {
	dir := filepath.Join(b.TempDir(), "data")
	return func(r *testNode) {
		r.fs, r.dir = vfs.Default, dir
		r.tuneStore = func(o *persistence.Options) { o.CacheBytes, o.MemTableBytes = 192<<20, 0 }
		withTuning(func(n *Node) { n.engine.GatherMax = time.Second })(r)
	}
}

// fillKeyLog puts n leaves into the key log of a node, as its actor would.
func fillKeyLog(b *testing.B, r *testNode, n int) {
	b.Helper()
	s, slot, activation := &keylog.State{}, rules.KeyLogStream.Slot(), r.contents.NextActivation()
	if err := host.Append(r.contents.Writer, &journal.Entry{Slot: slot, Stream: rules.KeyLogStream, Activation: activation, Activate: true, At: r.clock()}); err != nil {
		b.Fatal(err)
	}
	for seq := uint64(0); s.GetSize() < uint64(n); seq++ {
		c, leaves := keylog.Append{}, [][]byte{}
		for i := range min(1024, n-int(s.GetSize())) {
			leaf := keylog.Hash{31: 1}
			binary.BigEndian.PutUint64(leaf[:], (s.GetSize()+uint64(i))*0x9E3779B97F4A7C15)
			c.Leaves, leaves = append(c.Leaves, leaf), append(leaves, leaf[:])
		}
		e := &journal.Entry{Slot: slot, Stream: rules.KeyLogStream, Activation: activation, Expect: seq, At: r.clock()}
		for i, row := range keylog.Stored(s, leaves) {
			number := binary.BigEndian.AppendUint64(nil, s.GetSize()+uint64(i))
			e.Rows = append(e.Rows, journal.Row{Slot: slot, Table: journal.KeyLogTable, Key: number, Value: row},
				journal.Row{Slot: slot, Table: journal.KeyLogPlaceTable, Key: leaves[i], Value: number})
		}
		events, err := keylog.Decide(s, c, e.At)
		if err == nil {
			e.Events, err = rules.KeyLog.Encode(events)
		}
		keylog.Evolve(s, events[0])
		if err == nil {
			e.State, err = encoding.Marshal(s)
		}
		if err == nil {
			err = host.Append(r.contents.Writer, e)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKeyLogProof makes proofs from a log of a million leaves on disk, each of another
// leaf, and reports the median and the 99th percentile.
func BenchmarkKeyLogProof(b *testing.B) {
	const n = 1_000_000
	r, ctx := newTestNode(b, asServed(b)), context.Background()
	fillKeyLog(b, r, n)
	r.restart()
	defer r.close() // nobody verifies it: no agent has made these leaves
	at := uint64(1)
	for _, of := range []struct {
		name  string
		prove func() ([]keylog.Hash, error)
	}{
		{"inclusion", func() ([]keylog.Hash, error) { return r.node.KeyLog.ProveInclusion(ctx, n, at%n) }},
		{"consistency", func() ([]keylog.Hash, error) { return r.node.KeyLog.ProveConsistency(ctx, 1+at%n, n) }},
	} {
		b.Run(of.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				at = at*6364136223846793005 + 1442695040888963407
				began := time.Now()
				if _, err := of.prove(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
		})
	}
}

// rotator rotates keys of many agents of a node, each with fresh keys.
type rotator struct {
	*testNode
	ids  []parley.AgentID
	next int
}

func newRotator(b *testing.B, agents int, unlogged bool) *rotator {
	r := &rotator{testNode: newTestNode(b, asServed(b), withTuning(func(n *Node) { n.unlogged = unlogged }))}
	_, r.ids = r.agents("acme", agents)
	return r
}

// rotate rotates the keys of so many agents, some at once, and returns how long that took.
func (r *rotator) rotate(b *testing.B, total, atOnce int) time.Duration {
	var all sync.WaitGroup
	began, first := time.Now(), r.next
	r.next += total
	for worker := range atOnce {
		all.Go(func() {
			for n := first + worker; n < first+total; n += atOnce {
				id, fresh := r.ids[n%len(r.ids)], numbered(uint64(1000+n))
				if _, err := r.node.Agents.Change(context.Background(), id, agent.RotateKeys{Signing: fresh}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// BenchmarkKeyRotation rotates keys on two nodes in turn, one with and one without the key
// log, and reports the medians, also of the ratio of two neighbours: of single rotations, and of 4,096 by 32
// clients, during which the log appends several times.
func BenchmarkKeyRotation(b *testing.B) {
	for _, of := range []struct{ total, atOnce int }{{1, 1}, {4096, 32}} {
		b.Run(fmt.Sprintf("%d-by-%d", of.total, of.atOnce), func(b *testing.B) {
			nodes := [2]*rotator{newRotator(b, 400, false), newRotator(b, 400, true)}
			var took [2][]time.Duration
			for n := 0; b.Loop(); n++ {
				for i := range nodes {
					which := (i + n) % 2
					took[which] = append(took[which], nodes[which].rotate(b, of.total, of.atOnce))
					if of.total > 1 {
						time.Sleep(2 * gatherLeaves) // so that the other node does not pay for the last leaves
					}
				}
			}
			var ratios []float64
			for i, with := range took[0] {
				ratios = append(ratios, float64(with)/float64(took[1][i]))
			}
			slices.Sort(ratios)
			slices.Sort(took[0])
			slices.Sort(took[1])
			b.ReportMetric(float64(took[0][len(ratios)/2].Microseconds()), "µs-with")
			b.ReportMetric(float64(took[1][len(ratios)/2].Microseconds()), "µs-without")
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
		})
	}
}

package persistence

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/journal"
	"parley/persistence/layout"
)

// slowDisk takes 2 ms to 2 s for a write or a sync, usually little.
type slowDisk struct {
	mu   sync.Mutex
	rng  *rand.Rand
	slow atomic.Bool
	// began is the time since which the log has waited for a sync, in Unix nanoseconds; 0
	// if it does not wait.
	began atomic.Int64
}

func (d *slowDisk) String() string { return "slow disk" }

func (d *slowDisk) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileWrite, errorfs.OpFileWriteAt:
	default:
		return nil
	}
	if !d.slow.Load() {
		return nil
	}
	d.mu.Lock()
	latency := 2*time.Millisecond + time.Duration(d.rng.ExpFloat64()*float64(30*time.Millisecond))
	if d.rng.IntN(25) == 0 {
		latency = time.Duration(d.rng.Int64N(int64(2 * time.Second)))
	}
	d.mu.Unlock()
	log := strings.HasSuffix(op.Path, ".log")
	if log {
		d.began.CompareAndSwap(0, time.Now().UnixNano())
	}
	time.Sleep(latency)
	if log {
		d.began.Store(0)
	}
	return nil
}

// slowClients are the clients of a slow disk and what they observed.
type slowClients struct {
	store                       *Store
	end                         time.Time
	acked, refused, under, most atomic.Int64
	running                     sync.WaitGroup

	mu   sync.Mutex
	took []time.Duration
}

// appendRepeatedly appends one entry after another and repeats rejected ones.
func (c *slowClients) appendRepeatedly(t *testing.T) {
	const payload = 900
	stream := newStream(0)
	for seq := uint64(0); time.Now().Before(c.end); {
		release, err := c.store.Admit(0, payload)
		if err != nil {
			c.refused.Add(1)
			time.Sleep(200 * time.Millisecond)
			continue
		}
		c.most.Store(max(c.most.Load(), c.under.Add(1)))
		began := time.Now()
		row := journal.Row{Table: 1, Key: append(stream.ID[:], layout.EncodeNumber(seq)...), Value: make([]byte, payload)}
		if err := <-appended(c.store, &journal.Entry{Rows: []journal.Row{row}}); err != nil {
			t.Error(err)
		}
		release()
		c.under.Add(-1)
		c.acked.Add(1)
		seq++
		c.mu.Lock()
		c.took = append(c.took, time.Since(began))
		c.mu.Unlock()
	}
}

// TestSlowDisk runs many clients on a disk that is slow at random. Entries in flight stay
// bounded, the others are rejected before they have any effect, trouble is reported only
// while a sync hangs, and all clients make progress.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{rng: seeded(7)}
		opts := testOptions(errorfs.Wrap(vfs.NewMem(), disk), 1)
		opts.Clock, opts.QueueEntries, opts.QueueBytes = time.Now, 256, 256<<10
		s := mustOpen(t, "d", opts)
		if err := startQuietly(s); err != nil {
			t.Fatal(err)
		}
		disk.slow.Store(true)
		c := &slowClients{store: s, end: time.Now().Add(time.Minute)}
		for range 400 {
			c.running.Go(func() { c.appendRepeatedly(t) })
		}
		end := c.end
		troubles, late := 0, time.Duration(0)
		for now := time.Now(); now.Before(end); now = time.Now() {
			time.Sleep(20 * time.Millisecond)
			hung := time.Duration(0)
			if began := disk.began.Load(); began != 0 {
				hung = time.Since(time.Unix(0, began))
			}
			told := s.Trouble() != nil
			troubles += count(told)
			if !told {
				late = max(late, hung)
			}
		}
		c.running.Wait()
		disk.slow.Store(false)
		time.Sleep(time.Second)
		if s.Trouble() != nil {
			t.Errorf("the disk is fast again and the store reports %v", s.Trouble())
		}
		took := c.took
		slices.Sort(took)
		t.Logf("%d acknowledged, %d rejected, at most %d in flight, median %v, p99 %v, in trouble in %d of 3000 samples, a hanging sync is reported after %v",
			c.acked.Load(), c.refused.Load(), c.most.Load(), took[len(took)/2], took[len(took)*99/100], troubles, late)
		if c.most.Load() > 256 || c.refused.Load() == 0 || troubles == 0 || late > time.Second || took[len(took)*99/100] < 500*time.Millisecond {
			t.Error("the queue is not bounded, no client was rejected, trouble was not reported in time, or the disk was not slow")
		}
		v := s.View()
		rows := int64(0)
		if err := v.Rows(0, 1, nil, nil, false, func(_, _ []byte) bool { rows++; return true }); err != nil || rows != c.acked.Load() {
			t.Errorf("%d entries were acknowledged, %d are stored (%v)", c.acked.Load(), rows, err)
		}
		v.Close()
		mustClose(t, s)
	})
}

// TestStoppedProcess: a second in which the process was stopped does not count as a
// hanging disk; a sync that continues to hang is reported.
func TestStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Int64
		opts := testOptions(vfs.NewMem(), 1)
		opts.Clock = func() time.Time { return time.Now().Add(time.Duration(stopped.Load())) }
		s := mustOpen(t, "d", opts)
		if err := startQuietly(s); err != nil {
			t.Fatal(err)
		}
		syncing := &s.lead.Load().journals[0].syncing
		syncing.Store(s.disk.Age())
		for _, c := range []struct {
			stop, run time.Duration
			told      bool
			when      string
		}{
			{5 * time.Second, 0, false, "the process comes back"},
			{0, 700 * time.Millisecond, false, "the disk has had 700 ms"},
			{0, 300 * time.Millisecond, true, "the disk has had a second"},
			{5 * time.Second, 0, false, "the process comes back again"},
			{0, time.Second, true, "the disk has had a second more"},
		} {
			stopped.Add(int64(c.stop))
			time.Sleep(c.run)
			if told := s.Trouble() != nil; told != c.told {
				t.Errorf("when %s, trouble is reported: %v", c.when, told)
			}
		}
		syncing.Store(0)
		if s.Trouble() != nil {
			t.Error("the sync has ended and the store still reports trouble")
		}
		mustClose(t, s)
	})
}

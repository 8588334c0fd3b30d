// Package projection keeps the index of the directory up to date with what the journals
// of this process apply. When the process starts, the index is read from a checkpoint and
// compared with what is stored; without a checkpoint it is built from stored rows.
package projection

import (
	"context"
	"encoding/binary"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"parley/actors/directory"
	"parley/actors/directory/embed"
	"parley/client/parley"
	"parley/journal"
)

// Options of Open. All but Checkpoint are required.
type Options struct {
	Journal journal.Journal
	// Embedder makes the vectors of cards and queries.
	Embedder embed.Embedder
	Clock    parley.Clock
	Entropy  parley.Entropy
	Logger   *slog.Logger
	// Domain is the domain of handles.
	Domain string
	// Checkpoint keeps the index over a restart; nil: it is built at each start.
	Checkpoint Storage
}

// Directory finds published cards and public groups. A change is found once it is durable
// and was read again, usually after a few milliseconds.
type Directory struct {
	o       Options
	options directory.Options
	// agents is set before built is closed, and not changed after that.
	agents *directory.Index
	groups *directory.Groups
	// versions are those that were read, and owners the organizations of the agents in the
	// index. Only run uses them.
	versions
	owners map[parley.AgentID]parley.OrgID
	// saved is the generation that the last checkpoint has, written when it was begun.
	// Only run uses them, and Close after it.
	saved   uint64
	written time.Time
	writing atomic.Bool

	// changed is what is to be read again.
	changed *changes
	// replaced says that anything may have changed.
	replaced atomic.Bool
	// built is closed once everything stored at the start is in the index.
	built chan struct{}

	queries *otter.Cache[string, []float32]
	embed   chan struct{}

	ctx       context.Context
	stop      context.CancelFunc
	unobserve func()
	running   sync.WaitGroup
}

const (
	// buildPatience is how long Open waits for the index.
	buildPatience = 2 * time.Second
	// retryAfter is the pause after a failed read, or a failed attempt to make vectors.
	retryAfter = time.Second
	// batch is how many changes are read in one view, and how many vectors are made at
	// once.
	batch = 64
	// queriesMax is how many vectors of queries are cached.
	queriesMax = 1024
)

var errBuilding = parley.ErrOverloaded.Saying("The directory is still being read.")

// Open reads the index and follows the journals. It returns after two seconds even if
// the index is not complete; searches are refused until it is.
func Open(o Options) *Directory {
	random := o.Entropy()
	instance := binary.BigEndian.Uint64(random[:])
	options := directory.Options{Embedder: o.Embedder.ID(), Dim: o.Embedder.Dim(), Instance: instance}
	d := &Directory{
		o: o, options: options, agents: directory.New(options), groups: directory.NewGroups(instance), written: o.Clock(),
		versions: noVersions(), owners: map[parley.AgentID]parley.OrgID{}, changed: &changes{all: map[change]struct{}{}, wake: make(chan struct{}, 1)}, embed: make(chan struct{}, 1), built: make(chan struct{}),
		queries: otter.Must(&otter.Options[string, []float32]{MaximumSize: queriesMax}),
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	// Observe first: what changes during the start is read again.
	d.unobserve = o.Journal.Observe(journal.Observer{
		Tables:  []journal.Table{journal.CardTable, journal.PublicTable},
		Streams: []journal.StreamKind{journal.AgentStream, journal.OrgStream},
		Changed: d.changed.observe,
		Replaced: func() {
			d.replaced.Store(true)
			signal(d.changed.wake)
		},
	})
	d.running.Go(d.run)
	d.running.Go(d.makeVectors)
	patience := time.NewTimer(buildPatience)
	defer patience.Stop()
	select {
	case <-d.built:
	case <-patience.C:
	}
	return d
}

// Close stops following the journals, and writes a checkpoint if the index has changed
// since the last one. The journal must still be open.
func (d *Directory) Close() {
	d.unobserve()
	d.stop()
	d.running.Wait()
	d.closeCheckpoint()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// readStored compares the index with what is stored, and tries until it succeeds.
func (d *Directory) readStored() {
	for err := d.noteStored(); err != nil && d.ctx.Err() == nil; err = d.noteStored() {
		d.o.Logger.Error("the directory could not read what is stored and tries again", "error", err)
		select {
		case <-time.After(retryAfter):
		case <-d.ctx.Done():
		}
	}
}

// run reads what is stored, and then what has changed.
func (d *Directory) run() {
	d.load()
	d.readStored()
	var tick <-chan time.Time
	if d.o.Checkpoint != nil {
		ticker := time.NewTicker(checkpointEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	for building := true; d.ctx.Err() == nil; {
		if d.replaced.Swap(false) {
			d.groups.Each(func(id parley.GroupID) { d.changed.add(change{journal.GroupStream, parley.AnyID(id)}) })
			d.readStored()
		}
		pause := d.drain()
		if building && pause == 0 && d.ctx.Err() == nil {
			close(d.built)
			building = false
		}
		if pause == 0 && d.checkpointDue() {
			d.beginCheckpoint()
		}
		var again <-chan time.Time
		if pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-d.changed.wake:
		case <-tick:
		case <-again:
		case <-d.ctx.Done():
			return
		}
	}
}

// drain reads until nothing is left. After a failure it returns how long to wait.
func (d *Directory) drain() (pause time.Duration) {
	for d.ctx.Err() == nil {
		if d.changed.len() == 0 {
			signal(d.embed)
			return 0
		}
		if d.readSome() != nil {
			return retryAfter
		}
	}
	return 0
}

// readSome reads some changes. After a failure it records them again.
func (d *Directory) readSome() error {
	now := d.changed.take(batch)
	err := d.read(now)
	if err != nil {
		d.o.Logger.Error("the directory could not read a change and tries again", "error", err)
		d.changed.add(now...)
	}
	return err
}

// read reads changes in one view.
func (d *Directory) read(all []change) error {
	v := d.o.Journal.View()
	defer v.Close()
	for _, x := range all {
		var err error
		switch x.kind {
		case journal.AgentStream:
			err = d.readAgent(v, parley.AgentID(x.id))
		case journal.OrgStream:
			err = d.readOrg(v, parley.OrgID(x.id))
		case journal.GroupStream:
			err = d.readGroup(v, parley.GroupID(x.id))
		}
		if err != nil && !parley.IsRefusal(err) {
			return err
		}
	}
	return nil
}

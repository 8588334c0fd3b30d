package projection

import (
	"errors"
	"io"
	"io/fs"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/actors/directory"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// Storage keeps a checkpoint of the index of cards, so that a start need not read all
// cards and make all vectors again. Everything in it can be derived from the journals.
type Storage interface {
	// Open returns the last checkpoint that was written whole. The error wraps
	// fs.ErrNotExist if there is none.
	Open() (io.ReadCloser, error)
	// Replace puts what write writes in place of the last checkpoint, wholly or not at
	// all, also if the process or the machine stops meanwhile.
	Replace(write func(io.Writer) error) error
	// Seal encrypts a block of a checkpoint under the key of its organization, and Unseal
	// decrypts it. They return nil and no error if the organization was erased, and may be
	// called from several goroutines.
	Seal(org parley.OrgID, block int, plain []byte) ([]byte, error)
	Unseal(org parley.OrgID, block int, sealed []byte) ([]byte, error)
}

const (
	// checkpointEvery is how often the index is checked for changes that no checkpoint
	// has, and the shortest time between two checkpoints.
	checkpointEvery = time.Minute
	// A checkpoint is due after as many changes: at the next start, so many cards are read
	// at most. The share of all cards bounds what it costs to write checkpoints.
	checkpointChanges = 2000
	checkpointShare   = 32
	// closePatience bounds how long Close reads changes that the checkpoint is to have.
	closePatience = time.Second
	// hiddenMax bounds how many cards that are not shown a checkpoint names.
	hiddenMax = 1 << 20
)

// load reads the checkpoint, if there is one that can be used. Otherwise the index stays
// empty, and everything stored is read.
func (d *Directory) load() {
	if d.o.Checkpoint == nil {
		return
	}
	err := d.readCheckpoint()
	switch {
	case err == nil:
		d.saved = d.agents.Generation()
	case errors.Is(err, fs.ErrNotExist):
		d.o.Logger.Info("the directory has no checkpoint and reads all cards")
	default:
		d.o.Logger.Warn("the checkpoint of the directory cannot be used; all cards are read", "error", err)
	}
}

func (d *Directory) readCheckpoint() error {
	file, err := d.o.Checkpoint.Open()
	if err != nil {
		return err
	}
	agents, encoded, err := directory.ReadCheckpoint(file, d.options, d.o.Checkpoint.Unseal)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	read, err := decodeVersions(encoded)
	if err != nil {
		return err
	}
	owners := make(map[parley.AgentID]parley.OrgID, agents.Len())
	agents.Versions(func(id parley.AgentID, owner parley.OrgID, _ uint64) {
		if read.orgs[owner] == nil { // its version differs from any, so it is read again
			read.orgs[owner] = &orgCards{agents: map[parley.AgentID]struct{}{}}
		}
		read.orgs[owner].agents[id] = struct{}{}
		owners[id] = owner
	})
	d.agents, d.versions, d.owners = agents, read, owners
	return nil
}

// noteStored records everything that the index lacks or has in another version. Reads of
// versions cost little, so that a start after a checkpoint reads few cards.
func (d *Directory) noteStored() error {
	v := d.o.Journal.View()
	defer v.Close()
	known := make(map[parley.AgentID]uint64, d.agents.Len()+len(d.hidden))
	for id, version := range d.hidden {
		known[id] = version
	}
	d.agents.Versions(func(id parley.AgentID, _ parley.OrgID, version uint64) { known[id] = version })
	var all []versioned
	err := errors.Join(v.Keys(journal.PublicTable, func(key []byte) bool {
		d.changed.observe(journal.Change{Table: journal.PublicTable, Key: key})
		return true
	}), v.Keys(journal.CardTable, func(key []byte) bool {
		id := parley.IDFromBytes[parley.AgentID](key)
		all = append(all, versioned{change{journal.AgentStream, parley.AnyID(id)}, known[id]})
		delete(known, id)
		return true
	}))
	for id := range known { // they have no row any more
		d.changed.add(change{journal.AgentStream, parley.AnyID(id)})
	}
	for id, owner := range d.orgs {
		all = append(all, versioned{change{journal.OrgStream, parley.AnyID(id)}, owner.version})
	}
	differ, compared := differing(v, all)
	d.changed.add(differ...)
	if err = errors.Join(err, compared); err == nil && d.o.Checkpoint != nil {
		d.o.Logger.Info("the directory compared its index with what is stored", "cards", d.agents.Len(), "compared", len(all), "changed", len(differ)+len(known))
	}
	return err
}

// versioned is an agent or an organization, with the version that the index has; 0 if it
// has none.
type versioned struct {
	change
	version uint64
}

// differing returns those whose stored version is another one.
func differing(v journal.View, all []versioned) (differ []change, err error) {
	var mu sync.Mutex
	var running errgroup.Group
	parts := runtime.GOMAXPROCS(0) // it may change meanwhile
	for part := range parts {
		from, upTo := part*len(all)/parts, (part+1)*len(all)/parts
		running.Go(func() error {
			for _, x := range all[from:upTo] {
				stream := rules.OrgStream(parley.OrgID(x.id))
				if x.kind == journal.AgentStream {
					stream = rules.AgentStream(parley.AgentID(x.id))
				}
				stored, err := uint64(0), error(nil)
				if x.version != 0 {
					stored, err = v.Version(stream)
				}
				if err != nil {
					return err
				}
				if x.version == 0 || stored != x.version {
					mu.Lock()
					differ = append(differ, x.change)
					mu.Unlock()
				}
			}
			return nil
		})
	}
	err = running.Wait()
	return differ, err
}

// checkpointDue reports whether the next checkpoint is to be written. Only run calls it.
func (d *Directory) checkpointDue() bool {
	if d.o.Checkpoint == nil || d.writing.Load() || d.o.Journal.Trouble() != nil {
		return false
	}
	changes := d.agents.Generation() - d.saved
	return changes >= checkpointChanges && changes >= uint64(d.agents.Len())/checkpointShare && d.o.Clock().Sub(d.written) >= checkpointEvery
}

// beginCheckpoint writes a checkpoint in the background. Nothing may remain to be read:
// what depends on an organization's tier is then in the index.
func (d *Directory) beginCheckpoint() {
	d.saved, d.written = d.agents.Generation(), d.o.Clock()
	versions := d.versions.encode()
	d.writing.Store(true)
	d.running.Go(func() {
		defer d.writing.Store(false)
		d.writeCheckpoint(versions)
	})
}

func (d *Directory) writeCheckpoint(versions []byte) {
	began := d.o.Clock()
	err := d.o.Checkpoint.Replace(func(to io.Writer) error {
		return d.agents.WriteCheckpoint(to, versions, d.o.Checkpoint.Seal)
	})
	if err != nil {
		d.o.Logger.Warn("the checkpoint of the directory could not be written; the next start takes longer", "error", err)
		return
	}
	d.o.Logger.Debug("the directory wrote its checkpoint", "cards", d.agents.Len(), "took", d.o.Clock().Sub(began))
}

// closeCheckpoint writes what no checkpoint has, after everything else has stopped.
func (d *Directory) closeCheckpoint() {
	select {
	case <-d.built:
	default:
		return // the index is not complete
	}
	if d.o.Checkpoint == nil || d.o.Journal.Trouble() != nil {
		return
	}
	for began := d.o.Clock(); d.changed.len() > 0; {
		if d.o.Clock().Sub(began) > closePatience || d.readSome() != nil {
			return
		}
	}
	if d.agents.Generation() != d.saved {
		d.writeCheckpoint(d.versions.encode())
	}
}

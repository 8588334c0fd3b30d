package persistence

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// SyncBounds are the upper bounds of the buckets that syncs are counted in.
var SyncBounds = [...]time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second,
}

// Distribution is how long something took, since the store was opened.
type Distribution struct {
	// Buckets count what took no longer than the bound at their place of
	// SyncBounds and longer than the one before; the last, what took longer than all.
	Buckets [len(SyncBounds) + 1]uint64
	// Sum of all times.
	Sum time.Duration
}

// tally counts what a journal writes. It may be read while it is written.
type tally struct {
	entries, batches, bytes atomic.Uint64
	syncs                   durations
}

// batch notes one that was committed.
func (t *tally) batch(entries, bytes int) {
	t.entries.Add(uint64(entries))
	t.batches.Add(1)
	t.bytes.Add(uint64(bytes))
}

type durations struct {
	buckets [len(SyncBounds) + 1]atomic.Uint64
	sum     atomic.Int64
}

func (d *durations) note(took time.Duration) {
	i := 0
	for i < len(SyncBounds) && took > SyncBounds[i] {
		i++
	}
	d.buckets[i].Add(1)
	d.sum.Add(int64(took))
}

func (d *durations) read() (all Distribution) {
	for i := range d.buckets {
		all.Buckets[i] = d.buckets[i].Load()
	}
	all.Sum = time.Duration(d.sum.Load())
	return all
}

// JournalStats are the numbers of one journal.
type JournalStats struct {
	// Entries, Batches and Bytes that were committed since the store was opened.
	Entries, Batches, Bytes uint64
	// Syncs are the waits of the acker for the disk.
	Syncs Distribution
	// Queued entries wait for the writer; Late are those among them that others pass.
	Queued, Late int
	// Admitted entries and bytes of clients are under way, of at most
	// AdmittedMax and AdmittedBytesMax; Refused found no room.
	Admitted, AdmittedMax           int
	AdmittedBytes, AdmittedBytesMax int64
	Refused                         uint64
	// Backlog are the parcels that are on their way to other homes.
	Backlog int
	// Edge is the last position that is durable.
	Durable uint64
}

// EngineStats are the key figures of the storage engine.
type EngineStats struct {
	Compactions, Flushes, FailedCompactions int64
	CompactionsRunning                      int64
	// CompactionDebt is about how many bytes are to be compacted still.
	CompactionDebt uint64
	// LogBytes were written to the write-ahead log since the store was opened, LogSize is what its files hold.
	LogBytes, LogSize uint64
	// MemTables not flushed yet, and their bytes.
	MemTables     int64
	MemTableBytes uint64
	// TopTables is the number of tables in the topmost level, TopLayers how many
	// of them a read may have to look at: many mean that compaction is behind.
	TopTables, TopLayers int64
	// ReadLayers is how many places a read may have to look at in all.
	ReadLayers int
	// Tables and their bytes, of all levels.
	Tables     int64
	TableBytes int64
	// CacheHits and CacheMisses of the block cache, and the bytes it holds.
	CacheHits, CacheMisses, CacheBytes int64
	// DiskBytes of all files.
	DiskBytes uint64
}

// Stats are the numbers of one instant, for whoever watches a store.
type Stats struct {
	Journals []JournalStats
	Engine   EngineStats
	// FreeBytes of the disk, and below which writes are refused; both 0 where the
	// file system does not tell.
	FreeBytes, FreeBytesMin int64
	// Views that are open.
	Views int
}

// Stats counts. It takes the engine's locks for a moment, and so is for the
// minute, not for each entry. A store that is closed has none.
func (s *Store) Stats() Stats {
	s.readers.Add(1)
	defer s.readers.Add(-1)
	if s.shut.Load() {
		return Stats{}
	}
	free, floor := s.disk.Space()
	stats := Stats{
		Engine: engineStats(s.db.Metrics()), FreeBytes: free, FreeBytesMin: floor,
		Views: int(s.readers.Load()) - 1, // this is none
	}
	for _, j := range s.journals {
		stats.Journals = append(stats.Journals, j.stats())
	}
	return stats
}

func (j *journalState) stats() JournalStats {
	queued, late := j.queue.length()
	stats := JournalStats{
		Entries: j.wrote.entries.Load(), Batches: j.wrote.batches.Load(), Bytes: j.wrote.bytes.Load(),
		Syncs: j.wrote.syncs.read(), Queued: queued + late, Late: late,
		Admitted: int(j.admission.entries.Load()), AdmittedMax: int(j.admission.limit.Load()),
		AdmittedBytes: j.admission.bytes.Load(), AdmittedBytesMax: j.admission.bytesMax,
		Refused: j.admission.turned.Load(), Durable: j.durable.level.Load(),
	}
	for i := range j.outboxes {
		stats.Backlog += int(j.outboxes[i].depth.Load())
	}
	return stats
}

// length is how many items wait, those that are late apart.
func (q *queue) length() (prompt, late int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), len(q.late)
}

func engineStats(m *pebble.Metrics) EngineStats {
	total := m.Total()
	return EngineStats{
		Compactions: m.Compact.Count, Flushes: m.Flush.Count, FailedCompactions: m.Compact.FailedCount,
		CompactionsRunning: m.Compact.NumInProgress, CompactionDebt: m.Compact.EstimatedDebt,
		LogBytes: m.WAL.BytesWritten, LogSize: m.WAL.Size,
		MemTables: m.MemTable.Count, MemTableBytes: m.MemTable.Size,
		TopTables: m.Levels[0].TablesCount, TopLayers: int64(m.Levels[0].Sublevels), ReadLayers: m.ReadAmp(),
		Tables: total.TablesCount, TableBytes: total.TablesSize,
		CacheHits: m.BlockCache.Hits, CacheMisses: m.BlockCache.Misses, CacheBytes: m.BlockCache.Size,
		DiskBytes: m.DiskSpaceUsage(),
	}
}

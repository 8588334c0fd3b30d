package persistence

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// DurationBounds are the upper bounds of the buckets in which syncs, and other waits of the
// same order, are counted.
var DurationBounds = [...]time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second,
}

// Distribution counts how long something took, since the start of what took it.
type Distribution struct {
	// Buckets[i] counts durations up to DurationBounds[i] and above the bound before
	// it; the last bucket counts longer ones.
	Buckets [len(DurationBounds) + 1]uint64
	// Sum of all times.
	Sum time.Duration
}

// tally counts what a journal writes. It may be read while it is written.
type tally struct {
	entries, batches, bytes atomic.Uint64
	syncs                   Durations
}

// batch counts a committed batch.
func (t *tally) batch(entries, bytes int) {
	t.entries.Add(uint64(entries))
	t.batches.Add(1)
	t.bytes.Add(uint64(bytes))
}

// Durations counts how long something takes. It may be read while it is written.
type Durations struct {
	buckets [len(DurationBounds) + 1]atomic.Uint64
	sum     atomic.Int64
}

// Note counts one duration. It allocates nothing and takes no lock.
func (d *Durations) Note(took time.Duration) {
	i := 0
	for i < len(DurationBounds) && took > DurationBounds[i] {
		i++
	}
	d.buckets[i].Add(1)
	d.sum.Add(int64(took))
}

// Read returns what was counted.
func (d *Durations) Read() (all Distribution) {
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
	// Syncs are the waits of the acknowledger for the disk.
	Syncs Distribution
	// Queued items wait for the writer. Late are those of them that others may
	// pass.
	Queued, Late int
	// Admitted entries and bytes of clients are under way, of at most AdmittedMax
	// and AdmittedBytesMax. Refused counts those that were not admitted.
	Admitted, AdmittedMax           int
	AdmittedBytes, AdmittedBytesMax int64
	Refused                         uint64
	// Backlog is how many outbox messages are under way.
	Backlog int
	// Durable is the last durable position.
	Durable uint64
}

// EngineStats are the key figures of the storage engine.
type EngineStats struct {
	Compactions, Flushes, FailedCompactions int64
	CompactionsRunning                      int64
	// CompactionDebt is about how many bytes are still to be compacted.
	CompactionDebt uint64
	// LogBytes were written to the write-ahead log since the store was opened.
	// LogSize is the size of its files.
	LogBytes, LogSize uint64
	// MemTables not flushed yet, and their bytes.
	MemTables     int64
	MemTableBytes uint64
	// TopTables is the number of tables in the topmost level, TopLayers how many of
	// them a read may have to search. Many layers mean that compaction is behind.
	TopTables, TopLayers int64
	// ReadLayers is how many tables a read may have to search in all levels.
	ReadLayers int
	// Tables and their bytes, of all levels.
	Tables     int64
	TableBytes int64
	// Blobs are the blob files, which hold the large values of the tables, and their
	// bytes. DeadBytes of their values are not needed any more; they take space until
	// a compaction copies the others (see blobDepthMax).
	Blobs, BlobBytes, DeadBytes uint64
	// CacheHits and CacheMisses of the block cache, and the bytes it holds.
	CacheHits, CacheMisses, CacheBytes int64
	// DiskBytes of all files.
	DiskBytes uint64
}

// Stats are the metrics of a store at one instant.
type Stats struct {
	Journals []JournalStats
	Engine   EngineStats
	// FreeBytes of the disk, and the bound below which writes are refused; both 0
	// if the file system does not report its space.
	FreeBytes, FreeBytesMin int64
	// Views that are open.
	Views int
}

// Space returns what is left on the disk, and the bound below which writes are refused; both 0
// if the file system does not report its space.
func (s *Store) Space() (free, floor int64) { return s.disk.Space() }

// Stats reads the metrics. It takes the engine's locks for a moment: call it once a
// minute, not per entry. The stats of a closed store are zero.
func (s *Store) Stats() Stats {
	s.readers.Add(1)
	defer s.readers.Add(-1)
	if s.shut.Load() {
		return Stats{}
	}
	free, floor := s.disk.Space()
	stats := Stats{
		Engine: engineStats(s.db.Metrics()), FreeBytes: free, FreeBytesMin: floor,
		Views: int(s.readers.Load()) - 1, // this read is not one
	}
	for n, p := range s.positions {
		if l := s.lead.Load(); l != nil {
			stats.Journals = append(stats.Journals, l.journals[n].stats())
		} else {
			stats.Journals = append(stats.Journals, JournalStats{Durable: p.durable.Level()})
		}
	}
	return stats
}

func (j *journalState) stats() JournalStats {
	queued, late := j.queue.length()
	admitted := j.admission.Load()
	stats := JournalStats{
		Entries: j.wrote.entries.Load(), Batches: j.wrote.batches.Load(), Bytes: j.wrote.bytes.Load(),
		Syncs: j.wrote.syncs.Read(), Queued: queued + late, Late: late,
		Admitted: admitted.Entries, AdmittedMax: admitted.EntriesMax,
		AdmittedBytes: admitted.Bytes, AdmittedBytesMax: admitted.BytesMax,
		Refused: admitted.Refused, Durable: j.durable.Level(),
	}
	for i := range j.outboxes {
		stats.Backlog += int(j.outboxes[i].depth.Load())
	}
	return stats
}

// length is how many items wait, late ones apart.
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
		Blobs: m.BlobFiles.LiveCount, BlobBytes: m.BlobFiles.LiveSize,
		DeadBytes: m.BlobFiles.ValueSize - min(m.BlobFiles.ValueSize, m.BlobFiles.ReferencedValueSize),
		CacheHits: m.BlockCache.Hits, CacheMisses: m.BlockCache.Misses, CacheBytes: m.BlockCache.Size,
		DiskBytes: m.DiskSpaceUsage(),
	}
}

package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors"
	"parley/persistence"
)

// journalCollector exposes the numbers of each journal.
func journalCollector(store *persistence.Store) prometheus.Collector {
	type journal = persistence.JournalStats
	return newCollector([]string{"journal"}, func(each func(journal, ...string)) {
		for i, j := range store.Stats().Journals {
			each(j, strconv.Itoa(i))
		}
	},
		counter("parley_journal_entries_total", "Entries committed.", func(j journal) uint64 { return j.Entries }),
		counter("parley_journal_batches_total", "Batches committed, each with one sync.", func(j journal) uint64 { return j.Batches }),
		counter("parley_journal_bytes_total", "Bytes of committed batches.", func(j journal) uint64 { return j.Bytes }),
		gauge("parley_journal_queue_entries", "Entries that wait for the writer.", func(j journal) int { return j.Queued }),
		gauge("parley_journal_queue_late_entries", "Queued entries of low priority: parts of broadcasts, which other entries overtake.", func(j journal) int { return j.Late }),
		gauge("parley_journal_admitted_entries", "Entries in flight of client requests.", func(j journal) int { return j.Admitted }),
		gauge("parley_journal_admitted_entries_max", "Current limit of parley_journal_admitted_entries.", func(j journal) int { return j.AdmittedMax }),
		gauge("parley_journal_admitted_bytes", "Bytes in flight of client requests.", func(j journal) int64 { return j.AdmittedBytes }),
		gauge("parley_journal_admitted_bytes_max", "Limit of parley_journal_admitted_bytes.", func(j journal) int64 { return j.AdmittedBytesMax }),
		counter("parley_journal_refusals_total", "Entries rejected by the admission limiter.", func(j journal) uint64 { return j.Refused }),
		gauge("parley_journal_outbox_messages", "Outbox messages to other journals, not yet applied.", func(j journal) int { return j.Backlog }),
		gauge("parley_journal_position", "Last durable position.", func(j journal) uint64 { return j.Durable }),
	)
}

// storeCollector exposes the statistics of the disk and of the storage engine, which
// all journals share.
func storeCollector(store *persistence.Store, node *actors.Node) prometheus.Collector {
	type stats = persistence.Stats
	type engine = persistence.EngineStats
	of := func(m metric[engine]) metric[stats] {
		return metric[stats]{m.name, m.help, m.kind, func(s stats) float64 { return m.value(s.Engine) }}
	}
	return newSingleCollector(store.Stats,
		gauge("parley_writes_accepted", "1 while the server accepts writes, 0 while it rejects them because of the disk.", func(stats) int { return oneIf(node.Trouble() == nil) }),
		gauge("parley_views_open", "Open consistent reads of the store.", func(s stats) int { return s.Views }),
		gauge("parley_disk_free_bytes", "Free space of the data directory's disk.", func(s stats) int64 { return s.FreeBytes }),
		gauge("parley_disk_free_bytes_min", "Free space below which the server rejects writes.", func(s stats) int64 { return s.FreeBytesMin }),
		of(counter("parley_engine_compactions_total", "Compactions.", func(e engine) int64 { return e.Compactions })),
		of(counter("parley_engine_compaction_failures_total", "Compactions that failed.", func(e engine) int64 { return e.FailedCompactions })),
		of(gauge("parley_engine_compactions_running", "Compactions in progress.", func(e engine) int64 { return e.CompactionsRunning })),
		of(gauge("parley_engine_compaction_debt_bytes", "Estimated bytes still to compact.", func(e engine) uint64 { return e.CompactionDebt })),
		of(counter("parley_engine_flushes_total", "Memory tables flushed to disk.", func(e engine) int64 { return e.Flushes })),
		of(counter("parley_engine_log_bytes_total", "Bytes written to the write-ahead log.", func(e engine) uint64 { return e.LogBytes })),
		of(gauge("parley_engine_log_size_bytes", "Size of the write-ahead log.", func(e engine) uint64 { return e.LogSize })),
		of(gauge("parley_engine_memtables", "Tables in memory.", func(e engine) int64 { return e.MemTables })),
		of(gauge("parley_engine_memtable_bytes", "Bytes of the tables in memory.", func(e engine) uint64 { return e.MemTableBytes })),
		of(gauge("parley_engine_top_tables", "Tables of the topmost level (L0).", func(e engine) int64 { return e.TopTables })),
		of(gauge("parley_engine_top_layers", "Sublevels of the topmost level (L0); a high number means that compaction is behind.", func(e engine) int64 { return e.TopLayers })),
		of(gauge("parley_engine_read_layers", "Sublevels and levels that a read may have to search.", func(e engine) int { return e.ReadLayers })),
		of(gauge("parley_engine_tables", "Tables on disk.", func(e engine) int64 { return e.Tables })),
		of(gauge("parley_engine_table_bytes", "Bytes of the tables on disk.", func(e engine) int64 { return e.TableBytes })),
		of(gauge("parley_engine_blob_files", "Blob files on disk, which hold the large values of the tables.", func(e engine) uint64 { return e.Blobs })),
		of(gauge("parley_engine_blob_bytes", "Bytes of the blob files.", func(e engine) uint64 { return e.BlobBytes })),
		of(gauge("parley_engine_blob_dead_bytes", "Bytes of values in blob files that were deleted, overwritten or copied elsewhere.", func(e engine) uint64 { return e.DeadBytes })),
		of(counter("parley_engine_cache_hits_total", "Blocks found in the cache.", func(e engine) int64 { return e.CacheHits })),
		of(counter("parley_engine_cache_misses_total", "Blocks read from disk.", func(e engine) int64 { return e.CacheMisses })),
		of(gauge("parley_engine_cache_bytes", "Bytes in the cache.", func(e engine) int64 { return e.CacheBytes })),
		of(gauge("parley_engine_disk_bytes", "Bytes of all files of the engine.", func(e engine) uint64 { return e.DiskBytes })),
	)
}

// distribution is how long something took, by the buckets of persistence.
type distribution = persistence.Distribution

// distributionCollector exposes distributions as a histogram in seconds.
type distributionCollector struct {
	desc *prometheus.Desc
	// take calls each with every distribution and the values of its labels.
	take func(each func(distribution, ...string))
}

// syncCollector exposes how long the batches of each journal waited for the disk.
func syncCollector(store *persistence.Store) prometheus.Collector {
	return &distributionCollector{
		desc: prometheus.NewDesc("parley_journal_sync_seconds", "Time that a batch waited for its sync, in seconds.", []string{"journal"}, nil),
		take: func(each func(distribution, ...string)) {
			for i, j := range store.Stats().Journals {
				each(j.Syncs, strconv.Itoa(i))
			}
		},
	}
}

// Describe implements prometheus.Collector.
func (c *distributionCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c *distributionCollector) Collect(to chan<- prometheus.Metric) {
	c.take(func(d distribution, labels ...string) {
		total, upTo := uint64(0), map[float64]uint64{}
		for b, n := range d.Buckets {
			if total += n; b < len(persistence.DurationBounds) {
				upTo[persistence.DurationBounds[b].Seconds()] = total
			}
		}
		to <- prometheus.MustNewConstHistogram(c.desc, total, d.Sum.Seconds(), upTo, labels...)
	})
}

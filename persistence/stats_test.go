package persistence

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
)

func TestStatsCountWhatIsWritten(t *testing.T) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 2))
	defer mustClose(t, s)
	if err := s.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {}); err != nil {
		t.Fatal(err)
	}
	leave, err := s.Admit(s.homes.First(1), 1000)
	if err != nil {
		t.Fatal(err)
	}
	before := s.Stats()
	if j := before.Journals[1]; j.Admitted != 1 || j.AdmittedBytes != 1000 || j.AdmittedMax == 0 || j.AdmittedBytesMax == 0 {
		t.Errorf("one entry is admitted: %+v", j)
	}
	done := make(chan error, 1)
	row := journal.Row{Slot: s.homes.First(1), Table: journal.WebhookTable, Key: []byte("k"), Value: []byte("v")}
	s.Append(&journal.Entry{Slot: row.Slot, Rows: []journal.Row{row}, Release: func(err error) { leave(); done <- err }})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	stats := s.Stats()
	j := stats.Journals[1]
	if j.Entries != 1 || j.Batches != 1 || j.Bytes == 0 || j.Admitted != 0 {
		t.Errorf("one entry was written: %+v", j)
	}
	syncs := uint64(0)
	for _, n := range j.Syncs.Buckets {
		syncs += n
	}
	if syncs != 1 {
		t.Errorf("%d syncs for one batch", syncs)
	}
	if other := stats.Journals[0]; other.Entries != 0 || other.Batches != 0 {
		t.Errorf("the other journal wrote %+v", other)
	}
	if stats.Engine.LogBytes <= before.Engine.LogBytes || stats.Engine.MemTables == 0 {
		t.Errorf("the engine wrote its log: %+v, before %+v", stats.Engine, before.Engine)
	}
}

func TestStatsPutSyncsIntoBuckets(t *testing.T) {
	var d Durations
	for _, took := range []time.Duration{0, DurationBounds[0], DurationBounds[0] + 1, time.Hour} {
		d.Note(took)
	}
	all := d.Read()
	if all.Buckets[0] != 2 || all.Buckets[1] != 1 || all.Buckets[len(DurationBounds)] != 1 || all.Sum != time.Hour+2*DurationBounds[0]+1 {
		t.Errorf("counted %+v", all)
	}
	if n := testing.AllocsPerRun(100, func() { d.Note(time.Millisecond) }); n != 0 {
		t.Errorf("recording a sync allocates %v times", n)
	}
}

package machine

import "testing"

func TestConnectionsLeaveDescriptorsToTheJournal(t *testing.T) {
	for files, want := range map[uint64]int{
		0: 0, 1 << 62: 0, 64: 16, 1024: 320, 4000: 2000, 4096: 2096, 20_000: 18_000, 1 << 20: 1<<20 - filesReserved,
	} {
		got, store := ConnectionsMax(files), StoreFilesMax(files)
		if got != want {
			t.Errorf("of %d files %d are for connections, want %d", files, got, want)
		}
		if got > 0 && (store < 1 || got+2*store+min(filesBeside, int(files)/2) > int(files)) {
			t.Errorf("of %d files %d are for connections and %d for tables", files, got, store)
		}
	}
}

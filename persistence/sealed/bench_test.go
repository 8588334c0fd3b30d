package sealed

import (
	"bytes"
	"encoding/binary"
	"testing"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/seal/sealtest"
)

// BenchmarkPage opens the records of pages of 20 messages of 1.5 KB each. They come from
// one organization, from 20, or from so many that no key is in the cache.
func BenchmarkPage(b *testing.B) {
	for _, of := range []struct {
		name        string
		pages, orgs int
	}{{"one", 1, 1}, {"twenty", 1, 20}, {"uncached", 1024, 20 * 1024}} {
		b.Run(of.name, func(b *testing.B) {
			c, all := cipher{sealtest.Sealer()}, make([]journal.Record, of.pages*20)
			for n := range all {
				r := journal.Record{Data: bytes.Repeat([]byte("x"), 1536), Clear: 150, Owners: journal.Owners{A: parley.OrgID{1}, B: parley.OrgID{2}}}
				binary.BigEndian.PutUint64(r.ID[8:], uint64(n))
				binary.BigEndian.PutUint64(r.Owners.B[8:], uint64(n%of.orgs))
				if err := c.sealRecord(&r); err != nil {
					b.Fatal(err)
				}
				all[n] = r
			}
			for page := 0; b.Loop(); page++ {
				for i := range 20 {
					r := &all[page%of.pages*20+i]
					if err := c.openRecord(r.ID, r.Stored, func([]byte) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

package keyring

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// benchmarked makes a keyring on the real disk with so many keys in each of some shards.
func benchmarked(b *testing.B, shards, keys int) (*Keyring, string) {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "keyring")
	mustMake(b, vfs.Default, dir)
	k := mustOpen(b, vfs.Default, dir)
	for shard := range shards {
		changes := make([]change, keys)
		for i := range changes {
			changes[i].org = orgIn(byte(shard), i)
		}
		if err := k.rewrite(&k.shards[shard], changes); err != nil {
			b.Fatal(err)
		}
	}
	return k, dir
}

// BenchmarkCreate makes keys one by one, in a shard that has so many.
func BenchmarkCreate(b *testing.B) {
	for _, keys := range []int{1, 256, 4096} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			k, _ := benchmarked(b, 1, keys)
			n := keys
			for b.Loop() {
				n++
				mustCreate(b, k, orgIn(0, n))
			}
		})
	}
}

// BenchmarkCreateParallel makes keys in all shards, from 64 goroutines a processor.
func BenchmarkCreateParallel(b *testing.B) {
	k, _ := benchmarked(b, 0, 0)
	var n atomic.Int64
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := int(n.Add(1))
			mustCreate(b, k, orgIn(byte(i), i>>8))
		}
	})
}

func BenchmarkKey(b *testing.B) {
	k, _ := benchmarked(b, 1, 4096)
	org := orgIn(0, 1000)
	for b.Loop() {
		if _, state := k.Key(org); state != Live {
			b.Fatal("no key")
		}
	}
}

func BenchmarkMake(b *testing.B) {
	dir, n := b.TempDir(), 0
	for b.Loop() {
		n++
		mustMake(b, vfs.Default, filepath.Join(dir, fmt.Sprint(n)))
	}
}

// BenchmarkOpen opens a keyring of a million organizations, and an empty one.
func BenchmarkOpen(b *testing.B) {
	for _, keys := range []int{0, 3906} {
		k, dir := benchmarked(b, Shards, keys)
		b.Run(fmt.Sprint(keys*Shards), func(b *testing.B) {
			for b.Loop() {
				mustOpen(b, vfs.Default, dir)
			}
		})
		b.Run(fmt.Sprintf("copy/%d", keys*Shards), func(b *testing.B) {
			to, n := b.TempDir(), 0
			for b.Loop() {
				n++
				if err := k.CopyTo(vfs.Default, filepath.Join(to, fmt.Sprint(n))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCarryUnsynced carries out 300 new keys: one after the other as single ones, unsynced, or
// unsynced and then synced.
func BenchmarkCarryUnsynced(b *testing.B) {
	for name, carry := range map[string]func(*Keyring, [][]byte) error{
		"carried": func(k *Keyring, changes [][]byte) error {
			for _, c := range changes {
				if err := k.Carry(c); err != nil {
					return err
				}
			}
			return nil
		},
		"unsynced": (*Keyring).CarryUnsynced,
		"synced": func(k *Keyring, changes [][]byte) error {
			return errors.Join(k.CarryUnsynced(changes), k.Sync())
		},
	} {
		b.Run(name, func(b *testing.B) {
			k, _ := benchmarked(b, 0, 0)
			n := 0
			for b.Loop() {
				var changes [][]byte
				for range 300 {
					n++
					c, err := k.Creation(orgNumber(n))
					if err != nil {
						b.Fatal(err)
					}
					changes = append(changes, c)
				}
				if err := carry(k, changes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

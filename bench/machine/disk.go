package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"parley/bench/result"
)

// appended is the size in bytes of one append of the probe: a page, as journals write it.
const appended = 4096

// ProbeDisk appends 4 KiB and syncs the data, repeatedly for d and at least once, in its
// own file in dir, which it then removes. A cancelled probe is an error.
func ProbeDisk(ctx context.Context, dir string, d time.Duration) (disk result.Disk, err error) {
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("the disk under %s cannot be probed: %w", dir, err)
		}
	}()
	file, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return disk, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	// A file system could store zeros without writing any data.
	page := make([]byte, appended)
	for i := range page {
		page[i] = byte(i*31 + i>>8)
	}
	var took []time.Duration
	for end := time.Now().Add(d); len(took) == 0 || time.Now().Before(end); {
		if ctx.Err() != nil {
			return disk, context.Cause(ctx)
		}
		start := time.Now()
		if _, err := file.Write(page); err != nil {
			return disk, err
		}
		if err := syncData(file); err != nil {
			return disk, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return result.Disk{
		Syncs: len(took),
		P50ms: at(took, 50),
		P99ms: at(took, 99),
	}, nil
}

// Files is the total size of the files under a directory.
type Files struct {
	// Written is the sum of their lengths. Taken is the space they occupy on the disk,
	// which is larger if a store preallocates its logs. Both are in bytes.
	Written, Taken uint64
}

// FilesUnder adds up all files under dir. It skips files that disappear meanwhile, as
// those of an active store do.
func FilesUnder(dir string) (sum Files, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && entry.Type().IsRegular() {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if info != nil {
			sum.Written += uint64(info.Size())
			sum.Taken += allocated(info)
		}
		return err
	})
	return sum, err
}

// at returns a percentile of sorted durations in milliseconds: the smallest that percent
// of them do not exceed.
func at(sorted []time.Duration, percent int) float64 {
	rank := (len(sorted)*percent + 99) / 100
	return float64(sorted[max(rank, 1)-1].Nanoseconds()) / 1e6
}

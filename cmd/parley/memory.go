package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// byteSize is a number of bytes, written as 64MiB, 2GiB or plain bytes.
type byteSize int64

var byteUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// UnmarshalText reads a whole number with or without a binary unit.
func (s *byteSize) UnmarshalText(text []byte) error {
	for _, unit := range byteUnits {
		digits, ok := strings.CutSuffix(string(text), unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || n > (1<<62)/unit.bytes {
			break
		}
		*s = byteSize(n * unit.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size such as 512MiB", text)
}

func (s byteSize) String() string {
	for _, unit := range byteUnits {
		if s != 0 && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.suffix
		}
	}
	return "0"
}

// Memory are the settings of how much memory buys speed.
type Memory struct {
	Cache byteSize `env:"PARLEY_CACHE" default:"256MiB" help:"Cache of stored data, filled as it is read."`
	// A small heap doubles within milliseconds of load, and is collected as often.
	GCHeadroom  byteSize    `name:"gc-headroom" env:"PARLEY_GC_HEADROOM" default:"128MiB" help:"Memory allocated between two garbage collections, at least: more saves CPU and costs memory. GOGC in the environment overrides it."`
	MemoryLimit memoryLimit `name:"memory-limit" env:"PARLEY_MEMORY_LIMIT" default:"auto" help:"Soft memory limit of the process: a size, 0 for none, or auto for nine tenths of the container's limit. GOMEMLIMIT in the environment overrides it."`
}

// cacheLeast is what a store can work with.
const cacheLeast = 1 << 20

func (m *Memory) validate() error {
	if m.Cache < cacheLeast {
		return errors.New("--cache: at least 1MiB")
	}
	return nil
}

// reserve is the free space below which writes are refused; negative is none.
func (c *Config) reserve() int64 {
	if c.DiskReserve == 0 {
		return -1
	}
	return int64(c.DiskReserve)
}

// What requests may have the server hold, large bodies and answers that are under
// way: a part of the memory limit, or so much without one.
const (
	heldShare   = 5
	heldDefault = 512 << 20
)

// held is how many bytes requests may have the server hold.
func (m *Memory) held() int64 {
	if limit := m.limit(); limit > 0 {
		return limit / heldShare
	}
	return heldDefault
}

// connectionBytes is what a connection takes that no stream has: its buffers, a
// small request and its answer. servedShare is their part of the memory limit.
const (
	connectionBytes = 64 << 10
	servedShare     = 4
)

// served is how many such connections there may be; 0, any number, without a
// memory limit.
func (m *Memory) served() int { return int(m.limit() / servedShare / connectionBytes) }

// limit is the memory limit that holds, 0 if there is none.
func (m *Memory) limit() int64 {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		return m.MemoryLimit.bytes(os.DirFS("/"))
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	return 0
}

// headroomEvery is how often the garbage collector's pace is set anew.
const headroomEvery = time.Second

// govern sets the limit, and keeps the collector's pace at the headroom until
// ctx ends: while little is alive, a collection waits for that much garbage; once
// more is alive than that, the runtime's own rule (as much garbage as is alive)
// is the wider one and holds.
func (m *Memory) govern(ctx context.Context) {
	if limit := m.limit(); limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	tick := time.NewTicker(headroomEvery)
	defer tick.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for now := 0; ; {
		metrics.Read(live)
		if want := gcPercent(int64(live[0].Value.Uint64()), int64(m.GCHeadroom)); want != now {
			debug.SetGCPercent(want)
			now = want
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// gcPercent is the garbage to allow in percent of what is alive, in steps: every
// change stops the world for a moment.
func gcPercent(live, headroom int64) int {
	const least, most, step = 100, 2000, 50
	percent := headroom * 100 / max(live, 1)
	return int(min(max(percent/step*step, least), most))
}

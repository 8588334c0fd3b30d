package server

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

// ByteSize is a number of bytes, written as 64MiB, 2GiB or plain bytes.
type ByteSize int64

var byteUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// UnmarshalText reads a whole number with or without a binary unit.
func (s *ByteSize) UnmarshalText(text []byte) error {
	for _, unit := range byteUnits {
		digits, ok := strings.CutSuffix(string(text), unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || n > (1<<62)/unit.bytes {
			break
		}
		*s = ByteSize(n * unit.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size such as 512MiB", text)
}

func (s ByteSize) String() string {
	for _, unit := range byteUnits {
		if s != 0 && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.suffix
		}
	}
	return "0"
}

// Memory are the settings that trade memory for speed.
type Memory struct {
	Cache ByteSize `env:"PARLEY_CACHE" default:"256MiB" help:"Size of the cache for stored data."`
	// A small heap doubles within milliseconds of load, and is collected as often.
	GCHeadroom  ByteSize    `name:"gc-headroom" env:"PARLEY_GC_HEADROOM" default:"128MiB" help:"Minimum memory to allocate between two garbage collections; more saves CPU time and uses memory. GOGC in the environment overrides it."`
	MemoryLimit memoryLimit `name:"memory-limit" env:"PARLEY_MEMORY_LIMIT" default:"auto" help:"Soft memory limit of the process: a size, 0 for none, or auto for nine tenths of the container's limit. GOMEMLIMIT in the environment overrides it."`
}

// cacheLeast is the smallest cache that a store works with.
const cacheLeast = 1 << 20

func (m *Memory) validate() error {
	if m.Cache < cacheLeast {
		return errors.New("--cache: at least 1MiB")
	}
	return nil
}

// reserve returns the free disk space in bytes below which writes are rejected; -1
// disables the reserve.
func (c *Config) reserve() int64 {
	if c.DiskReserve == 0 {
		return -1
	}
	return int64(c.DiskReserve)
}

// The memory that requests may occupy, in large bodies and in unfinished answers:
// 1/heldShare of the memory limit, or heldDefault bytes without a limit.
const (
	heldShare   = 5
	heldDefault = 512 << 20
)

// requestMemory returns how many bytes requests and unread answers may occupy.
func (m *Memory) requestMemory() int64 {
	if limit := m.limit(); limit > 0 {
		return limit / heldShare
	}
	return heldDefault
}

// connectionBytes is the memory of a connection without a stream: its buffers, a small
// request and its answer. All of them together get 1/servedShare of the memory limit.
const (
	connectionBytes = 64 << 10
	servedShare     = 4
)

// connectionsServed returns how many connections may be served besides streams. Without a
// memory limit it returns 0, which means any number.
func (m *Memory) connectionsServed() int { return int(m.limit() / servedShare / connectionBytes) }

// limit returns the memory limit in force in bytes; 0 if there is none.
func (m *Memory) limit() int64 {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		return m.MemoryLimit.bytes(os.DirFS("/"))
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	return 0
}

// headroomEvery is the interval at which the garbage collector is tuned.
const headroomEvery = time.Second

// tuneGC sets the memory limit and tunes the garbage collector until ctx ends. While the
// live heap is small, a collection waits for GCHeadroom of garbage. With a larger live
// heap the runtime's own rule, as much garbage as live heap, is wider and applies.
func (m *Memory) tuneGC(ctx context.Context) {
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

// gcPercent returns the garbage to allow as a percentage of the live heap, in steps of
// 50, because every change stops the world for a moment.
func gcPercent(live, headroom int64) int {
	const least, most, step = 100, 2000, 50
	percent := headroom * 100 / max(live, 1)
	return int(min(max(percent/step*step, least), most))
}

package datadir

import (
	"log/slog"
	"os"
	"time"

	"parley/cmd/parley/program"
	"parley/persistence"
)

// Default is the data directory if none is named.
const Default = "./parley-data"

// Open opens the store of a data directory that no server has open, without its keyring.
// It never creates one. A fatal error of the store ends the process.
func Open(data string, std *program.Streams) (*persistence.Store, error) {
	if err := checkAlone(data); err != nil {
		return nil, err
	}
	dir, err := Journal(data)
	if err != nil {
		return nil, err
	}
	store, err := persistence.Open(dir, offline(std))
	return store, Advise(err, data)
}

// offline returns the options of a store that a command opens without a server.
func offline(std *program.Streams) persistence.Options {
	return persistence.Options{
		Clock: time.Now, Logger: slog.New(slog.NewTextHandler(std.Log(), &slog.HandlerOptions{Level: slog.LevelWarn})), CacheBytes: 8 << 20,
		Fatal: func(err error) { os.Exit(std.Fail(err)) }, Existing: true,
	}
}

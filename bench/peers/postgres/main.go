// Command postgres is what a careful team would write: the floor's HTTP server, a connection
// pool and PostgreSQL, with both rows of a message in one transaction. It runs Debian's PostgreSQL
// as a child, so that the processor time of the database counts as this peer's.
package main

import (
	"context"
	"errors"

	"parley/bench/peers/plain"
)

func main() {
	plain.Main("postgres", func(ctx context.Context, listen, dir string) (err error) {
		database, err := startCluster(ctx, dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, database.stop()) }()
		store, version, err := openStore(ctx, database.address())
		if err != nil {
			return err
		}
		defer store.pool.Close()
		return plain.Serve(ctx, listen, "postgres", "PostgreSQL "+version, store, database.exited)
	})
}

// Command floor is the minimal durable message store over HTTP: it checks a cached token,
// decodes a message, commits two rows in one synced Pebble batch and answers with the
// stored message. It has no actors, no rules, no streams and no recovery. What a product
// costs beyond it is the product's own cost.
package main

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"

	"parley/bench/peers/plain"
)

func main() {
	plain.Main("floor", func(ctx context.Context, listen, dir string) (err error) {
		store, err := openStore(dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.db.Close()) }()
		return plain.Serve(ctx, listen, "floor", version(), store, nil)
	})
}

// version names the libraries that do the work, with the versions built in.
func version() string {
	var all []string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "github.com/cockroachdb/pebble/v2":
				all = append(all, "pebble "+module.Version)
			case "github.com/valyala/fasthttp":
				all = append(all, "fasthttp "+module.Version)
			}
		}
	}
	return strings.Join(all, " ")
}

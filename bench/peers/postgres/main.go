// Command postgres is what a careful team would write: the floor's HTTP server, a connection
// pool and PostgreSQL, with both rows of a message in one transaction. It runs Debian's PostgreSQL
// as a child, so that the processor time of the database counts as this peer's.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

// missing is an exit code: the bench then leaves this peer out and says so.
const missing = 3

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	dir := flag.String("dir", "", "directory of the database, kept from run to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := run(ctx, *listen, *dir)
	var absent *absentError
	switch {
	case errors.As(err, &absent):
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(missing)
	case err != nil:
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. dir can be opened again afterwards.
func run(ctx context.Context, listen, dir string) (err error) {
	if dir == "" {
		return errors.New("--dir is missing")
	}
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
	gate, token, err := newGate()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	routes := router.New()
	routes.POST("/messages", gate.guard(store.send))
	routes.GET("/agents/{agent}/messages", gate.guard(store.inbox))
	server := &fasthttp.Server{Handler: routes.Handler, NoDefaultServerHeader: true, Concurrency: 1 << 20, CloseOnShutdown: true}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	json.NewEncoder(os.Stdout).Encode(map[string]string{
		"name": "postgres", "version": "PostgreSQL " + version, "address": listener.Addr().String(), "token": token, "kind": "plain",
	})
	select {
	case err := <-failed:
		return err
	case err := <-database.exited:
		database.exited <- err
		return fmt.Errorf("the database is gone: %v", err)
	case <-ctx.Done():
		return server.Shutdown()
	}
}

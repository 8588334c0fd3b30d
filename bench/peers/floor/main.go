// Command floor is the minimal durable message store over HTTP: it checks a cached token,
// decodes a message, commits two rows in one synced Pebble batch and answers with the
// stored message. It has no actors, no rules, no streams and no recovery. What a product
// costs beyond it is the product's own cost.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	dir := flag.String("dir", "", "directory of the store, kept from run to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. dir can be opened again afterwards.
func run(ctx context.Context, listen, dir string) (err error) {
	if dir == "" {
		return fmt.Errorf("--dir is missing")
	}
	gate, token, err := newGate()
	if err != nil {
		return err
	}
	store, err := openStore(dir)
	if err != nil {
		return err
	}
	defer func() {
		if closing := store.Close(); err == nil {
			err = closing
		}
	}()
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
	announce(listener.Addr().String(), token)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return server.Shutdown()
	}
}

// announce prints the line that gives the bench the address and the token.
func announce(address, token string) {
	json.NewEncoder(os.Stdout).Encode(map[string]string{
		"name": "floor", "version": version(), "address": address, "token": token, "kind": "plain",
	})
}

// version names the libraries that do the work, with the versions built in.
func version() string {
	said := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "github.com/cockroachdb/pebble/v2":
				said += " pebble " + module.Version
			case "github.com/valyala/fasthttp":
				said += " fasthttp " + module.Version
			}
		}
	}
	if said == "" {
		return "unknown"
	}
	return said[1:]
}

// Command jetstream is an embedded NATS server with JetStream, configured as its
// documentation recommends for messages that must not be lost: file storage and an fsync
// before each acknowledgement. Clients of the bench speak NATS with it directly.
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
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ready bounds the time for opening a directory with many messages.
const ready = 2 * time.Minute

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	dir := flag.String("dir", "", "directory of the store, kept from run to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "jetstream:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. dir can be opened again afterwards.
func run(ctx context.Context, listen, dir string) error {
	if dir == "" {
		return errors.New("--dir is missing")
	}
	options, err := settings(listen, dir)
	if err != nil {
		return err
	}
	broker, err := server.NewServer(options)
	if err != nil {
		return err
	}
	broker.Start()
	defer func() {
		broker.Shutdown()
		broker.WaitForShutdown()
	}()
	if !broker.ReadyForConnections(ready) {
		return errors.New("the server did not get ready")
	}
	if err := setUp(ctx, broker.ClientURL()); err != nil {
		return fmt.Errorf("setting up the stream: %w", err)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]string{
		"name": "jetstream", "version": "nats-server " + server.VERSION, "address": broker.Addr().String(), "token": "", "kind": "nats",
	})
	<-ctx.Done()
	return nil
}

// settings returns the options of the server. SyncAlways ensures that an acknowledged
// message is on the disk. Without it JetStream syncs every two minutes.
func settings(listen, dir string) (*server.Options, error) {
	host, digits, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(digits)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return &server.Options{
		Host: host, Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, SyncAlways: true,
	}, nil
}

// setUp creates the single stream of all inboxes, or finds it.
func setUp(ctx context.Context, url string) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: "INBOX", Subjects: []string{"inbox.*"}, Storage: jetstream.FileStorage, AllowDirect: true,
	})
	return err
}

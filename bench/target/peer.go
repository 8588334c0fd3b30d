package target

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Peer is a program that does comparable work. Started with --listen and --dir it writes
// one line of JSON to standard output when it is ready, and serves until SIGTERM. Its
// directory can be opened again afterwards.
type Peer struct {
	// Binary is the program, Dir holds its data and its log, and Env is its
	// environment.
	Binary, Dir string
	Env         []string

	running *process
}

// greeting is the line that a peer writes when it is ready.
type greeting struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Address string `json:"address"`
	Token   string `json:"token"`
	Kind    Kind   `json:"kind"`
}

// Name implements Target.
func (p *Peer) Name() string { return strings.TrimSuffix(filepath.Base(p.Binary), ".exe") }

// Start implements Target.
func (p *Peer) Start(ctx context.Context) (Endpoint, error) {
	if p.running != nil {
		return Endpoint{}, fmt.Errorf("%s is running already", p.Name())
	}
	// A database may require a user of its own, which must have access to the directory.
	data := filepath.Join(p.Dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return Endpoint{}, err
	}
	for _, dir := range []string{p.Dir, data} { // parley, which may have started the bench, sets a strict umask
		if err := os.Chmod(dir, 0o755); err != nil {
			return Endpoint{}, err
		}
	}
	said := make(chan greeting, 1)
	ready := func(line string) bool {
		var g greeting
		if json.Unmarshal([]byte(line), &g) != nil || g.Address == "" {
			return false
		}
		said <- g
		return true
	}
	binary, err := filepath.Abs(p.Binary)
	if err != nil {
		return Endpoint{}, err
	}
	args := []string{"--listen", "127.0.0.1:0", "--dir", data}
	if p.running, err = launch(ctx, filepath.Join(p.Dir, "peer.log"), p.Env, binary, args, ready); err != nil {
		return Endpoint{}, err
	}
	g := <-said
	if g.Kind != Plain && g.Kind != NATS {
		_ = p.Kill()
		return Endpoint{}, fmt.Errorf("%s says that it is of kind %q, which is unknown here", p.Name(), g.Kind)
	}
	return Endpoint{Address: g.Address, Token: g.Token, Kind: g.Kind, Version: strings.TrimSpace(g.Name + " " + g.Version)}, nil
}

// Processes implements Target.
func (p *Peer) Processes() []int { return p.running.pids() }

// Kill implements Target.
func (p *Peer) Kill() error {
	if p.running != nil {
		p.running.kill()
		p.running = nil
	}
	return nil
}

// Stop implements Target.
func (p *Peer) Stop() error {
	if p.running == nil {
		return nil
	}
	defer func() { p.running = nil }()
	return p.running.stop()
}

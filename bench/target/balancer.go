package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrNoBalancer is returned if haproxy is not installed.
var ErrNoBalancer = errors.New("several nodes need haproxy on PATH, which is not there (on Debian: apt-get install haproxy)")

// checkEvery is how often haproxy asks a node whether it is ready.
const checkEvery = 200 * time.Millisecond

// balancer is haproxy in front of nodes.
type balancer struct {
	program, dir, version string
	env                   []string
	// address is host:port for clients. It stays the same.
	address string
	// leaderFirst is that of Cluster.
	leaderFirst bool
	running     *process
}

// newBalancer finds haproxy, and an address for it.
func newBalancer(dir string, env []string) (*balancer, error) {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		return nil, ErrNoBalancer
	}
	said, err := exec.Command(program, "-v").Output()
	if err != nil {
		return nil, fmt.Errorf("%s -v: %w", program, err)
	}
	first, _, _ := bytes.Cut(said, []byte("\n"))
	words := strings.Fields(string(first)) // HAProxy version 2.6.12-1+deb12u4 2026/10/17 - ...
	b := &balancer{program: program, dir: dir, env: env, version: strings.Join(words[:min(3, len(words))], " ")}
	free, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	b.address = free[0]
	return b, os.MkdirAll(dir, 0o700)
}

// configuration gives each connection to the next of these nodes that is ready, or to the one
// that leads. Unlike examples/cluster it does not read HTTP, so that as little as possible of
// haproxy is measured, and goes on to another node at once if one does not take a connection.
func (b *balancer) configuration(nodes []string) []byte {
	var to bytes.Buffer
	fmt.Fprintf(&to, `global
  maxconn 20000
  no strict-limits

defaults
  mode tcp
  timeout connect 1s
  timeout client 90s
  timeout server 90s
  retries %d
  option redispatch 1

frontend parley
  bind %s
  default_backend nodes

backend nodes
  balance roundrobin
  option httpchk GET /readyz
  default-server check inter %d fall 2 rise 1 on-marked-down shutdown-sessions
`, max(2, len(nodes)), b.address, checkEvery.Milliseconds())
	for i, address := range nodes {
		fmt.Fprintf(&to, "  server %s %s\n", NodeName(i), address)
	}
	if !b.leaderFirst {
		return to.Bytes()
	}
	for i := range nodes {
		fmt.Fprintf(&to, "  use-server %[1]s if { srv_is_up(leads/%[1]s) }\n", NodeName(i))
	}
	fmt.Fprintf(&to, `
backend leads
  option httpchk GET /readyz?leads=true
  default-server check inter %d fall 1 rise 1
`, checkEvery.Milliseconds())
	for i, address := range nodes {
		fmt.Fprintf(&to, "  server %s %s\n", NodeName(i), address)
	}
	return to.Bytes()
}

// begin starts haproxy unless it runs already.
func (b *balancer) begin(ctx context.Context, nodes []string) error {
	if b.running != nil {
		return nil
	}
	config := filepath.Join(b.dir, "haproxy.cfg")
	if err := os.WriteFile(config, b.configuration(nodes), 0o600); err != nil {
		return err
	}
	running, err := launch(ctx, b.log(), b.env, b.program, []string{"-db", "-f", config}, nil)
	b.running = running
	return err
}

func (b *balancer) log() string { return filepath.Join(b.dir, "haproxy.log") }

// lastOutput returns what haproxy wrote last.
func (b *balancer) lastOutput() string { return b.running.logTail() }

func (b *balancer) pids() []int {
	if b == nil {
		return nil
	}
	return b.running.pids()
}

// end ends haproxy, which keeps nothing.
func (b *balancer) end() error {
	if b != nil && b.running != nil {
		b.running.kill()
		b.running = nil
	}
	return nil
}

package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Cluster runs several nodes of Parley's own binary behind haproxy, which gives each
// connection to the next node that is ready. Everything runs on this machine, and haproxy
// counts as a part of the target.
type Cluster struct {
	// Label, Binary, Dir, Args and Env are as in Server.
	Label, Binary, Dir string
	Args, Env          []string
	// Nodes is the number of nodes. One node is a cluster of one voter. 0 is a server that
	// belongs to no cluster, behind the same haproxy.
	Nodes int
	// LeaderFirst has haproxy give each connection to the node that leads instead, and to
	// another one only while none does.
	LeaderFirst bool

	balancer *balancer
	all      []*Server
	// first is the address of the first node for other nodes.
	first string
}

// readyPatience bounds the time until a node that answers is ready: it may have to catch up.
const readyPatience = time.Minute

// Name implements Target.
func (c *Cluster) Name() string { return c.Label }

// Start implements Target. The first start makes the cluster, later ones continue it.
func (c *Cluster) Start(ctx context.Context) (Endpoint, error) {
	endpoint, err := c.start(ctx)
	if err != nil {
		return Endpoint{}, errors.Join(err, c.Kill(), c.balancer.end())
	}
	return endpoint, nil
}

func (c *Cluster) start(ctx context.Context) (endpoint Endpoint, err error) {
	if c.balancer == nil {
		if c.balancer, err = newBalancer(c.Dir, c.Env); err != nil {
			return Endpoint{}, err
		}
		c.balancer.leaderFirst = c.LeaderFirst
	}
	if c.all == nil {
		err = c.found(ctx)
	} else {
		err = c.each(func(s *Server) error { _, err := s.Start(ctx); return err })
	}
	if err != nil {
		return Endpoint{}, err
	}
	endpoint = Endpoint{Address: c.balancer.address, Kind: Parley, Admin: c.all[0].admin}
	for _, s := range c.all {
		endpoint.Nodes = append(endpoint.Nodes, s.address)
	}
	if endpoint.AdminToken, err = c.all[0].adminToken(); err != nil {
		return Endpoint{}, err
	}
	if err := c.balancer.begin(ctx, endpoint.Nodes); err != nil {
		return Endpoint{}, err
	}
	if err := c.Ready(ctx); err != nil {
		return Endpoint{}, err
	}
	version, err := healthy(ctx, "http://"+endpoint.Address)
	if err != nil {
		return Endpoint{}, fmt.Errorf("%w\n%s", err, c.balancer.lastOutput())
	}
	endpoint.Version = fmt.Sprintf("%s; %s behind %s", version, c.Label, c.balancer.version)
	return endpoint, nil
}

// found starts the first node, and has the others join one after the other.
func (c *Cluster) found(ctx context.Context) error {
	base := []string{"--base-url", "http://" + c.balancer.address}
	for i := range max(1, c.Nodes) {
		name := NodeName(i)
		s := &Server{Label: name, Binary: c.Binary, Dir: filepath.Join(c.Dir, name), Env: c.Env}
		s.Args = slices.Concat(base, c.Args)
		if c.Nodes > 0 {
			if err := c.invite(ctx, s); err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
		}
		if _, err := s.Start(ctx); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		s.joins = nil
		c.all = append(c.all, s)
	}
	return nil
}

// invite prepares the directory of the first node, or gets a token for a further one.
func (c *Cluster) invite(ctx context.Context, s *Server) error {
	free, err := freeAddresses(1)
	if err != nil {
		return err
	}
	at := free[0]
	s.Args = append([]string{"--node-name", s.Label, "--cluster-listen", at}, s.Args...)
	if len(c.all) == 0 {
		c.first = at
		_, err := c.command(ctx, "cluster", "init", "--data", s.data(), "--advertise", at, "--node-name", s.Label)
		return err
	}
	token, err := c.command(ctx, "cluster", "token", "--data", c.all[0].data())
	s.joins = []string{"--join", c.first, "--join-token", strings.TrimSpace(token)}
	return err
}

// command runs a command of the binary and returns its output.
func (c *Cluster) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Binary, args...)
	cmd.Env = c.Env
	var problem strings.Builder
	cmd.Stderr = &problem
	said, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(c.Binary), strings.Join(args[:2], " "), err, problem.String())
	}
	return string(said), err
}

// NodeName is the name of the node with a number, and of its directory.
func NodeName(i int) string { return string(rune('a' + i)) }

// Ready waits until every node is ready, and for as long as haproxy takes to notice it.
func (c *Cluster) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for _, s := range c.all {
		if err := ready(ctx, s.address); err != nil {
			return fmt.Errorf("node %s is not ready: %w\n%s", s.Label, err, s.running.logTail())
		}
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(2 * checkEvery):
		return nil
	}
}

// ready waits until /readyz answers 200.
func ready(ctx context.Context, address string) error {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		request, err := http.NewRequestWithContext(ctx, "GET", "http://"+address+"/readyz", nil)
		if err != nil {
			return err
		}
		answer, err := c.Do(request)
		if err == nil {
			text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Leader returns the number of the node that leads.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	leader, _, err := c.leadership(ctx)
	return leader, err
}

// Term returns the term of the node that leads: each election begins a higher one. It is 0 for
// a server that belongs to no cluster.
func (c *Cluster) Term(ctx context.Context) (term uint64, err error) {
	if c.Nodes > 0 {
		_, term, err = c.leadership(ctx)
	}
	return term, err
}

// leadership waits until a node leads, and returns its number and its term.
func (c *Cluster) leadership(ctx context.Context) (leader int, term uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for {
		for _, s := range c.all {
			if s.running == nil {
				continue
			}
			said, err := c.command(ctx, "cluster", "status", "--json", "--data", s.data(), "--admin", "http://"+s.admin)
			if ctx.Err() != nil {
				return 0, 0, fmt.Errorf("no node leads: %w", errors.Join(context.Cause(ctx), err))
			}
			if leader, term := leaderIn(said); err == nil && leader >= 0 && leader < len(c.all) {
				return leader, term, nil
			}
		}
	}
}

// leaderIn returns the number of the node that leads and its term by the output of cluster
// status, -1 if none does.
func leaderIn(status string) (leader int, term uint64) {
	var members struct {
		Nodes []struct {
			Name  string
			Leads []int
		}
		Groups []struct{ Term uint64 }
	}
	if json.Unmarshal([]byte(status), &members) != nil || len(members.Groups) == 0 {
		return -1, 0
	}
	for _, one := range members.Nodes {
		if len(one.Leads) > 0 && len(one.Name) == 1 {
			return int(one.Name[0] - 'a'), members.Groups[0].Term
		}
	}
	return -1, 0
}

// KillNode ends one node with SIGKILL and returns when its process is gone.
func (c *Cluster) KillNode(i int) error { return c.all[i].Kill() }

// StartNode starts one node again and waits until all are ready.
func (c *Cluster) StartNode(ctx context.Context, i int) error {
	if _, err := c.all[i].Start(ctx); err != nil {
		return err
	}
	return c.Ready(ctx)
}

// Processes implements Target: the nodes, then haproxy.
func (c *Cluster) Processes() (pids []int) {
	for _, s := range c.all {
		pids = append(pids, s.Processes()...)
	}
	return append(pids, c.balancer.pids()...)
}

// each calls f for every node, all at once.
func (c *Cluster) each(f func(*Server) error) error {
	errs := make([]error, len(c.all))
	var group sync.WaitGroup
	for i, s := range c.all {
		group.Go(func() {
			if err := f(s); err != nil {
				errs[i] = fmt.Errorf("node %s: %w", s.Label, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// Kill implements Target. It kills all nodes at once, as when the power fails; haproxy goes
// on.
func (c *Cluster) Kill() error { return c.each((*Server).Kill) }

// Stop implements Target.
func (c *Cluster) Stop() error { return errors.Join(c.each((*Server).Stop), c.balancer.end()) }

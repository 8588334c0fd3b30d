package kit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Nodes is a cluster of processes behind a proxy. Each connection goes to the next node that
// runs.
type Nodes struct {
	Flags []string
	proxy net.Listener
	turn  atomic.Uint64
	// place says where a node runs.
	place func(i int) (Place, error)
	// Patience is that of servers that join.
	Patience time.Duration

	mu  sync.Mutex
	All []*Server
	// avoided get connections only where no other node takes them.
	avoided map[*Server]bool
	// struck counts the beginnings and ends of faults of a node: it is odd during one.
	struck map[*Server]int
}

// Place is where a node runs.
type Place struct {
	Dir string
	// Listen is for clients, cluster for other nodes.
	Listen, Admin, Cluster string
	// Advertise is where other nodes reach it, "" if that is cluster.
	Advertise string
	// Enter calls a function in the thread of which the process is started, or a command is run.
	Enter func(func() error) error
	// Binary and through are those of the process.
	Binary  string
	Through []string
}

// OpenNodes starts a cluster in a directory. All nodes have the address of the proxy as their
// base address.
func OpenNodes(dir string, count int, flags ...string) (*Nodes, error) {
	return openNodesAt(LocalPlace(dir), count, flags...)
}

// LocalPlace has nodes run beside each other.
func LocalPlace(dir string) func(i int) (Place, error) {
	return func(i int) (Place, error) {
		admin, err := UnusedAddress()
		if err != nil {
			return Place{}, err
		}
		cluster, err := UnusedAddress()
		return Place{Dir: filepath.Join(dir, NodeName(i)), Listen: "127.0.0.1:0", Admin: admin, Cluster: cluster}, err
	}
}

// NodeName is what the node with a number is called.
func NodeName(i int) string { return string(rune('a' + i)) }

// openNodesAt starts a cluster at places of its own.
func openNodesAt(at func(i int) (Place, error), count int, flags ...string) (*Nodes, error) {
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &Nodes{proxy: proxy, place: at, Flags: append([]string{"--base-url", "http://" + proxy.Addr().String()}, flags...)}
	go n.forward()
	for i := range count {
		if err := n.Add(i); err != nil {
			return n, errors.Join(err, n.Stop())
		}
	}
	return n, nil
}

// UnusedAddress is one at which nobody listens. Its port is below those that Linux gives to
// clients, which could take it before a server does.
func UnusedAddress() (address string, err error) {
	for range 100 {
		address = fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))
		var ln net.Listener
		if ln, err = net.Listen("tcp", address); err == nil {
			return address, ln.Close()
		}
	}
	return "", err
}

// Add starts the first node, or has a further one join, in place of one that replaces names.
func (n *Nodes) Add(i int, replaces ...string) error {
	at, err := n.place(i)
	if err != nil {
		return err
	}
	name := NodeName(i)
	s := &Server{Dir: at.Dir, Enter: at.Enter, Binary: at.Binary, Through: at.Through, patience: n.Patience, Flags: append([]string{
		"--node-name", name, "--cluster-listen", at.Cluster, "--admin-listen", at.Admin, "--cluster-advertise", cmp.Or(at.Advertise, at.Cluster),
	}, n.Flags...)}
	if i == 0 {
		if said, err := s.Execute("cluster", "init", "--data", s.Dir, "--advertise", cmp.Or(at.Advertise, at.Cluster), "--node-name", name); err != nil {
			return fmt.Errorf("%w\n%s", err, said)
		}
	} else {
		ask := []string{"cluster", "token"}
		if len(replaces) > 0 {
			ask = append([]string{"cluster", "replace"}, replaces...)
		}
		token, err := n.Node(0).Operate(ask...)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, token)
		}
		s.Joins = []string{"--join", n.Node(0).Flag("--cluster-listen"), "--join-token", strings.TrimSpace(token)}
	}
	if _, err := s.Launched(at.Listen); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.All = append(n.All, s)
	return nil
}

// ConsistsOf says which processes are the nodes from now on.
func (n *Nodes) ConsistsOf(all ...*Server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.All = all
}

// Server is the first node, reached through the proxy.
func (n *Nodes) Server() *Server {
	s := *n.Node(0)
	s.Nodes, s.Addr = n, n.proxy.Addr().String()
	s.Base = "http://" + s.Addr
	return &s
}

// Node is one of the nodes.
func (n *Nodes) Node(i int) *Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.All[i]
}

// On is the organization, whose requests go to one node.
func (o *Org) On(s *Server) *Org {
	there := *o
	there.S = s
	return &there
}

// On is the agent, whose requests go to one node.
func (g *Agent) On(s *Server) *Agent {
	there := *g
	there.Org = g.Org.On(s)
	return &there
}

// Flag is the value of a flag of the process.
func (s *Server) Flag(name string) string {
	for i := range len(s.Flags) - 1 {
		if s.Flags[i] == name {
			return s.Flags[i+1]
		}
	}
	return ""
}

// SetFlag changes the value of a flag for the next start.
func (s *Server) SetFlag(name, value string) {
	s.Flags[slices.Index(s.Flags, name)+1] = value
}

// Operate runs an operator's command on a running server.
func (s *Server) Operate(args ...string) (said string, err error) {
	args = append(args, "--data", s.Dir, "--admin", "http://"+s.Flag("--admin-listen"))
	if s.Enter == nil {
		return s.Execute(args...)
	}
	_ = s.Enter(func() error {
		said, err = s.Execute(args...)
		return nil
	})
	return said, err
}

// Execute runs the binary under test, which must exit with 0, and returns what it printed.
func Execute(args ...string) (string, error) { return (&Server{}).Execute(args...) }

// Execute runs the server's binary, which must exit with 0, and returns what it printed.
func (s *Server) Execute(args ...string) (string, error) {
	whole := slices.Concat(s.Through, []string{cmp.Or(s.Binary, Binary)}, args)
	cmd := exec.Command(whole[0], whole[1:]...)
	cmd.Env = CleanEnvironment()
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// forward gives each connection to the next node that takes it.
func (n *Nodes) forward() {
	for {
		conn, err := n.proxy.Accept()
		if err != nil {
			return
		}
		go n.relay(conn.(*net.TCPConn))
	}
}

// relay connects a client with a node. A node may answer and close before it has read all: the
// client must get the answer, so the rest of what it sends is dropped.
func (n *Nodes) relay(conn *net.TCPConn) {
	defer func() { _ = conn.Close() }()
	to, err := n.dial()
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(to, conn)
		_ = to.CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	}()
	_, _ = io.Copy(conn, to)
	_ = conn.CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	<-sent
}

// dial connects with the next node that takes it. Nodes to be avoided come last: the last look
// at them may be old, and they answer themselves why they cannot serve.
func (n *Nodes) dial() (*net.TCPConn, error) {
	turn := n.turn.Add(1)
	n.mu.Lock()
	var good, avoided []*Server
	for i := range n.All {
		s := n.All[(turn+uint64(i))%uint64(len(n.All))]
		if n.avoided[s] {
			avoided = append(avoided, s)
		} else {
			good = append(good, s)
		}
	}
	n.mu.Unlock()
	for _, s := range append(good, avoided...) {
		conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
	}
	return nil, errors.New("no node takes connections")
}

// Avoid has a node avoided, or no longer.
func (n *Nodes) Avoid(s *Server, avoided bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.avoided == nil {
		n.avoided = map[*Server]bool{}
	}
	n.avoided[s] = avoided
}

// Heed has the proxy ask all nodes whether they are ready, and avoid those that are not.
func (n *Nodes) Heed(t testing.TB) {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	for _, s := range n.All {
		base := s.Base
		go func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(100 * time.Millisecond):
				}
				resp, err := Client.Get(base + "/readyz")
				if err == nil {
					_ = resp.Body.Close()
				}
				n.Avoid(s, err != nil || resp.StatusCode != http.StatusOK)
			}
		}()
	}
}

// Stop drains all nodes at once. None may have reported a defect.
func (n *Nodes) Stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	faults := Concurrently(len(n.All), func(i int) error {
		s := n.All[i]
		if err := errors.Join(s.Drain(15*time.Second), s.Log.Trouble()); err != nil {
			return fmt.Errorf("node %s: %w\n%s", s.Flag("--node-name"), err, s.Log.Tail())
		}
		return nil
	})
	n.All = nil
	return errors.Join(append(faults, n.proxy.Close())...)
}

// AnyOf returns one of a list by chance.
func AnyOf[T any](list []T) T { return list[rand.IntN(len(list))] }

// Leader is the node that leads, nil while there is none.
func (n *Nodes) Leader() *Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.All {
		select {
		case <-s.Exited:
			continue
		default:
		}
		said, err := s.Operate("cluster", "status", "--json")
		var status struct {
			Nodes []struct {
				Name  string
				Leads []int
			}
		}
		if err != nil || json.Unmarshal([]byte(said), &status) != nil {
			continue
		}
		for _, one := range status.Nodes {
			if len(one.Leads) == 0 {
				continue
			}
			for _, s := range n.All {
				if s.Flag("--node-name") == one.Name {
					return s
				}
			}
		}
	}
	return nil
}

// Follower is a node that does not lead.
func (n *Nodes) Follower() *Server {
	leader := n.Leader()
	n.mu.Lock()
	defer n.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(n.All), func(s *Server) bool { return s == leader })
	return others[rand.IntN(len(others))]
}

// StartNodes runs a cluster for one test.
func StartNodes(t testing.TB, count int, flags ...string) *Nodes {
	t.Helper()
	return StartNodesAt(t, LocalPlace(t.TempDir()), count, flags...)
}

// StartNodesAt runs a cluster for one test at places of its own.
func StartNodesAt(t testing.TB, at func(i int) (Place, error), count int, flags ...string) *Nodes {
	t.Helper()
	OneServerOnly(t, "it starts nodes itself")
	n, err := openNodesAt(at, count, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil || t.Failed() {
			t.Errorf("the nodes: %v", err)
			for _, s := range n.All {
				t.Logf("node %s\n%s", s.Flag("--node-name"), s.Log.Tail())
			}
		}
	})
	return n
}

// Ready waits until all nodes are ready.
func (n *Nodes) Ready(t testing.TB) {
	t.Helper()
	for _, s := range n.All {
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			resp, err := Client.Get(s.Base + "/readyz")
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					break
				}
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("node %s is never ready\n%s", s.Flag("--node-name"), s.Log.Tail())
			}
		}
	}
}

// AnyNode is one of the nodes, for a single request. The function reports later whether it was
// struck meanwhile.
func (n *Nodes) AnyNode() (*Server, func() bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := AnyOf(n.All)
	before := n.struck[s]
	return &Server{Base: s.Base}, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return before%2 == 1 || n.struck[s] != before
	}
}

// Strike harms a node for a while.
func (n *Nodes) Strike(s *Server, harm, repair func() error, while func()) error {
	count := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.struck == nil {
			n.struck = map[*Server]int{}
		}
		n.struck[s]++
	}
	count()
	defer count()
	if err := harm(); err != nil {
		return err
	}
	while()
	return repair()
}

// StrikeKilled kills a node, and starts it again after a while.
func (n *Nodes) StrikeKilled(s *Server, while func()) error {
	return n.Strike(s, func() error { s.Kill(); return nil }, s.Again, while)
}

// Roles waits for a leader, and returns it and a follower.
func (n *Nodes) Roles(t testing.TB) (leader, follower *Server) {
	t.Helper()
	Eventually(t, "a node leads", func() bool {
		leader = n.Leader()
		return leader != nil
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	return leader, AnyOf(slices.DeleteFunc(slices.Clone(n.All), func(s *Server) bool { return s == leader }))
}

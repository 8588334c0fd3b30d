package blackbox

import (
	"cmp"
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

// nodes is a cluster of processes behind a proxy. Each connection goes to the next node that
// runs.
type nodes struct {
	flags []string
	proxy net.Listener
	turn  atomic.Uint64
	// place says where a node runs.
	place func(i int) (place, error)
	// patience is that of servers that join.
	patience time.Duration

	mu  sync.Mutex
	all []*server
	// avoided get connections only where no other node takes them.
	avoided map[*server]bool
	// struck counts the beginnings and ends of faults of a node: it is odd during one.
	struck map[*server]int
}

// place is where a node runs.
type place struct {
	dir string
	// listen is for clients, cluster for other nodes.
	listen, admin, cluster string
	// advertise is where other nodes reach it, "" if that is cluster.
	advertise string
	// enter calls a function in the thread of which the process is started, or a command is run.
	enter func(func() error) error
	// binary and through are those of the process.
	binary  string
	through []string
}

// openNodes starts a cluster in a directory. All nodes have the address of the proxy as their
// base address.
func openNodes(dir string, count int, flags ...string) (*nodes, error) {
	return openNodesAt(localPlace(dir), count, flags...)
}

// localPlace has nodes run beside each other.
func localPlace(dir string) func(i int) (place, error) {
	return func(i int) (place, error) {
		admin, err := unusedAddress()
		if err != nil {
			return place{}, err
		}
		cluster, err := unusedAddress()
		return place{dir: filepath.Join(dir, nodeName(i)), listen: "127.0.0.1:0", admin: admin, cluster: cluster}, err
	}
}

// nodeName is what the node with a number is called.
func nodeName(i int) string { return string(rune('a' + i)) }

// openNodesAt starts a cluster at places of its own.
func openNodesAt(at func(i int) (place, error), count int, flags ...string) (*nodes, error) {
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &nodes{proxy: proxy, place: at, flags: append([]string{"--base-url", "http://" + proxy.Addr().String()}, flags...)}
	go n.forward()
	for i := range count {
		if err := n.add(i); err != nil {
			return n, errors.Join(err, n.stop())
		}
	}
	return n, nil
}

// unusedAddress is one at which nobody listens. Its port is below those that Linux gives to
// clients, which could take it before a server does.
func unusedAddress() (address string, err error) {
	for range 100 {
		address = fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))
		var ln net.Listener
		if ln, err = net.Listen("tcp", address); err == nil {
			return address, ln.Close()
		}
	}
	return "", err
}

// add starts the first node, or has a further one join, in place of one that replaces names.
func (n *nodes) add(i int, replaces ...string) error {
	at, err := n.place(i)
	if err != nil {
		return err
	}
	name := nodeName(i)
	s := &server{dir: at.dir, enter: at.enter, binary: at.binary, through: at.through, patience: n.patience, flags: append([]string{
		"--node-name", name, "--cluster-listen", at.cluster, "--admin-listen", at.admin, "--cluster-advertise", cmp.Or(at.advertise, at.cluster),
	}, n.flags...)}
	if i == 0 {
		if said, err := s.execute("cluster", "init", "--data", s.dir, "--advertise", cmp.Or(at.advertise, at.cluster), "--node-name", name); err != nil {
			return fmt.Errorf("%w\n%s", err, said)
		}
	} else {
		ask := []string{"cluster", "token"}
		if len(replaces) > 0 {
			ask = append([]string{"cluster", "replace"}, replaces...)
		}
		token, err := n.node(0).operate(ask...)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, token)
		}
		s.joins = []string{"--join", n.node(0).flag("--cluster-listen"), "--join-token", strings.TrimSpace(token)}
	}
	if _, err := s.launched(at.listen); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, s)
	return nil
}

// consistsOf says which processes are the nodes from now on.
func (n *nodes) consistsOf(all ...*server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = all
}

// server is the first node, reached through the proxy.
func (n *nodes) server() *server {
	s := *n.node(0)
	s.nodes, s.addr = n, n.proxy.Addr().String()
	s.base = "http://" + s.addr
	return &s
}

// node is one of the nodes.
func (n *nodes) node(i int) *server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[i]
}

// on is the organization, whose requests go to one node.
func (o *org) on(s *server) *org {
	there := *o
	there.s = s
	return &there
}

// on is the agent, whose requests go to one node.
func (g *agent) on(s *server) *agent {
	there := *g
	there.org = g.org.on(s)
	return &there
}

// flag is the value of a flag of the process.
func (s *server) flag(name string) string {
	for i := range len(s.flags) - 1 {
		if s.flags[i] == name {
			return s.flags[i+1]
		}
	}
	return ""
}

// setFlag changes the value of a flag for the next start.
func (s *server) setFlag(name, value string) {
	s.flags[slices.Index(s.flags, name)+1] = value
}

// operate runs an operator's command on a running server.
func (s *server) operate(args ...string) (said string, err error) {
	args = append(args, "--data", s.dir, "--admin", "http://"+s.flag("--admin-listen"))
	if s.enter == nil {
		return s.execute(args...)
	}
	_ = s.enter(func() error {
		said, err = s.execute(args...)
		return nil
	})
	return said, err
}

// execute runs the binary under test, which must exit with 0, and returns what it printed.
func execute(args ...string) (string, error) { return (&server{}).execute(args...) }

// execute runs the server's binary, which must exit with 0, and returns what it printed.
func (s *server) execute(args ...string) (string, error) {
	whole := slices.Concat(s.through, []string{cmp.Or(s.binary, binary)}, args)
	cmd := exec.Command(whole[0], whole[1:]...)
	cmd.Env = cleanEnvironment()
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// forward gives each connection to the next node that takes it.
func (n *nodes) forward() {
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
func (n *nodes) relay(conn *net.TCPConn) {
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
func (n *nodes) dial() (*net.TCPConn, error) {
	turn := n.turn.Add(1)
	n.mu.Lock()
	var good, avoided []*server
	for i := range n.all {
		s := n.all[(turn+uint64(i))%uint64(len(n.all))]
		if n.avoided[s] {
			avoided = append(avoided, s)
		} else {
			good = append(good, s)
		}
	}
	n.mu.Unlock()
	for _, s := range append(good, avoided...) {
		conn, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
	}
	return nil, errors.New("no node takes connections")
}

// avoid has a node avoided, or no longer.
func (n *nodes) avoid(s *server, avoided bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.avoided == nil {
		n.avoided = map[*server]bool{}
	}
	n.avoided[s] = avoided
}

// heed has the proxy ask all nodes whether they are ready, and avoid those that are not.
func (n *nodes) heed(t testing.TB) {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	for _, s := range n.all {
		base := s.base
		go func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(100 * time.Millisecond):
				}
				resp, err := client.Get(base + "/readyz")
				if err == nil {
					_ = resp.Body.Close()
				}
				n.avoid(s, err != nil || resp.StatusCode != http.StatusOK)
			}
		}()
	}
}

// stop drains all nodes at once. None may have reported a defect.
func (n *nodes) stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	faults := concurrently(len(n.all), func(i int) error {
		s := n.all[i]
		if err := errors.Join(s.drain(15*time.Second), s.log.trouble()); err != nil {
			return fmt.Errorf("node %s: %w\n%s", s.flag("--node-name"), err, s.log.tail())
		}
		return nil
	})
	n.all = nil
	return errors.Join(append(faults, n.proxy.Close())...)
}

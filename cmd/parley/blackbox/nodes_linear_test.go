package blackbox

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"
)

// goesOn reports whether a client makes a further request after some: it makes n, and more
// while nodes are struck.
func (w *recordedServer) goesOn(made, n int) bool {
	if w.dying.Load() {
		return false
	}
	if w.apart.Load() {
		time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond) // the histories must stay small enough to judge
		return true
	}
	return made < n
}

// next is where the next request goes. The function reports later whether that node was
// struck meanwhile, so that connections to it may break.
func (w *recordedServer) next() (*Server, func() bool) {
	if w.direct == nil {
		return w.s, func() bool { return false }
	}
	return w.direct.AnyNode()
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

// strikeHalted halts the process of a node, and lets it go on after a while. Its connections
// stay open meanwhile, and what it answers later must be right too.
func (n *Nodes) strikeHalted(s *Server, while func()) error {
	signal := func(of syscall.Signal) func() error {
		return func() error { return s.Cmd.Process.Signal(of) }
	}
	return n.Strike(s, signal(syscall.SIGSTOP), signal(syscall.SIGCONT), while)
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

// throughStrike strikes nodes while clients run: in turn it kills the leader, halts the
// leader, kills a follower, and kills the leader while a follower is halted, so that for a
// while no majority is left. It ends when all nodes are ready and all clients are done.
func (w *recordedServer) throughStrike(run func()) {
	n, done := w.direct, make(chan struct{})
	leader, follower := n.Roles(w.t)
	w.apart.Store(true)
	go func() {
		defer close(done)
		run()
	}()
	began := time.Now()
	time.Sleep(time.Duration(100+rand.IntN(200)) * time.Millisecond)
	last := func() { time.Sleep(time.Duration(600+rand.IntN(600)) * time.Millisecond) }
	strikes := []func() error{
		func() error { return n.StrikeKilled(leader, last) },
		func() error { return n.strikeHalted(leader, last) },
		func() error { return n.StrikeKilled(follower, last) },
		func() error {
			return n.StrikeKilled(leader, func() {
				if err := n.strikeHalted(follower, last); err != nil {
					w.t.Error(err)
				}
			})
		},
	}
	if err := strikes[w.tally.kills%len(strikes)](); err != nil {
		w.t.Error(err)
	}
	w.tally.kills++
	n.Ready(w.t)
	w.t.Logf("strike %d took %v", w.tally.kills, time.Since(began).Round(time.Millisecond))
	w.apart.Store(false)
	<-done
}

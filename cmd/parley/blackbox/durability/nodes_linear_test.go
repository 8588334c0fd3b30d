package durability

import (
	"math/rand/v2"
	"syscall"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

// goesOn reports whether a client makes a further request after some: it makes n, and more
// while nodes are struck.
func goesOn(w *recorded.Server, made, n int) bool {
	if w.Dying.Load() {
		return false
	}
	if w.Apart.Load() {
		time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond) // the histories must stay small enough to judge
		return true
	}
	return made < n
}

// strikeHalted halts the process of a node, and lets it go on after a while. Its connections
// stay open meanwhile, and what it answers later must be right too.
func strikeHalted(n *kit.Nodes, s *kit.Server, while func()) error {
	signal := func(of syscall.Signal) func() error {
		return func() error { return s.Cmd.Process.Signal(of) }
	}
	return n.Strike(s, signal(syscall.SIGSTOP), signal(syscall.SIGCONT), while)
}

// throughStrike strikes nodes while clients run: in turn it kills the leader, halts the
// leader, kills a follower, and kills the leader while a follower is halted, so that for a
// while no majority is left. It ends when all nodes are ready and all clients are done.
func throughStrike(w *recorded.Server, run func()) {
	n, done := w.Direct, make(chan struct{})
	leader, follower := n.Roles(w.T)
	w.Apart.Store(true)
	go func() {
		defer close(done)
		run()
	}()
	began := time.Now()
	time.Sleep(time.Duration(100+rand.IntN(200)) * time.Millisecond)
	last := func() { time.Sleep(time.Duration(600+rand.IntN(600)) * time.Millisecond) }
	strikes := []func() error{
		func() error { return n.StrikeKilled(leader, last) },
		func() error { return strikeHalted(n, leader, last) },
		func() error { return n.StrikeKilled(follower, last) },
		func() error {
			return n.StrikeKilled(leader, func() {
				if err := strikeHalted(n, follower, last); err != nil {
					w.T.Error(err)
				}
			})
		},
	}
	if err := strikes[w.Tally.Kills%len(strikes)](); err != nil {
		w.T.Error(err)
	}
	w.Tally.Kills++
	n.Ready(w.T)
	w.T.Logf("strike %d took %v", w.Tally.Kills, time.Since(began).Round(time.Millisecond))
	w.Apart.Store(false)
	<-done
}

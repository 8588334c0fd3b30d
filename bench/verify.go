package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario"
	"parley/bench/scenario/host"
	"parley/bench/target"
)

const (
	killedClients = 32
	// killAfter is how long the load runs before the server is killed.
	killAfter = 500 * time.Millisecond
)

// verify kills the server under load, starts it again and reads back every message that
// was ever acknowledged.
func (r *runner) verify(ctx context.Context, s *side) error {
	killed, took, err := r.killUnderLoad(ctx, s)
	if err != nil {
		return fmt.Errorf("verification: %w", err)
	}
	r.settle(ctx) // copies of unfinished broadcasts arrive after the start
	r.Live.Note(fmt.Sprintf("%s: reading %d acknowledged messages back", s.host.Name(), s.host.Acknowledged()))
	v, err := s.host.Verify(ctx)
	if err != nil {
		return err
	}
	v.Killed, v.RestartSeconds = killed, took.Seconds()
	r.out.Verified = v
	return nil
}

func (r *runner) killUnderLoad(ctx context.Context, s *side) (killed bool, took time.Duration, err error) {
	dial, err := scenario.PrepareMixedLoad(ctx, s.host, killedClients)
	if err != nil {
		return false, 0, err
	}
	under, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		// The error is expected: the server is killed during the run.
		_, _ = load.Run(under, load.Plan{Clients: killedClients, Duration: time.Minute}, dial, nil)
	}()
	waited := host.SleepUntil(ctx, time.Now().Add(min(killAfter, r.Duration)))
	err = s.target.Kill()
	cancel()
	<-over
	s.host.Settle(&result.Run{})
	switch {
	case waited != nil:
		return false, 0, waited
	case errors.Is(err, target.ErrNotOurs):
		r.Live.Note(s.host.Name() + ": the server was not started here: its messages are read back without killing it")
		return false, 0, nil
	case err != nil:
		return false, 0, err
	}
	took, err = r.startAgain(ctx, s)
	return true, took, err
}

// startAgain starts a server that was stopped or killed.
func (r *runner) startAgain(ctx context.Context, s *side) (took time.Duration, err error) {
	began := time.Now()
	endpoint, err := s.target.Start(ctx)
	if err != nil {
		return 0, fmt.Errorf("the server does not start again: %w", err)
	}
	took = time.Since(began)
	s.host.Reopen(endpoint)
	return took, nil
}

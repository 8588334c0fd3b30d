package scenario

import (
	"context"
	"math/rand/v2"

	"parley/bench/load"
)

// sending is the client of Send.
type sending struct {
	courier
	choice *rand.Rand
	agents int
	key    Key
}

func (h *Host) prepareSend() (load.Dial, error) {
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := h.courier(ctx, worker)
		if err != nil {
			return nil, err
		}
		return &sending{
			courier: c, choice: h.choice(run, worker), agents: h.params.Agents,
			key: Key{Run: run, Worker: uint32(worker)},
		}, nil
	}, nil
}

// choice returns the random generator of one client, the same for the same seed.
func (h *Host) choice(run uint16, worker int) *rand.Rand {
	return rand.New(rand.NewPCG(h.params.Seed, uint64(run)<<32|uint64(worker)))
}

// Do implements load.Client.
func (s *sending) Do(_ context.Context, n int, _ *load.Laps) error {
	s.key.N = uint32(n)
	return s.deliver(s.choice.IntN(s.agents), s.key)
}

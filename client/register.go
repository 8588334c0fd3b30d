package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/bits"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"parley/client/api"
)

// ProofProgress is the progress of a proof of work.
type ProofProgress struct {
	// Tried is the number of nonces tried; about 2^Difficulty are needed on average.
	Tried uint64
	// Difficulty is the number of zero bits.
	Difficulty int
}

// ErrProof means that this client cannot solve a challenge of that kind.
var ErrProof = errors.New("the proof of work asked for is of an unknown kind or too hard")

// proofBitsMax is the highest difficulty that the client accepts; beyond it a proof would
// take days.
const proofBitsMax = 40

// Register requests a challenge, computes the proof of work on all cores and submits it.
// The client itself does not change: see Authenticated. A challenge that expired before
// it was solved is replaced once.
func (c *Session) Register(ctx context.Context, in api.Register) (*Credentials, error) {
	for again := true; ; again = false {
		out, err := c.register(ctx, in)
		if err == nil || !again || !errors.Is(err, ChallengeExpired) {
			return out, err
		}
	}
}

func (c *Session) register(ctx context.Context, in api.Register) (*Credentials, error) {
	challenge, err := c.Challenge(ctx, in)
	if err != nil {
		return nil, err
	}
	if challenge.Algorithm != "sha256-hashcash" {
		return nil, ErrProof
	}
	nonce, err := SolveProof(ctx, challenge.Challenge, challenge.Difficulty, c.progress)
	if err != nil {
		return nil, err
	}
	return c.Solve(ctx, api.Solve{ChallengeID: challenge.ChallengeID, Nonce: nonce})
}

// SolveProof finds a nonce such that SHA-256 of challenge, a colon and the nonce begins
// with difficulty zero bits. It uses all cores until it has found one or ctx ends.
// progress may be nil; it is called about ten times a second.
func SolveProof(ctx context.Context, challenge string, difficulty int, progress func(ProofProgress)) (string, error) {
	if difficulty < 0 || difficulty > proofBitsMax {
		return "", ErrProof
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	search := &search{challenge: challenge, difficulty: difficulty, found: make(chan string, 1)}
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for i := range runtime.GOMAXPROCS(0) {
		workers.Go(func() { search.work(ctx, i) })
	}
	return search.await(ctx, progress)
}

type search struct {
	challenge  string
	difficulty int
	tried      atomic.Uint64
	found      chan string
}

func (s *search) await(ctx context.Context, progress func(ProofProgress)) (string, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case nonce := <-s.found:
			return nonce, nil
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
			if progress != nil {
				progress(ProofProgress{Tried: s.tried.Load(), Difficulty: s.difficulty})
			}
		}
	}
}

// work tries the nonces of one worker, which begin with its number.
func (s *search) work(ctx context.Context, worker int) {
	const stride = 4096
	head := []byte(s.challenge + ":" + strconv.Itoa(worker) + "-")
	text := make([]byte, 0, len(head)+24)
	for n := uint64(0); ctx.Err() == nil; n += stride {
		for i := n; i < n+stride; i++ {
			text = strconv.AppendUint(append(text[:0], head...), i, 10)
			if sum := sha256.Sum256(text); zeroBits(sum) >= s.difficulty {
				select {
				case s.found <- string(text[len(s.challenge)+1:]):
				default:
				}
				return
			}
		}
		s.tried.Add(stride)
	}
}

func zeroBits(sum [32]byte) int {
	n := 0
	for _, b := range sum {
		if b != 0 {
			return n + bits.LeadingZeros8(b)
		}
		n += 8
	}
	return n
}

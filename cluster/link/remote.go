package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// remote is a peer as this node reaches it.
type remote struct {
	id      uint64
	address string
	conn    *grpc.ClientConn
	ctx     context.Context
	stop    context.CancelFunc

	logger *slog.Logger
	// causes were logged since the peer was last reached.
	causes []string // under mu

	// malformed reports that the peer sent something malformed.
	malformed func(error) error

	*traffic
	messages, calls *outbox
	up              atomic.Bool // the stream of messages is open

	mu      sync.Mutex
	last    uint64           // id of the last call
	pending map[uint64]*call // calls without an answer
	// refuse ends the stream of answers.
	refuse context.CancelCauseFunc
}

// call is a request that waits for its answer.
type call struct {
	sent     bool
	answered chan struct{}
	answer   []byte
	err      error
}

func (p *remote) close() {
	p.stop()
	_ = p.conn.Close()
}

// sendMessages keeps a stream open and sends what waits. What is lost with a stream is not
// sent again. If the peer ends streams because of what it got, the pauses grow.
func (p *remote) sendMessages() {
	for pause := reconnectMin; p.ctx.Err() == nil; pause = min(2*pause, reconnectMax) {
		stream, err := p.conn.NewStream(p.ctx, &messagesStream, path(&messagesStream))
		if err == nil {
			ended := make(chan struct{})
			go func() { // the only answer is the end
				var end []byte
				err = stream.RecvMsg(&end)
				close(ended)
			}()
			p.up.Store(true)
			settled := time.AfterFunc(settledAfter, p.reached)
			sent := p.pump(p.messages, stream, ended, nil)
			<-ended
			settled.Stop()
			if sent > 0 && status.Code(err) != codes.InvalidArgument {
				pause = reconnectMin / 2
			}
			p.up.Store(false)
		}
		p.lost(err)
		p.dropped.Add(uint64(p.messages.drop()))
		p.wait(pause)
	}
}

const (
	// causesMax bounds what is logged of one outage.
	causesMax = 5
	// settledAfter is how long a stream has to last for its peer to count as reached: one that does
	// not know this node ends it at once.
	settledAfter = 500 * time.Millisecond
)

// lost logs why a peer cannot be reached, each cause once until it is reached again.
func (p *remote) lost(err error) {
	cause := status.Convert(err).Message()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil || len(p.causes) == causesMax || slices.Contains(p.causes, cause) {
		return
	}
	p.causes = append(p.causes, cause)
	p.logger.Warn("a node of the cluster cannot be reached", "node", p.named(), "address", p.address, "error", cause)
}

// reached logs that a peer can be reached again.
func (p *remote) reached() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.causes) > 0 {
		p.logger.Info("a node of the cluster is reached again", "node", p.named(), "address", p.address)
		p.causes = nil
	}
}

// named is the id of the peer, as all print it.
func (p *remote) named() string { return fmt.Sprintf("%016x", p.id) }

// pump sends what waits until the stream ends, and returns how many batches it sent.
func (p *remote) pump(from *outbox, stream grpc.ClientStream, ended <-chan struct{}, wanted func(frame) bool) (sent int) {
	for {
		select {
		case <-from.ready:
		case <-ended:
			return sent
		case <-p.ctx.Done():
			return sent
		}
		runtime.Gosched() // others may have something that leaves with it
		frames := from.take(wanted)
		if len(frames) == 0 {
			continue
		}
		batch := encodeFrames(frames)
		size := batch.Len()
		if stream.SendMsg(batch) != nil {
			return sent
		}
		p.noteSent(len(frames), size)
		sent++
	}
}

func (p *remote) wait(pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-p.ctx.Done():
	}
}

// call sends a request and waits for the answer, until ctx is done or over is closed.
func (p *remote) call(ctx context.Context, over <-chan struct{}, request []byte) ([]byte, error) {
	c := &call{answered: make(chan struct{})}
	p.mu.Lock()
	if p.ctx.Err() != nil {
		p.mu.Unlock()
		return nil, ErrUnreached
	}
	p.last++
	id := p.last
	p.pending[id] = c
	p.mu.Unlock()
	if !p.calls.put(frame{id: id, body: request}) {
		_, _ = p.forget(id)
		return nil, ErrUnreached // it was never sent
	}
	select {
	case <-c.answered:
		return c.answer, c.err
	case <-ctx.Done():
	case <-over:
	}
	if waited, err := p.forget(id); waited {
		return nil, err
	}
	<-c.answered
	return c.answer, c.err
}

// forget drops a call that nobody waits for any more, and returns what is known about it:
// one that was not sent never will be. It returns false if the call has its answer.
func (p *remote) forget(id uint64) (waited bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.pending[id]
	if c == nil {
		return false, nil
	}
	delete(p.pending, id)
	return true, c.lost()
}

// lost is why a call has no answer.
func (c *call) lost() error {
	if c.sent {
		return ErrCut
	}
	return ErrUnreached
}

// sendCalls keeps a stream open, sends calls and distributes the answers. If there is no
// stream, or it ends, all calls fail at once.
func (p *remote) sendCalls() {
	defer p.fail()
	for p.ctx.Err() == nil {
		ctx, refuse := context.WithCancelCause(p.ctx)
		p.mu.Lock()
		p.refuse = refuse
		p.mu.Unlock()
		stream, err := p.conn.NewStream(ctx, &callsStream, path(&callsStream))
		if err == nil {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				var err error
				for err == nil {
					err = p.receiveAnswers(stream)
				}
				if refused := context.Cause(ctx); errors.Is(refused, ErrFrame) {
					err = refused
				}
				_ = p.malformed(err)
			}()
			p.pump(p.calls, stream, ended, p.sending)
			_ = stream.CloseSend()
			<-ended
		}
		refuse(nil)
		p.fail()
		p.wait(reconnectMin)
	}
}

// malformedAnswer ends the stream of answers because of one of them.
func (p *remote) malformedAnswer(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		p.refuse(fmt.Errorf("%w: %w", ErrFrame, err))
	}
}

// sending marks a call as sent: from now on the peer may get it. It returns false if nobody
// waits for the call any more: then it must not be sent.
func (p *remote) sending(f frame) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.pending[f.id]
	if c != nil {
		c.sent = true
	}
	return c != nil
}

func (p *remote) receiveAnswers(stream grpc.ClientStream) error {
	frames, err := p.receive(stream)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range frames {
		c := p.pending[f.id]
		if c == nil {
			continue // its caller has given up
		}
		delete(p.pending, f.id)
		if c.answer = f.body; f.failed {
			c.answer, c.err = nil, fmt.Errorf("the node answered: %s", f.body)
			if string(f.body) == ErrNoMember.Error() { // it did nothing
				c.err = errors.Join(ErrUnreached, ErrNoMember)
			}
		}
		close(c.answered)
	}
	return nil
}

// fail ends all calls.
func (p *remote) fail() {
	p.calls.drop() // what comes after this and fails is not wanted when it is taken
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, c := range p.pending {
		c.err = c.lost()
		delete(p.pending, id)
		close(c.answered)
	}
}

package http

import (
	"net"
	"syscall"
	"time"

	"parley"
	"parley/actors"
	"parley/http/api"
)

const (
	// waitItems is how many messages one wait gives at most.
	waitItems = 20
	// goneLook is how often a wait looks whether its client is still there.
	goneLook = time.Second
)

// wait answers as soon as there are messages for an agent, and with none when
// the time is up. What it gives counts as carried. // contract: Messages and conversations
func (s *Service) wait(c *Call, in *api.Wait) (Rendered, error) {
	a, err := s.ownAgent(c, in.ID)
	if err != nil {
		return Rendered{}, err
	}
	if a.Revoked() {
		return Rendered{}, errRevokedAgent
	}
	w := expectation{service: s, call: c, agent: in.ID, cursor: in.After != nil}
	if w.cursor && !in.After.Zero() {
		if w.beyond, err = s.Node.PlaceIn(c.Context(), in.ID, *in.After); err != nil {
			return Rendered{}, notTheirs(err)
		}
	}
	var found actors.Waiting
	if !c.Head() {
		if found, err = w.expect(time.Duration(in.TimeoutMS) * time.Millisecond); err != nil {
			return Rendered{}, err
		}
	}
	after := in.After
	if n := len(found.Items); n > 0 {
		last := found.Items[n-1].Record.MessageID()
		after = &last
	}
	return c.render(func(b []byte) []byte {
		return appendWaited(b, found, viewer{c.Caller.Org, in.ID, s}, after)
	}), nil
}

// expectation is a wait for messages.
type expectation struct {
	service *Service
	call    *Call
	agent   parley.AgentID
	// cursor: what is not read yet is wanted; else what was not carried yet.
	cursor bool
	// beyond is the position up to which nothing is wanted.
	beyond uint64
}

// expect returns when there is something, or time is up, or nobody waits any
// more.
func (w *expectation) expect(patience time.Duration) (actors.Waiting, error) {
	wake := make(chan struct{}, 1)
	stop := w.service.Node.Watch(w.agent, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	defer stop()
	timer, look := time.NewTimer(patience), time.NewTicker(goneLook)
	defer timer.Stop()
	defer look.Stop()
	for {
		found, err := w.look()
		if err != nil || len(found.Items) > 0 {
			return found, err
		}
		for waiting := true; waiting; {
			select {
			case <-wake:
				waiting = false
			case <-look.C:
				if w.call.gone() {
					return found, nil
				}
			case <-timer.C:
				return found, nil
			case <-w.call.Draining():
				return found, nil
			}
		}
	}
}

// look gives what there is, and marks it unless nobody is there to take it.
func (w *expectation) look() (found actors.Waiting, err error) {
	ctx, n := w.call.Context(), w.service.Node
	edge := n.Edge(w.agent) // the look sees all up to it
	if w.cursor {
		found, err = n.WaitingAfter(ctx, w.agent, w.beyond, waitItems)
	} else {
		found, err = n.WaitingFor(ctx, w.agent, w.beyond, waitItems)
	}
	switch {
	case err != nil:
		return actors.Waiting{}, err
	case len(found.Items) == 0:
		w.beyond = max(w.beyond, edge)
		return found, nil
	case w.call.gone():
		return found, nil
	}
	return found, w.service.markPage(w.call, w.agent, found.Items, parley.WaitChannel)
}

func appendWaited(b []byte, w actors.Waiting, v viewer, after *parley.MessageID) []byte {
	b = append(b, `{"items":[`...)
	for i, m := range w.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMessage(b, m, v)
	}
	b = append(b, `],"after":`...)
	if after == nil {
		b = append(b, `null`...)
	} else {
		b = appendID(b, parley.AnyID(*after))
	}
	b = appendInt(append(b, `,"unread":`...), w.Unread)
	return append(b, '}')
}

// gone reports whether the client has closed its end of the connection. It is
// not known of one that has sent more already.
func (c *Call) gone() bool {
	conn := c.ctx.Conn()
	if l, ok := conn.(*line); ok {
		conn = l.Conn
	}
	return isGone(conn)
}

func isGone(conn net.Conn) bool {
	kernel, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	socket, err := kernel.SyscallConn()
	return err != nil || atEnd(socket)
}

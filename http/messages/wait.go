package messages

import (
	"math"
	"time"

	"parley/actors/query"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/content"
	"parley/http/rest"
	"parley/http/view"
	"parley/journal"
)

const (
	// waitItems is the maximum number of messages that one wait returns.
	waitItems = 20
	// waitReads is how many pieces of a feed one wait searches in a row for untransferred
	// messages. The next one continues where it ended.
	waitReads = 16
	// gonePoll is how often a wait checks that its client is still connected.
	gonePoll = time.Second
)

// Wait answers as soon as there are messages for an agent, or with none after the
// timeout. The messages it returns count as transferred, unless it only looks. // docs: delivery.md
func (s Inbox) Wait(c *rest.Call, in *api.Wait) (rest.Rendered, error) {
	_, err := s.Agents.Active(c, in.ID)
	if err != nil {
		return rest.Rendered{}, err
	}
	looks, err := s.onlyLooks(c, in.ID, in.ActingAgent, in.Peek)
	if err != nil {
		return rest.Rendered{}, err
	}
	w := messageWait{options: s.Options, call: c, agent: in.ID, onlyLooks: looks, watch: s.Node.Feeds.Watch, awaited: s.Node.Feeds.Untransferred(in.ID), looks: waitReads}
	if in.Peek && in.After == nil {
		w.awaited, w.looks = s.Node.Feeds.FromNow(in.ID), math.MaxInt
	}
	if in.After != nil {
		place := uint64(0)
		if !in.After.Zero() {
			if place, err = s.Node.Messages.PositionIn(c.Context(), in.ID, *in.After); err != nil {
				return rest.Rendered{}, notTheirs(err)
			}
		}
		// Entries skipped here are skipped again at each read, so only the timeout bounds
		// the wait.
		w.awaited, w.looks = s.Node.Feeds.After(in.ID, place), math.MaxInt
	}
	var found query.Waiting
	if !c.RequestCtx().IsHead() {
		if found, err = w.expect(time.Duration(in.TimeoutMS) * time.Millisecond); err != nil {
			return rest.Rendered{}, err
		}
	}
	after := in.After
	if n := len(found.Items); n > 0 {
		last := found.Items[n-1].Record.MessageID()
		after = &last
	}
	return c.Render(w.budget.size(), func(b []byte) []byte {
		return appendWaited(b, s.Agents.ToViews(c.Context(), found.Items), found.Unread, w.budget.viewer, after)
	}), nil
}

// messageWait is a wait for messages.
type messageWait struct {
	options *Options
	call    *rest.Call
	agent   parley.AgentID
	// onlyLooks leaves the messages as they are.
	onlyLooks bool
	// watch is Watch of the node's feeds.
	watch   func(parley.AgentID, func()) (stop func())
	awaited query.Awaited
	// looks is how many reads may follow each other.
	looks int
	// budget bounds the size of the answer.
	budget pageBudget
}

// expect returns when there are messages, patience has passed, or the client has gone.
func (w *messageWait) expect(patience time.Duration) (query.Waiting, error) {
	wake := make(chan struct{}, 1)
	again := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	stop := w.watch(w.agent, again)
	defer stop()
	timer, look := time.NewTimer(patience), time.NewTicker(gonePoll)
	defer timer.Stop()
	defer look.Stop()
	for looks := 1; ; looks++ {
		found, more, err := w.look()
		switch {
		case err != nil || len(found.Items) > 0 || more && looks >= w.looks:
			return found, err
		case more:
			again()
		default:
			looks = 0
		}
		if !w.rest(timer.C, look.C, wake) {
			return found, nil
		}
	}
}

// rest waits until there may be messages, and reports whether to look for them: the client
// is still connected, and this node has contact with its cluster.
func (w *messageWait) rest(late, look <-chan time.Time, wake <-chan struct{}) bool {
	defer w.call.Park()()
	for {
		select {
		case <-late:
			return false
		case <-w.call.Draining():
			return false
		case <-look:
			if w.call.Gone() || w.options.CutOff() {
				return false
			}
		case <-wake:
			return true
		}
	}
}

// look returns the available messages and records them as transferred, unless the client
// has gone.
func (w *messageWait) look() (found query.Waiting, more bool, err error) {
	w.budget = pageBudget{call: w.call, viewer: w.options.viewer(w.call.Caller.Principal, w.agent)}
	found, more, err = w.awaited.Look(w.call.Context(), waitItems, w.budget.fits)
	if err != nil || len(found.Items) == 0 || w.onlyLooks || w.call.Gone() {
		return found, more, err
	}
	return found, more, Inbox{w.options}.recordTransfers(w.call, w.agent, found.Items, journal.WaitChannel)
}

func appendWaited(b []byte, items []view.Message, unread int, v view.Viewer, after *parley.MessageID) []byte {
	b = view.AppendMessages(append(b, `{"items":[`...), items, v)
	b = append(b, `],"after":`...)
	if after == nil {
		b = append(b, `null`...)
	} else {
		b = content.AppendID(b, parley.AnyID(*after))
	}
	b = content.AppendInt(append(b, `,"unread":`...), unread)
	return append(b, '}')
}

package messages

import (
	"errors"
	"strings"
	"time"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/content"
	"parley/http/rest"
	"parley/http/submission"
	"parley/http/view"
	"parley/journal"
)

// syncBatch is how many feed entries a waiter reads at a time.
const syncBatch = 64

// SendAndWait sends a message and waits for the reply in the sender's own feed. It
// follows the feed from before the send, so that it cannot miss the reply.
// // spec: Messaging
func (s Messages) SendAndWait(c *rest.Call, in *api.Sync) (rest.Rendered, error) {
	if in.ToHandle != nil && strings.HasPrefix(*in.ToHandle, "#") {
		return rest.Rendered{}, errGroupSync
	}
	if err := s.Desk.CheckType(in.Type); err != nil {
		return rest.Rendered{}, err
	}
	from, err := s.Desk.Sender(c, &in.Send)
	if err != nil {
		return rest.Rendered{}, err
	}
	wake := make(chan struct{}, 1)
	feed := s.Node.Feeds.Follow(from.AgentID(), s.Node.Feeds.DurablePosition(from.AgentID()), func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	defer feed.Close()
	erased, stop := s.Erasures.follow()
	defer stop()
	posted, err := s.Desk.Send(c, &in.Send, from, submission.ViaSync, nil)
	if err != nil {
		return rest.Rendered{}, err
	}
	notePosted(c, posted)
	w := replyWait{options: s.Options, call: c, from: from, message: posted.Message, feed: feed, wake: wake, erased: erased}
	if err := w.wait(time.Duration(in.TimeoutMS)*time.Millisecond, posted.Repeated); err != nil {
		return rest.Rendered{}, err
	}
	return w.render(posted)
}

// replyWait waits for the outcome of a message.
type replyWait struct {
	options *Options
	call    *rest.Call
	from    *agent.State
	message *record.Message
	feed    journal.Subscription
	wake    <-chan struct{}
	erased  <-chan struct{} // an organization was erased

	reply  *query.Message
	closed string // the status in which the conversation ended without a reply
}

// wait returns when there is a reply, the conversation has ended, or patience has passed.
// The message of a repeated request may have been answered long ago. The error is
// journal.ErrErased if the message was erased.
func (w *replyWait) wait(patience time.Duration, repeated bool) error {
	if repeated {
		if err := w.lookBack(); err != nil {
			return err
		}
	}
	timer, look := time.NewTimer(patience), time.NewTicker(gonePoll)
	defer timer.Stop()
	defer look.Stop()
	for w.reply == nil && w.closed == "" {
		entries, err := w.feed.Next(syncBatch)
		if err != nil {
			return err
		}
		if err := w.options.Node.Feeds.Entries(w.call.Context(), w.from.AgentID(), entries, w.see); err != nil {
			return err
		}
		if len(entries) > 0 {
			continue
		}
		more, err := w.rest(timer.C, look.C)
		if !more || err != nil {
			return err
		}
	}
	return nil
}

// rest waits until the feed may have new entries, and reports whether to read it.
func (w *replyWait) rest(late, look <-chan time.Time) (more bool, err error) {
	defer w.call.Park()()
	for {
		select {
		case <-w.wake:
			return true, nil
		case <-late:
			return false, nil
		case <-w.erased:
			_, err := w.options.Node.Messages.Conversation(w.call.Context(), w.message.Conversation())
			if errors.Is(err, journal.ErrErased) {
				return false, err
			}
		case <-look:
			if w.call.Evicted() || w.call.Gone() || w.options.CutOff() {
				return false, nil
			}
		case <-w.call.Draining():
			return false, nil
		}
	}
}

// lookBack searches for a reply, or the end of the conversation, from before this
// request.
func (w *replyWait) lookBack() error {
	ctx, id := w.call.Context(), w.message.Conversation()
	reply, found, err := w.options.Node.Messages.ReplyAfter(ctx, id, w.message.MessageID(), w.from.AgentID())
	if err != nil {
		return err
	}
	if found {
		return w.take(reply)
	}
	state, err := w.options.Node.Messages.Conversation(ctx, id)
	if err == nil && state.Terminal() {
		w.closed = state.GetStatus().String()
	}
	return err
}

// see checks entries of the sender's feed until one decides the outcome.
func (w *replyWait) see(e journal.FeedEntry, m query.Message) error {
	if w.reply != nil || w.closed != "" {
		return nil
	}
	if e.Kind == journal.StatusEntry {
		word, _ := record.StatusNews(e.Note)
		status, known := conversation.ParseStatus(word)
		if known && status.Terminal() && parley.ConversationID(e.Ref) == w.message.Conversation() {
			w.closed = status.String()
		}
		return nil
	}
	if !e.Kind.BringsMessage() || m.Record.Conversation() != w.message.Conversation() {
		return nil
	}
	return w.take(m)
}

// take transfers the reply to its recipient, unless the client has gone.
func (w *replyWait) take(m query.Message) error {
	if w.call.Gone() {
		w.reply = &m
		return nil
	}
	if w.call.Reserve(w.sizeBound(w.message)+w.sizeBound(m.Record)) != nil { // before it is marked
		return parley.ErrOutcomeUnknown
	}
	m, err := Inbox{w.options}.carry(w.call, m, journal.SyncChannel, false)
	w.reply = &m
	return err
}

func (w *replyWait) render(posted actors.Posted) (rest.Rendered, error) {
	v := w.options.viewerOf(w.call, w.from)
	current, err := w.options.Node.Messages.Get(w.call.Context(), posted.Message.MessageID())
	if err != nil {
		return rest.Rendered{}, err
	}
	size := w.sizeBound(current.Record)
	if w.reply != nil {
		size += w.sizeBound(w.reply.Record)
	}
	return w.call.Render(size, func(b []byte) []byte { return w.appendResult(b, current, v) }), nil
}

func (w *replyWait) sizeBound(r *record.Message) int {
	return rest.PageFrame + w.options.viewerOf(w.call, w.from).SizeBound(r)
}

func (w *replyWait) appendResult(b []byte, sent query.Message, v view.Viewer) []byte {
	show := func(m query.Message) view.Message { return w.options.Agents.ToView(w.call.Context(), m) }
	b = view.AppendMessage(append(b, `{"message":`...), show(sent), v)
	b = append(b, `,"reply":`...)
	status := api.SyncTimeout
	switch {
	case w.reply != nil:
		b, status = view.AppendMessage(b, show(*w.reply), v), api.SyncReplied
	case w.closed != "":
		b, status = append(b, `null`...), api.SyncClosed
	default:
		b = append(b, `null`...)
	}
	b = content.AppendID(append(b, `,"conversation_id":`...), parley.AnyID(sent.Record.Conversation()))
	b = content.AppendText(append(b, `,"status":`...), status)
	if w.closed != "" {
		b = content.AppendText(append(b, `,"conversation_status":`...), w.closed)
	}
	return append(b, '}')
}

package a2a

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/maypok86/otter/v2"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/query"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/auth"
	"parley/http/egress"
	"parley/http/limit"
	"parley/http/rest"
	"parley/http/submission"
	"parley/journal"
)

// Options configure a Bridge. All fields but Streams are required.
type Options struct {
	Node   *actors.Node
	Agents *access.Agents
	Desk   *submission.Desk
	Cards  *Cards
	// Cursors seals the positions of lists.
	Cursors *rest.Cursors
	// Brand is the neutral word in message types and media types.
	Brand string
	Clock parley.Clock
	// Entropy draws ids of push notification configurations.
	Entropy parley.Entropy
	// Guard checks the targets of push notifications, Vault seals what goes with them.
	Guard *egress.Guard
	Vault *auth.MasterKey
	// Budget bounds the bytes that streams hold.
	Budget *limit.Budget
	// StreamLimit returns how many streams an agent of the caller may have; nil means no
	// limit. Streams counts them on all nodes of a cluster; nil is for a server on its own.
	StreamLimit func(rest.Caller) *int
	Streams     *limit.Concurrency
	// Transferred records that messages were transferred to their recipient over the bridge.
	Transferred func(ctx context.Context, now time.Time, messages []query.Message) error
	// CutOff reports that this node has lost contact with its cluster: streams end.
	CutOff func() bool
	Logger *slog.Logger
}

// Bridge serves A2A. It is safe for concurrent use.
type Bridge struct {
	Options
	hub *hub
	// contexts remembers the roots of conversations, folds what notifications have read.
	contexts *otter.Cache[contextKey, parley.ConversationID]
	folds    *otter.Cache[foldKey, folded]
	streams  openStreams
	stop     func()
}

// New returns a Bridge. The caller has to close it.
func New(o Options) *Bridge {
	b := &Bridge{
		Options: o, hub: newHub(), contexts: otter.Must(&otter.Options[contextKey, parley.ConversationID]{MaximumSize: contextsMax}),
		folds:   otter.Must(&otter.Options[foldKey, folded]{MaximumSize: foldsMax}),
		streams: openStreams{all: map[*taskStream]struct{}{}, of: map[parley.AgentID]int{}, onNodes: o.Streams},
	}
	b.stop = o.Node.Feeds.WatchConversations(b.hub.changed, b.hub.wakeAll)
	return b
}

// Close stops following conversations.
func (b *Bridge) Close() { b.stop() }

// Forget ends the streams of an organization that was erased, drops what is cached of it,
// and has all who follow a task look whether it is still there.
func (b *Bridge) Forget(id parley.OrgID) {
	b.streams.end(id)
	b.Cards.forget(id)
	b.folds.InvalidateAll()
	for key := range b.contexts.Keys() {
		if key.org == id {
			b.contexts.Invalidate(key)
		}
	}
	b.hub.wakeAll()
}

// EndStreams ends all streams of an organization or a credential.
func (b *Bridge) EndStreams(id [16]byte) { b.streams.end(id) }

// OpenStreams is the number of open streams.
func (b *Bridge) OpenStreams() int { return b.streams.len() }

// call is one request to the agent to.
type call struct {
	*rest.Call
	request
	to *agent.State
	in *api.A2ARequest
}

// method handles the requests of one method. It returns the result, or streamed if it has
// taken the connection over.
type method func(b *Bridge, c *call) (result any, err error)

// streamed is the result of a method that answers by a stream.
type streamed struct{}

// methods are the methods of A2A 1.0 and, as aliases, the names that some of them had in
// 0.3.
var methods = map[string]method{
	"SendMessage": (*Bridge).sendMessage, "message/send": (*Bridge).sendMessage,
	"SendStreamingMessage": (*Bridge).sendStreaming, "message/stream": (*Bridge).sendStreaming,
	"GetTask": (*Bridge).getTask, "tasks/get": (*Bridge).getTask,
	"CancelTask": (*Bridge).cancelTask, "tasks/cancel": (*Bridge).cancelTask,
	"SubscribeToTask": (*Bridge).subscribe, "tasks/resubscribe": (*Bridge).subscribe,
	"ListTasks":                        (*Bridge).listTasks,
	"CreateTaskPushNotificationConfig": (*Bridge).createPush,
	"GetTaskPushNotificationConfig":    (*Bridge).getPush,
	"ListTaskPushNotificationConfigs":  (*Bridge).listPush,
	"DeleteTaskPushNotificationConfig": (*Bridge).deletePush,
	"GetExtendedAgentCard":             (*Bridge).extendedCard,
}

// Serve answers a JSON-RPC request. // spec: A2A bridge
func (b *Bridge) Serve(c *rest.Call, in *api.A2ARequest) error {
	to, err := b.addressed(c, in.Handle)
	if errors.Is(err, journal.ErrErased) {
		return b.serveErased(c)
	}
	if err != nil {
		return err
	}
	if err := c.CheckJSON(); err != nil {
		return err
	}
	request, err := parse(c.Body())
	if err == nil && c.Caller.Suspended {
		err = rest.ErrSuspended
	}
	if err == nil {
		err = checkVersion(in)
	}
	var result any
	if err == nil {
		serve, known := methods[request.method]
		if !known {
			return b.answer(c, failure(request.id, fail(codeNoMethod, "METHOD_NOT_FOUND", "There is no method "+quoted(request.method)+".")))
		}
		result, err = serve(b, &call{c, request, to, in})
	}
	if err != nil {
		return b.refuse(c, request.id, err)
	}
	if _, stream := result.(streamed); stream {
		return nil
	}
	return b.answer(c, response{Version: "2.0", ID: request.id, Result: result})
}

// serveErased answers a request to an agent that was erased: there are no tasks with it any
// more, and it takes no messages.
func (b *Bridge) serveErased(c *rest.Call) error {
	if err := c.CheckJSON(); err != nil {
		return err
	}
	request, err := parse(c.Body())
	if err == nil && c.Caller.Suspended {
		err = rest.ErrSuspended
	} else if err == nil {
		if _, known := methods[request.method]; !known || sends[request.method] && !continues(request) {
			return errNoAgent
		}
		err = errNotFound
	}
	return b.refuse(c, request.id, err)
}

// sends are the methods that send a message, and that of the card.
var sends = map[string]bool{"SendMessage": true, "message/send": true, "SendStreamingMessage": true, "message/stream": true, "GetExtendedAgentCard": true}

// continues reports whether a request names the task to which its message belongs.
func continues(r request) bool {
	in, err := params[sendParams](&call{request: r})
	return err == nil && in.Message != nil && in.Message.TaskID != ""
}

// refuse answers with an error. A refusal that has an HTTP status of its own is returned.
func (b *Bridge) refuse(c *rest.Call, id jsontext.Value, err error) error {
	var own *rpcError
	if errors.As(err, &own) {
		return b.answer(c, failure(id, own))
	}
	p := rest.ProblemOf(err)
	if onHTTP[p.Status] {
		return err
	}
	if p.Status == 500 {
		b.Logger.Error("A2A request failed", "request_id", c.RequestID(), "error", err)
	}
	return b.answer(c, failure(id, ofProblem(p)))
}

// answer sends a response.
func (b *Bridge) answer(c *rest.Call, r response) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.Answer(rest.Rendered{JSON: text})
}

// addressed returns the agent with a handle or an id, if the bridge serves it.
func (b *Bridge) addressed(c *rest.Call, name string) (a *agent.State, err error) {
	if id, malformed := parley.ParseID[parley.AgentID](name); malformed == nil {
		a, err = b.Node.Agents.Get(c.Context(), id)
	} else {
		a, err = b.Agents.ByHandle(c, name)
	}
	switch {
	case errors.Is(err, parley.ErrNotFound), errors.Is(err, parley.ErrBadHandle):
		return nil, errNoAgent
	case err != nil:
		return nil, err
	case a.Revoked() || !a.GetCard().GetA2AEnabled():
		return nil, errNoAgent
	}
	return a, nil
}

var errNoAgent = parley.ErrNotFound.Saying("No agent with this handle is reachable over A2A.")

// checkVersion refuses other versions of the protocol than 1.0. Generic clients send none.
func checkVersion(in *api.A2ARequest) error {
	asked := in.Version
	if asked == "" {
		asked = in.VersionQuery
	}
	if asked == "" || asked == Version || len(asked) > len(Version) && asked[:len(Version)+1] == Version+"." {
		return nil
	}
	return fail(codeVersion, "VERSION_NOT_SUPPORTED", "The version "+quoted(asked)+" of A2A is not supported; "+Version+" is.")
}

// quoted returns a text of a caller in quotes, cut to a length that fits into a sentence.
func quoted(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	b, _ := jsontext.AppendQuote(nil, text)
	return string(b)
}

// params reads the parameters of a method. Unknown members are ignored.
func params[T any](c *call) (*T, error) {
	in := new(T)
	if len(c.request.params) == 0 || c.request.params.Kind() == 'n' {
		return in, nil
	}
	if err := json.Unmarshal(c.request.params, in); err != nil {
		var semantic *json.SemanticError
		if errors.As(err, &semantic) {
			return nil, invalid(strings.ReplaceAll(strings.TrimPrefix(string(semantic.JSONPointer), "/"), "/", "."), "does not have the type that A2A 1.0 gives it")
		}
		return nil, errParamsShape
	}
	return in, nil
}

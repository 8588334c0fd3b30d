package membership

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"parley/actors/operator"
	"parley/client/parley"
	"parley/cluster"
	"parley/cluster/identity"
	"parley/cmd/parley/admin"
	"parley/journal"
)

// Endpoint is the operator's calls about the cluster.
type Endpoint struct{ Part *Part }

// NodeRequest is the body of the calls that name a node.
type NodeRequest struct {
	// Node is an id, or the beginning of one, or a name, if only one node has it. Empty is
	// the node that answers, or any.
	Node string `json:"node,omitzero"`
}

// Token is the answer of POST /cluster/token and /cluster/replace.
type Token struct {
	Token string `json:"token"`
}

// Changed is the answer of the calls that change something.
type Changed struct {
	Node identity.NodeID `json:"node"`
}

// Mount adds the calls.
func (e *Endpoint) Mount(calls *admin.Calls) {
	calls.Show(operator.RoleRead, "GET /cluster/status", func(w http.ResponseWriter, r *http.Request) {
		s, err := e.Part.Status(r.Context())
		admin.Answer(w, s, err)
	})
	calls.Change(operator.RoleAdmin, "/cluster/token", func(w http.ResponseWriter, _ *http.Request) {
		token, err := e.token(0)
		admin.Answer(w, token, err)
	})
	for name, call := range map[string]func(context.Context, identity.NodeID) (any, error){
		"replace": e.replace, "remove": e.remove, "drain": e.drain, "balance": e.balance,
	} {
		calls.Change(operator.RoleAdmin, "/cluster/"+name, func(w http.ResponseWriter, r *http.Request) {
			var asked NodeRequest
			err := admin.ReadRequest(r, &asked)
			var id identity.NodeID
			if err == nil {
				id, err = e.find(asked.Node)
			}
			var answer any
			if err == nil {
				answer, err = call(r.Context(), id)
			}
			admin.Answer(w, answer, refused(err))
		})
	}
}

// refused turns the errors of changes of members into refusals.
func refused(err error) error {
	switch {
	case errors.Is(err, cluster.ErrTooFew):
		return parley.Refuse(parley.Conflict, "too_few_nodes", sentence(err))
	case errors.Is(err, journal.ErrBehind):
		return errLeaderless
	}
	return err
}

var errLeaderless = parley.Refuse(parley.Unavailable, "no_leader", "No node leads; nothing was done. A majority of the voters must be up, see parley cluster status; if it is lost for good, see parley cluster recover.")

var errUnconfirmed = parley.Refuse(parley.Unavailable, "no_leader", "The node could not confirm its contact with a leader; nothing was done. See parley cluster status; if a majority of the voters is lost for good, see parley cluster recover.")

func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// prefixMin is how much of an id names a node: a shorter text may be the name of one that is
// gone.
const prefixMin = 6

// find returns the node that a request names, 0 if it names none.
func (e *Endpoint) find(named string) (found identity.NodeID, err error) {
	if named == "" {
		return 0, nil
	}
	table := e.Part.group.Table()
	for _, fits := range []func(identity.NodeID, string) bool{
		func(id identity.NodeID, _ string) bool { return id.String() == named },
		func(_ identity.NodeID, name string) bool { return name == named },
		func(id identity.NodeID, _ string) bool {
			return len(named) >= prefixMin && strings.HasPrefix(id.String(), named)
		},
	} {
		for id, d := range table {
			if !fits(identity.NodeID(id), d.Name) {
				continue
			}
			if found != 0 {
				return 0, parley.Refuse(parley.Conflict, "ambiguous", "Several nodes are called so; name the id of one.")
			}
			found = identity.NodeID(id)
		}
		if found != 0 {
			return found, nil
		}
	}
	return 0, parley.ErrNotFound.Saying("The cluster has no node with this id or name: see parley cluster status.")
}

var errUnnamed = parley.Refuse(parley.Unprocessable, "node_required", "Name a node.")

// replaceTimeout bounds how long a call of replace waits for a leader.
const replaceTimeout = 5 * time.Second

// replace issues a token, which is useless without a leader to admit the node.
func (e *Endpoint) replace(ctx context.Context, id identity.NodeID) (any, error) {
	if id == 0 {
		return nil, errUnnamed
	}
	ctx, cancel := context.WithTimeout(ctx, replaceTimeout)
	defer cancel()
	if err := e.Part.store.Fence(ctx); err != nil {
		return nil, errUnconfirmed
	}
	return e.token(id)
}

// token issues a token for a node, which takes the place of another one unless replaces is 0.
func (e *Endpoint) token(replaces identity.NodeID) (Token, error) {
	now := e.Part.Clock()
	token, err := e.Part.identity.NewToken(now, replaces)
	if err != nil {
		return Token{}, err
	}
	about := []any{"expires", now.Add(identity.TokenLifetime)}
	if replaces != 0 {
		about = append(about, "replaces", replaces.String(), "name", e.Part.group.Table()[uint64(replaces)].Name)
	}
	e.Part.Logger.Info("a join token was issued", about...)
	return Token{token}, nil
}

func (e *Endpoint) remove(ctx context.Context, id identity.NodeID) (any, error) {
	if id == 0 {
		return nil, errUnnamed
	}
	return Changed{id}, e.Part.node.RemoveMember(ctx, uint64(id))
}

var errLast = parley.Refuse(parley.Conflict, "too_few_nodes", "No other node is ready, so that nobody would serve. To stop the node all the same, end its process.")

// drain drains the node that answers, if another one is ready.
func (e *Endpoint) drain(ctx context.Context, id identity.NodeID) (any, error) {
	if id != 0 && id != e.Part.identity.ID {
		return nil, parley.Refuse(parley.Unprocessable, "other_node", "A node is drained by a call to its own admin address.")
	}
	if !e.Part.draining.Load() && !e.Part.otherReady(ctx) {
		return nil, errLast
	}
	e.Part.Drain(ctx)
	return Changed{e.Part.identity.ID}, nil
}

var errNotHandedOver = parley.Refuse(parley.Unavailable, "not_handed_over", "The leadership was not taken over within 2 s: the other node is not up or has not caught up, or there is none.")

var errNotReady = parley.Refuse(parley.Conflict, "not_ready", "The node is not ready, or no other node is: see parley cluster status.")

// balance hands the leadership to a node that is ready, or to any other one, and returns when
// that leads.
func (e *Endpoint) balance(ctx context.Context, to identity.NodeID) (any, error) {
	to, err := e.nextLeader(ctx, to)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handTimeout)
	defer cancel()
	if err := e.Part.node.HandOver(ctx, uint64(to)); err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		now, err := e.Part.group.Status(ctx)
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		if identity.NodeID(now.Leader) == to {
			return Changed{to}, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errNotHandedOver
}

// nextLeader returns the node that is to lead: the one that was named, or any that does not, if it is
// ready.
func (e *Endpoint) nextLeader(ctx context.Context, named identity.NodeID) (identity.NodeID, error) {
	if named == 0 {
		to, err := e.Part.readyOther(ctx)
		if err == nil && to == 0 {
			err = errNotReady
		}
		return to, err
	}
	s, err := e.Part.Status(ctx)
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool { return n.ID == named && n.State == "ready" }) {
		return 0, errNotReady
	}
	return named, nil
}

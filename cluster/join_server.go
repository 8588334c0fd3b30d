package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"parley/client/parley"
	"parley/cluster/identity"
	"parley/cluster/link"
)

// Application is the request of a node that asks to join, in JSON.
type Application struct {
	Token string `json:"token"`
	// Request is that for its certificate.
	Request []byte `json:"request"`
	Name    string `json:"name"`
	Address string `json:"address"`
	// Now is what the wall clock of the node shows.
	Now time.Time `json:"now"`
	// KeyGiven says that the node was given the master key, and stores none.
	KeyGiven bool `json:"key_given,omitzero"`
}

// Secrets are what all nodes of a cluster have in common besides the journal.
type Secrets struct {
	// Master is the master key, Server the server key of the keyring.
	Master []byte `json:"master_key"`
	Server []byte `json:"server_key"`
	// Journals is the number of journals that the cluster was made with.
	Journals int `json:"journals"`
}

// Welcome is the answer to an application, in JSON.
type Welcome struct {
	*identity.Admission
	Secrets
	// Members are the addresses of the members.
	Members map[identity.NodeID]string `json:"members"`
}

const (
	joinServerName = "parley.Entrance"
	joinMethod     = "/" + joinServerName + "/Join"
	joinTimeout    = 20 * time.Second
)

// JoinServer admits nodes. Anyone who can reach it may call it; it answers those who have a token.
type JoinServer struct {
	Identity *identity.Identity
	// Secrets are those for a node that was given the master key, or not. A refusal tells the
	// new node what it lacks.
	Secrets func(keyGiven bool) (Secrets, error)
	Clock   parley.Clock
	Logger  *slog.Logger
	node    atomic.Pointer[Node]
}

// Serve begins to admit nodes.
func (e *JoinServer) Serve(n *Node) { e.node.Store(n) }

// Register adds the join server to the services for unauthenticated peers at the address of the links.
func (e *JoinServer) Register(s *grpc.Server) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: joinServerName, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Join", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var request []byte
			if err := decode(&request); err != nil {
				return nil, err
			}
			answer, err := e.join(ctx, request)
			return &answer, err
		}}},
	}, nil)
}

// join answers an application.
func (e *JoinServer) join(ctx context.Context, request []byte) ([]byte, error) {
	var a Application
	if err := json.Unmarshal(request, &a); err != nil {
		return nil, status.Error(codes.InvalidArgument, "the application cannot be read")
	}
	d := Description{Name: a.Name, Address: a.Address}
	if err := d.Check(); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	number, replaces, err := e.Identity.CheckToken(a.Token, e.Clock())
	if err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	if err := checkClock(a.Now, e.Clock()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	node := e.node.Load()
	if node == nil {
		return nil, status.Error(codes.Unavailable, "the node is starting")
	}
	w := Welcome{Members: map[identity.NodeID]string{}}
	if w.Admission, err = e.Identity.Admit(a.Request, number, e.Clock()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if w.Secrets, err = e.Secrets(a.KeyGiven); parley.IsRefusal(err) {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	} else if err != nil {
		e.Logger.Error("a node cannot be admitted", "error", err)
		return nil, status.Error(codes.Internal, "the node cannot hand out the keys of the cluster")
	}
	d.Token, d.Replaces = number, uint64(replaces)
	if err := node.AddMember(ctx, uint64(w.ID), d); errors.Is(err, ErrTokenUsed) {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	} else if refusal := (*parley.Refusal)(nil); errors.As(err, &refusal) && refusal.Reason != parley.Unavailable {
		return nil, status.Error(codes.InvalidArgument, refusal.Text)
	} else if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	for id, d := range node.Group.Table() {
		w.Members[identity.NodeID(id)] = d.Address
	}
	return json.Marshal(w)
}

// checkClock refuses a node whose wall clock differs too much from this node's. The application
// was on its way for a moment, of which nobody knows how long it was.
func checkClock(there, here time.Time) error {
	offset, how := there.Sub(here), "ahead of"
	switch {
	case sideOf(offset) == near:
		return nil
	case sideOf(offset) == behind:
		how = "behind"
	}
	return fmt.Errorf("the wall clock of the new node is %s %s that of this node, and they may differ by %v: set the wrong one right", shownOffset(offset.Abs()), how, clockOffsetMax)
}

var (
	// ErrOtherService means that another service answers at the address of a member, or a member of
	// another cluster than that which made the token.
	ErrOtherService = errors.New("the service there is no node of the cluster that made the join token")
	// ErrNotAdmitted means that a member refuses to take a node in.
	ErrNotAdmitted = errors.New("the cluster does not take the node in")
	// ErrNotYet means that a member cannot take a node in now.
	ErrNotYet = errors.New("the cluster cannot take the node in now")
)

// reach reports why a member cannot be asked. Errors of calls would not tell in plain words.
func reach(ctx context.Context, member string, security *tls.Config) error {
	conn, err := (&tls.Dialer{Config: security}).DialContext(ctx, "tcp", member)
	var dial *net.OpError
	switch {
	case err == nil:
		return conn.Close()
	case ctx.Err() != nil:
		return fmt.Errorf("the service at %s does not answer: %w", member, ctx.Err())
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("nobody can be reached at %s: %w", member, err)
	}
	return fmt.Errorf("%s: %w (%w)", member, ErrOtherService, err)
}

// refused is why a member did not take a node in.
func refused(member string, err error) error {
	said := status.Convert(err)
	switch said.Code() {
	case codes.PermissionDenied:
		if said.Message() == ErrTokenUsed.Error() {
			return ErrTokenUsed
		}
		return identity.ErrToken
	case codes.InvalidArgument, codes.Internal:
		return fmt.Errorf("%s: %w: %s", member, ErrNotAdmitted, said.Message())
	case codes.Canceled:
		return context.Canceled
	default:
		return fmt.Errorf("%s: %w: %s", member, ErrNotYet, said.Message())
	}
}

// Join asks a member to take this node in, and returns what it answered.
func Join(ctx context.Context, data, member, token string, d Description, keyGiven bool, clock parley.Clock) (*Welcome, *identity.Applicant, error) {
	applicant, err := identity.NewApplicant(data, token)
	if err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+member, grpc.WithTransportCredentials(credentials.NewTLS(applicant.Client())), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	if err := reach(ctx, member, applicant.Client()); err != nil {
		return nil, nil, err
	}
	request, err := json.Marshal(Application{token, applicant.Request, d.Name, d.Address, clock(), keyGiven})
	if err != nil {
		return nil, nil, err
	}
	var answer []byte
	if err := conn.Invoke(ctx, joinMethod, &request, &answer, link.Raw()); err != nil {
		return nil, nil, refused(member, err)
	}
	w := &Welcome{}
	if err := json.Unmarshal(answer, w); err != nil || w.Admission == nil {
		return nil, nil, fmt.Errorf("the answer of %s cannot be read: %w", member, err)
	}
	return w, applicant, nil
}

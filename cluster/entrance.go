package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"parley"
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
	entranceName = "parley.Entrance"
	joinMethod   = "/" + entranceName + "/Join"
	joinTimeout  = 20 * time.Second
)

// Entrance admits nodes. Anyone who can reach it may call it; it answers those who have a token.
type Entrance struct {
	Identity *identity.Identity
	Secrets  func() (Secrets, error)
	Clock    parley.Clock
	Logger   *slog.Logger
	node     atomic.Pointer[Node]
}

// Serve begins to admit nodes.
func (e *Entrance) Serve(n *Node) { e.node.Store(n) }

// Register adds the entrance to the services for strangers at the address of the links.
func (e *Entrance) Register(s *grpc.Server) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: entranceName, HandlerType: (*any)(nil),
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
func (e *Entrance) join(ctx context.Context, request []byte) ([]byte, error) {
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
	node := e.node.Load()
	if node == nil {
		return nil, status.Error(codes.Unavailable, "the node is starting")
	}
	w := Welcome{Members: map[identity.NodeID]string{}}
	if w.Admission, err = e.Identity.Admit(a.Request, e.Clock()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if w.Secrets, err = e.Secrets(); err != nil {
		e.Logger.Error("a node cannot be admitted", "error", err)
		return nil, status.Error(codes.Internal, "the node cannot hand out the keys of the cluster")
	}
	d.Token, d.Replaces = number, uint64(replaces)
	if err := node.AddMember(ctx, uint64(w.ID), d); errors.Is(err, ErrTokenUsed) {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	} else if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	for id, d := range node.Group.Table() {
		w.Members[identity.NodeID(id)] = d.Address
	}
	e.Logger.Info("a node joins the cluster", "node", w.ID.String(), "name", a.Name, "address", a.Address)
	return json.Marshal(w)
}

// Join asks a member to take this node in, and returns what it answered.
func Join(ctx context.Context, member, token string, d Description) (*Welcome, *identity.Applicant, error) {
	applicant, err := identity.NewApplicant(token)
	if err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+member, grpc.WithTransportCredentials(credentials.NewTLS(applicant.Client())), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.Close() }()
	request, err := json.Marshal(Application{token, applicant.Request, d.Name, d.Address})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	var answer []byte
	if err := conn.Invoke(ctx, joinMethod, &request, &answer, link.Raw()); err != nil {
		return nil, nil, fmt.Errorf("the cluster at %s does not take the node in: %s", member, status.Convert(err).Message())
	}
	w := &Welcome{}
	if err := json.Unmarshal(answer, w); err != nil || w.Admission == nil {
		return nil, nil, fmt.Errorf("the answer of %s cannot be read: %w", member, err)
	}
	return w, applicant, nil
}

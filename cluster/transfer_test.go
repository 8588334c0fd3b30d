package cluster

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
	"parley/cluster/identity"
	"parley/cluster/link"
)

// endless is a content that does not end.
type endless struct {
	began  chan struct{}
	closed atomic.Bool
}

// WriteTo implements consensus.Snapshot.
func (e *endless) WriteTo(w io.Writer) (n int64, err error) {
	close(e.began)
	for err == nil {
		_, err = w.Write(make([]byte, 1<<10))
	}
	return 0, err
}

// Close implements consensus.Snapshot.
func (e *endless) Close() error { e.closed.Store(true); return nil }

// Applied implements consensus.Snapshot.
func (*endless) Applied() consensus.Applied { return consensus.Applied{} }

// peers are the identities of two nodes of a cluster.
func peers(t *testing.T) (a, b *identity.Identity) {
	t.Helper()
	now := time.Now()
	a, err := identity.Create(t.TempDir(), "a", "a:1", now, func(identity.NodeID) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	token, err := a.NewToken(now, 0)
	if err != nil {
		t.Fatal(err)
	}
	applicant, err := identity.NewApplicant(t.TempDir(), token)
	if err != nil {
		t.Fatal(err)
	}
	admission, err := a.Admit(applicant.Request, "", now)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = applicant.Write(t.TempDir(), "b", "b:1", admission); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// hungry reads a content to its end.
type hungry struct{}

func (hungry) Receive(uint64, [][]byte, func(error)) error { return nil }

func (hungry) Answer(context.Context, uint64, []byte) ([]byte, error) { return nil, nil }

func (hungry) Take(_ context.Context, _ uint64, _ []byte, r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// TestTransfersEnd: a content is sent while this member leads and its transport is open.
func TestTransfersEnd(t *testing.T) {
	for name, end := range map[string]func(*Transport){
		"another leader": func(t *Transport) { t.member.follow(2, 2) },
		"closed":         (*Transport).Close,
	} {
		t.Run(name, func(t *testing.T) {
			s := &replicas{t: t, journals: 1, dir: "group", tick: time.Millisecond, disks: []vfs.FS{vfs.NewMem()}}
			g := s.openAll()
			if err := g.Start(ignoreQueue, ignoreTimer); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = g.Close() }()
			a, b := peers(t)
			receiver := link.New(link.Options{Security: b, Handler: hungry{}, Member: func(uint64) bool { return true }, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = receiver.Serve(ln) }()
			defer receiver.Close()
			sender := NewTransport(uint64(a.ID), g.members[0], a, map[uint64]string{uint64(b.ID): ln.Addr().String()}, time.Now, slog.New(slog.DiscardHandler), nil)
			defer sender.Close()
			content := &endless{began: make(chan struct{})}
			sender.Send([]consensus.Message{{Raft: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), To: new(uint64(b.ID))}, Content: content}})
			<-content.began
			end(sender)
			eventually(t, "the end of the transfer", content.closed.Load)
		})
	}
}

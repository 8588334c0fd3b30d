package link_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"parley/cluster/link"
)

// dial connects to a node with the certificate of another.
func dial(t *testing.T, from, to *node) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+to.address, grpc.WithTransportCredentials(credentials.NewTLS(from.identity.Client(to.id))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// calls opens the stream of calls.
func calls(t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/parley.Link/Calls", link.Raw())
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestNonMembersSendLittle: a node that is no member can send no batch that is larger than a client's
// request, and a member can.
func TestNonMembersSendLittle(t *testing.T) {
	all := connect(t, members(t, 2)...)
	a, b := all[0], all[1]
	for _, c := range []struct {
		removed bool
		bytes   int
		want    codes.Code
	}{
		{false, 16 << 20, codes.InvalidArgument}, // it was read, and is no batch
		{true, 1 << 20, codes.InvalidArgument},
		{true, 16 << 20, codes.ResourceExhausted},
	} {
		b.removed.Store(c.removed)
		stream := calls(t, dial(t, a, b))
		batch, answer := make([]byte, c.bytes), []byte(nil)
		batch[2] = 0xff // the length of a body that is not there
		for i := range batch[2:12] {
			batch[2+i] = 0xff
		}
		if err := stream.SendMsg(&batch); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if got := status.Code(stream.RecvMsg(&answer)); got != c.want {
			t.Errorf("removed %v, %d bytes: %v, want %v", c.removed, c.bytes, got, c.want)
		}
	}
}

// TestNonMembersTakeTheirAnswers: a node that is no member and takes no answers gets few. A member may
// let more of them wait.
func TestNonMembersTakeTheirAnswers(t *testing.T) {
	all := connect(t, members(t, 2)...)
	a, b := all[0], all[1]
	const bytes, most = 4 << 20, 1 << 20
	for _, removed := range []bool{true, false} {
		b.removed.Store(removed)
		b.answered.Store(0)
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		stream, err := dial(t, a, b).NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/parley.Link/Calls", link.Raw())
		if err != nil {
			t.Fatal(err)
		}
		var batch []byte
		for range 100 {
			batch = append(batch, 0, 0, 0xe7, 0x07) // no id, no failure, and how long the request is
			batch = append(batch, make([]byte, 999)...)
		}
		for sent := 0; err == nil && sent < bytes; sent += len(batch) {
			err = stream.SendMsg(&batch)
		}
		for deadline := time.Now().Add(10 * time.Second); !removed && b.answered.Load() < 2*most && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		stop()
		if got := b.answered.Load(); removed != (got < most) {
			t.Errorf("removed %v: %d bytes of answers", removed, got)
		}
	}
}

// TestNonMembersAreFew: of the connections of nodes that are no members most are ended, and a member
// gets in while they have the others.
func TestNonMembersAreFew(t *testing.T) {
	identities := members(t, 3)
	all := connect(t, identities[0], identities[1])
	a, other := all[0], all[1]
	a.removed.Store(true)
	const many, few = 60, 16
	var ended atomic.Int64
	for range many {
		conn, err := tls.Dial("tcp", a.address, other.identity.Client(a.id))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, conn); ended.Add(1) }()
	}
	for deadline := time.Now().Add(5 * time.Second); many-ended.Load() > few; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections of nodes that are no members are open", many-ended.Load())
		}
	}
	a.removed.Store(false)
	b := connect(t, identities[2])[0]
	b.SetPeers(map[uint64]string{a.id: a.address})
	reach(t, b, a.id)
}

// TestNonMemberBecomesMember: a node that connected as no member connects again once it is a member, and
// its large batches are taken.
func TestNonMemberBecomesMember(t *testing.T) {
	identities := members(t, 2)
	a := connect(t, identities[0])[0]
	a.removed.Store(true)
	b := connect(t, identities[1])[0]
	b.SetPeers(map[uint64]string{a.id: a.address})
	reach(t, b, a.id)
	large := make([]byte, 8<<20)
	if _, err := b.Call(t.Context(), a.id, large); err == nil {
		t.Fatal("control: a large call of a non-member was answered")
	}
	a.removed.Store(false)
	a.SetPeers(map[uint64]string{b.id: b.address})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := b.Call(t.Context(), a.id, large)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestNamedSparingly: a node that sends malformed batches again and again does not fill the log.
func TestNamedSparingly(t *testing.T) {
	all := connect(t, members(t, 2)...)
	a, b := all[0], all[1]
	conn := dial(t, a, b)
	for range 1500 {
		stream, batch, answer := calls(t, conn), []byte{1}, []byte(nil)
		if err := stream.SendMsg(&batch); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if got := status.Code(stream.RecvMsg(&answer)); got != codes.InvalidArgument {
			t.Fatal(got)
		}
	}
	// A minute may have ended meanwhile.
	if lines := b.log.count("sent something malformed"); lines < 600 || lines > 1200 {
		t.Errorf("the log names the node %d times", lines)
	}
}

package link_test

import (
	"context"
	"crypto/tls"
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

const openPath = "/parley.test/Open"

// registerOpen registers a method for unauthenticated peers, which returns what it got.
func registerOpen(s *grpc.Server) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "parley.test", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Open", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var request []byte
			return &request, decode(&request)
		}}},
	}, nil)
}

// strange is the configuration of someone without a certificate.
func strange() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}} //nolint:gosec // unauthenticated peers do not mind
}

// TestStrangersSendLittle: who shows no certificate can make small requests of what is open to
// unauthenticated peers, no large ones, and none of what is open to nodes.
func TestStrangersSendLittle(t *testing.T) {
	a := connect(t, members(t, 1)...)[0]
	conn, err := grpc.NewClient("passthrough:///"+a.address, grpc.WithTransportCredentials(credentials.NewTLS(strange())))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, c := range []struct {
		path  string
		bytes int
		want  codes.Code
	}{
		{openPath, 4 << 10, codes.OK},
		{openPath, 16 << 10, codes.ResourceExhausted},
		{openPath, 32 << 20, codes.ResourceExhausted},
		{"/parley.Link/Calls", 1, codes.Unimplemented},
	} {
		request, answer := make([]byte, c.bytes), []byte(nil)
		if got := status.Code(conn.Invoke(t.Context(), c.path, &request, &answer, link.Raw())); got != c.want {
			t.Errorf("%d bytes to %s: %v, want %v", c.bytes, c.path, got, c.want)
		}
	}
}

// TestStrangersAreFew: of the connections of unauthenticated peers most are ended, and a node gets in while
// unauthenticated peers have the others.
func TestStrangersAreFew(t *testing.T) {
	identities := members(t, 2)
	a := connect(t, identities[0])[0]
	const many, few = 300, 128
	var ended atomic.Int64
	for range many {
		conn, err := tls.Dial("tcp", a.address, strange())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		// So begins HTTP/2: the connection is open, and nothing is asked.
		if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, conn); ended.Add(1) }()
	}
	for deadline := time.Now().Add(5 * time.Second); many-ended.Load() > few; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections of unauthenticated peers are open", many-ended.Load())
		}
	}
	b := connect(t, identities[1])[0]
	b.SetPeers(map[uint64]string{a.id: a.address})
	reach(t, b, a.id)
}

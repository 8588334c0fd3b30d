package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cluster/identity"
	"parley/cluster/link"
)

// node is one node of a cluster of links, on loopback.
type node struct {
	*link.Links
	id       uint64
	address  string
	identity *identity.Identity

	mu       sync.Mutex
	messages map[uint64][]string
	block    chan struct{} // answers wait for it
	taken    []byte
	log      logged
	waits    atomic.Int32 // calls that wait, or did
	removed  atomic.Bool  // no peer is a member for this node
	answered atomic.Int64 // bytes
}

// logged is a log that tests read.
type logged struct {
	mu   sync.Mutex
	text []byte
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	return len(b), nil
}

// count is how many lines have a text.
func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text, []byte(text))
}

func (n *node) Receive(from uint64, messages [][]byte, refuse func(error)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range messages {
		n.messages[from] = append(n.messages[from], string(m))
		switch string(m) {
		case "malformed":
			return errors.New("it is malformed")
		case "refused later":
			refuse(errors.New("it is refused"))
		}
	}
	return nil
}

func (n *node) Answer(ctx context.Context, from uint64, request []byte) ([]byte, error) {
	if string(request) == "fail" {
		return nil, errors.New("it failed")
	}
	if string(request) == "malformed" {
		return nil, fmt.Errorf("%w: it is malformed", link.ErrFrame)
	}
	if string(request) == "wait" {
		n.waits.Add(1)
		select {
		case <-n.block:
		case <-ctx.Done():
		}
	}
	answer := fmt.Appendf(nil, "%d asked %s", from, request)
	n.answered.Add(int64(len(answer)))
	return answer, nil
}

func (n *node) Take(_ context.Context, _ uint64, header []byte, content io.Reader) error {
	b, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.taken = append(bytes.Clone(header), b...)
	if string(header) == "refuse" {
		return errors.New("refused")
	}
	return nil
}

// members returns the identities of some nodes of one cluster.
func members(t *testing.T, count int) (all []*identity.Identity) {
	t.Helper()
	first, err := identity.Create(t.TempDir(), "a", "127.0.0.1:1", time.Now(), func(identity.NodeID) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, first)
	for len(all) < count {
		all = append(all, join(t, first))
	}
	return all
}

// join admits a node.
func join(t *testing.T, to *identity.Identity) *identity.Identity {
	t.Helper()
	token, err := to.NewToken(time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	applicant, err := identity.NewApplicant(t.TempDir(), token)
	if err != nil {
		t.Fatal(err)
	}
	admission, err := to.Admit(applicant.Request, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	joined, err := applicant.Write(t.TempDir(), "b", "127.0.0.1:2", admission)
	if err != nil {
		t.Fatal(err)
	}
	return joined
}

// connect starts nodes that know each other.
func connect(t *testing.T, identities ...*identity.Identity) (all []*node) {
	t.Helper()
	addresses := map[uint64]string{}
	for _, id := range identities {
		n := &node{id: uint64(id.ID), identity: id, messages: map[uint64][]string{}, block: make(chan struct{})}
		n.start(t, "127.0.0.1:0")
		addresses[n.id] = n.address
		all = append(all, n)
	}
	for _, n := range all {
		n.SetPeers(addresses)
	}
	return all
}

func (n *node) start(t *testing.T, address string) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	n.address = ln.Addr().String()
	l := link.New(link.Options{
		Security: n.identity, Handler: n, Member: func(uint64) bool { return !n.removed.Load() }, Clock: time.Now, Logger: slog.New(slog.NewTextHandler(&n.log, nil)),
		Register: registerOpen,
	})
	n.Links = l
	go func() { _ = l.Serve(ln) }()
	t.Cleanup(l.Close)
}

// reach calls until the peer answers.
func reach(t *testing.T, from *node, to uint64) {
	t.Helper()
	for range 200 {
		if _, err := from.Call(t.Context(), to, []byte("hello")); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("a node is never reached")
}

// TestCallsAndMessages: calls are answered, each with its own answer; messages arrive in
// their order.
func TestCallsAndMessages(t *testing.T) {
	all := connect(t, members(t, 3)...)
	a, b := all[0], all[1]
	reach(t, a, b.id)
	var calls sync.WaitGroup
	for n := range 500 {
		calls.Go(func() {
			want := fmt.Sprintf("%d asked %d", a.id, n)
			if got, err := a.Call(t.Context(), b.id, fmt.Append(nil, n)); err != nil || string(got) != want {
				t.Errorf("%s, %v; want %s", got, err, want)
			}
		})
		a.Send(b.id, fmt.Append(nil, n))
	}
	calls.Wait()
	if _, err := a.Call(t.Context(), b.id, []byte("fail")); err == nil || errors.Is(err, link.ErrCut) || errors.Is(err, link.ErrUnreached) {
		t.Errorf("a call that the peer could not answer: %v", err)
	}
	for range 200 {
		b.mu.Lock()
		got := len(b.messages[a.id])
		b.mu.Unlock()
		if got == 500 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for n := range 500 {
		if len(b.messages[a.id]) != 500 || b.messages[a.id][n] != fmt.Sprint(n) {
			t.Fatalf("%d messages, or in another order", len(b.messages[a.id]))
		}
	}
}

// TestBodiesOfAllSizes: what is copied into a batch and what is sent from where it is arrives
// alike, in its order.
func TestBodiesOfAllSizes(t *testing.T) {
	all := connect(t, members(t, 2)...)
	a, b := all[0], all[1]
	reach(t, a, b.id)
	var want []string
	for i := range 40 {
		for _, size := range []int{0, 1, 4095, 4096, 4097, 70_000} {
			want = append(want, strings.Repeat(string(rune('a'+i%26)), size))
		}
	}
	for _, one := range want {
		a.Send(b.id, []byte(one))
	}
	for range 500 {
		b.mu.Lock()
		got := slices.Clone(b.messages[a.id])
		b.mu.Unlock()
		if len(got) == len(want) {
			if !slices.Equal(got, want) {
				t.Fatal("messages arrived altered, or in another order")
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("messages are missing")
}

// TestCallUntil: a call that is given up was not sent, or nobody knows what became of it.
func TestCallUntil(t *testing.T) {
	all := connect(t, members(t, 2)...)
	a, b := all[0], all[1]
	reach(t, a, b.id)
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := a.CallUntil(context.Background(), over, b.id, []byte("wait"))
		ended <- err
	}()
	time.Sleep(100 * time.Millisecond)
	close(over)
	if err := <-ended; !errors.Is(err, link.ErrCut) {
		t.Errorf("a call that was sent: %v", err)
	}
	b.Close()
	time.Sleep(100 * time.Millisecond)
	if _, err := a.CallUntil(context.Background(), over, b.id, []byte("hello")); !errors.Is(err, link.ErrUnreached) {
		t.Errorf("a call that was not sent: %v", err)
	}
}

// TestDrain: what is being answered when a node stops is answered, also if a peer has gone with
// calls that were never answered.
func TestDrain(t *testing.T) {
	all := connect(t, members(t, 3)...)
	a, b, c := all[0], all[1], all[2]
	reach(t, a, b.id)
	reach(t, c, b.id)
	var calls sync.WaitGroup
	for range 300 {
		calls.Go(func() {
			if _, err := a.Call(context.Background(), b.id, []byte("wait")); err != nil {
				t.Errorf("a call that was being answered: %v", err)
			}
		})
		calls.Go(func() { _, _ = c.Call(context.Background(), b.id, []byte("wait")) })
	}
	time.Sleep(200 * time.Millisecond)
	c.Close()
	drained := make(chan struct{})
	go func() { b.Drain(context.Background()); b.Close(); close(drained) }()
	time.Sleep(50 * time.Millisecond)
	select {
	case <-drained:
		t.Error("it was drained while calls were being answered")
	default:
	}
	close(b.block)
	select {
	case <-drained:
	case <-time.After(10 * time.Second):
		t.Fatal("it is not drained, although everything was answered")
	}
	calls.Wait()
}

// TestConnectionEnds: a call that was sent ends when its connection does, and nobody knows
// what became of it. A call to a node that is down was not sent. A node that comes back is
// reached again.
func TestConnectionEnds(t *testing.T) {
	all := connect(t, members(t, 2)...)
	a, b := all[0], all[1]
	reach(t, a, b.id)
	ended := make(chan error, 1)
	go func() { _, err := a.Call(context.Background(), b.id, []byte("wait")); ended <- err }()
	time.Sleep(100 * time.Millisecond)
	select {
	case err := <-ended:
		t.Fatalf("the call ended early: %v", err)
	default:
	}
	b.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, link.ErrCut) {
			t.Errorf("the call ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the call goes on without a connection")
	}
	for range 20 {
		if _, err := a.Call(t.Context(), b.id, []byte("hello")); !errors.Is(err, link.ErrUnreached) {
			t.Fatalf("a call to a node that is down: %v", err)
		}
	}
	b.start(t, b.address)
	reach(t, a, b.id)
}

// TestContents: a content arrives whole, and its end is reported.
func TestContents(t *testing.T) {
	all := connect(t, members(t, 2)...)
	a, b := all[0], all[1]
	reach(t, a, b.id)
	content := make([]byte, 3<<20)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	if err := a.Transfer(t.Context(), b.id, []byte("header"), bytes.NewBuffer(bytes.Clone(content))); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.taken, append([]byte("header"), content...)) {
		t.Errorf("%d bytes arrived", len(b.taken))
	}
	if err := a.Transfer(t.Context(), b.id, []byte("refuse"), bytes.NewBuffer(content)); err == nil {
		t.Error("a content that was refused is reported as taken")
	}
}

// TestForeignNodes: a node of another cluster, one that claims the place of another node, and
// one without a certificate are refused, and so is a token of another cluster.
func TestForeignNodes(t *testing.T) {
	ours, theirs := members(t, 2), members(t, 2)
	all := connect(t, ours[0], ours[1], theirs[0])
	a, b, foreign := all[0], all[1], all[2]
	reach(t, a, b.id)
	for _, way := range []struct {
		from *node
		to   uint64
	}{{foreign, a.id}, {a, foreign.id}} {
		for range 20 {
			if _, err := way.from.Call(t.Context(), way.to, []byte("hello")); err == nil {
				t.Fatal("nodes of two clusters talk to each other")
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	a.SetPeers(map[uint64]string{foreign.id: b.address}) // b answers there
	for range 20 {
		if _, err := a.Call(t.Context(), foreign.id, []byte("hello")); err == nil {
			t.Fatal("another node answers")
		}
		time.Sleep(5 * time.Millisecond)
	}
	token, err := theirs[0].NewToken(time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ours[0].CheckToken(token, time.Now()); !errors.Is(err, identity.ErrToken) {
		t.Errorf("a token of another cluster: %v", err)
	}
}

// TestTokens: a token is valid for an hour, and every change of it is found.
func TestTokens(t *testing.T) {
	id := members(t, 2)
	now := time.Now()
	token, err := id[0].NewToken(now, id[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	number, replaces, err := id[1].CheckToken(token, now.Add(identity.TokenLifetime-2*time.Second)) // by another member
	if err != nil || number == "" || replaces != id[1].ID {
		t.Fatal(number, err)
	}
	if _, _, err := id[0].CheckToken(token, now.Add(identity.TokenLifetime+time.Second)); !errors.Is(err, identity.ErrToken) {
		t.Errorf("a token that has expired: %v", err)
	}
	for i := range token {
		bad := []byte(token)
		if bad[i]++; bad[i] == token[i] {
			continue
		}
		if _, _, err := id[0].CheckToken(string(bad), now); err == nil && i < len(token)-1 {
			t.Errorf("a token with character %d changed is valid", i)
		}
	}
}

// TestLostPeersAreLogged: the log names a peer that cannot be reached and the cause, once, and says
// when it is reached again. Another node at its address is a cause too.
func TestLostPeersAreLogged(t *testing.T) {
	all := connect(t, members(t, 3)...)
	a, b, other := all[0], all[1], all[2]
	reach(t, a, b.id)
	address := b.address
	b.Close()
	until := func(what, text string, want int) {
		t.Helper()
		for range 500 {
			if a.log.count(text) == want {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("%s: %d lines with %q, want %d\n%s", what, a.log.count(text), text, want, a.log.text)
	}
	until("it is down", "connection refused", 1)
	time.Sleep(time.Second)
	if n := a.log.count("connection refused"); n != 1 {
		t.Errorf("one cause is logged %d times", n)
	}
	other.Close()
	other.start(t, address)
	until("another one is at its address", "answers at the address of node", 1)
	other.Close()
	b.start(t, address)
	until("it is back", "is reached again", 1)
	b.removed.Store(true) // as for a node that was removed
	for range 20 {
		a.Send(b.id, []byte("x"))
		time.Sleep(100 * time.Millisecond)
	}
	if n := a.log.count("not a member"); n != 1 || a.log.count("is reached again") != 1 {
		t.Errorf("a peer that takes nothing is logged %d times\n%s", n, a.log.text)
	}
}

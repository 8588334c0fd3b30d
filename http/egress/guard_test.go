package egress_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/http/egress"
)

func TestEveryAddressOfANewTargetMustBePublic(t *testing.T) {
	zone := map[string][]string{
		"public.test.":   {"93.184.216.34", "8.8.8.8"},
		"private.test.":  {"10.0.0.1"},
		"metadata.test.": {"169.254.169.254"},
		"mixed.test.":    {"93.184.216.34", "127.0.0.1"},
		"own.test.":      {"93.184.216.99"},
	}
	names := resolver(t, func(name string, _ int) []string { return zone[name+"."] })
	guard := egress.NewGuard(egress.Allow{}, names, netip.MustParsePrefix("93.184.216.96/28"), netip.MustParsePrefix("2606:4700::/32"))
	for host, want := range map[string]error{
		"public.test": nil, "private.test": egress.ErrBlocked, "metadata.test": egress.ErrBlocked, "mixed.test": egress.ErrBlocked,
		"own.test": egress.ErrBlocked, "nowhere.test": nil, "public.test.": nil, "mixed.test.": egress.ErrBlocked,
	} {
		got, err := guard.Parse("https://" + host + "/")
		if err != nil {
			t.Fatal(err)
		}
		if err := guard.Admit(t.Context(), got); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", host, err, want)
		}
	}
	if _, err := guard.Parse("https://[2606:4700::1]/"); !errors.Is(err, egress.ErrBlocked) {
		t.Errorf("an address of a denied network: %v", err)
	}
	if err := guard.Admit(t.Context(), target(t, "https://127.0.0.1/")); !errors.Is(err, egress.ErrBlocked) {
		t.Errorf("a target that another guard accepted: %v", err)
	}
	// Control: the same names with loopback allowed.
	open := egress.NewGuard(loopback, names)
	if err := open.Admit(t.Context(), target(t, "https://mixed.test/")); err != nil {
		t.Errorf("with loopback allowed: %v", err)
	}
}

// TestSlowlyResolvedNameIsAdmitted: the resolver never answers.
func TestSlowlyResolvedNameIsAdmitted(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []net.Conn
	over := false
	silent := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return nil, net.ErrClosed
		}
		ours, theirs := net.Pipe()
		asked = append(asked, ours)
		return theirs, nil
	}}
	if err := egress.NewGuard(egress.Allow{}, silent).Admit(t.Context(), target(t, "https://silent.test/")); err != nil {
		t.Errorf("got %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	over = true
	for _, conn := range asked {
		_ = conn.Close()
	}
	if len(asked) == 0 {
		t.Error("the resolver was not asked")
	}
}

// TestOwnNamesAreResolvedAgain: at each tick the service resolves its own names again.
// A name that does not resolve keeps its previous addresses and does not affect the
// others. Creating a webhook waits for none of these lookups.
func TestOwnNamesAreResolvedAgain(t *testing.T) {
	var mu sync.Mutex
	zone := map[string]string{"one.test": "93.184.216.1", "two.test": "93.184.216.2"}
	change := func(name, address string) { mu.Lock(); defer mu.Unlock(); zone[name] = address }
	guard := egress.NewGuard(egress.Allow{}, resolver(t, func(name string, _ int) []string {
		mu.Lock()
		defer mu.Unlock()
		if zone[name] == "" {
			return nil
		}
		return []string{zone[name]}
	}))
	guard.DenyNames("one.test", "two.test", "last.test")
	ctx, cancel := context.WithCancel(t.Context())
	tick, ended := make(chan time.Time), make(chan struct{})
	expect := func(address string, want error) {
		t.Helper()
		if err := guard.Admit(t.Context(), target(t, "https://"+address+"/")); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", address, err, want)
		}
	}
	// The control: before the first lookup, the service's own addresses are treated
	// like others.
	expect("93.184.216.1", nil)
	expect("93.184.216.2", nil)
	go func() { defer close(ended); guard.FollowNames(ctx, tick) }()
	learnt := func() { // two ticks: the second begins when the first is done
		for range 2 {
			tick <- time.Time{}
		}
	}
	learnt()
	expect("93.184.216.1", egress.ErrBlocked)
	expect("93.184.216.2", egress.ErrBlocked)
	change("one.test", "")
	change("two.test", "93.184.216.3")
	learnt()
	expect("93.184.216.1", egress.ErrBlocked)
	expect("93.184.216.2", nil)
	expect("93.184.216.3", egress.ErrBlocked)
	cancel()
	<-ended
	change("two.test", "93.184.216.4")
	expect("93.184.216.4", nil) // which was not requested
}

// TestDNSRebindingIsBlocked: DNS rebinding. The name is public when the webhook is
// created and loopback when it is dialled.
func TestDNSRebindingIsBlocked(t *testing.T) {
	var reached atomic.Int64
	s := newSink(t, func(w http.ResponseWriter, r *http.Request) { reached.Add(1); ok(w, r) }, "rebind.test")
	rebinding := func() *net.Resolver {
		return resolver(t, func(_ string, n int) []string {
			if n == 0 {
				return []string{"93.184.216.34"}
			}
			return []string{"127.0.0.1"}
		})
	}
	attempt := func(allow egress.Allow) egress.Result {
		guard := egress.NewGuard(allow, rebinding())
		to, err := guard.Parse("https://rebind.test" + s.port() + "/")
		if err != nil {
			t.Fatal(err)
		}
		if err := guard.Admit(t.Context(), to); err != nil {
			t.Fatalf("at creation: %v", err)
		}
		return deliver(t, newSender(t, s, egress.Options{Guard: guard}), to)
	}
	if r := attempt(egress.Allow{}); !r.Blocked || r.Delivered() || r.Status != 0 || r.Error != "the target's address is not public" || reached.Load() != 0 {
		t.Errorf("got %+v, and the sink was reached %d times", r, reached.Load())
	}
	// Control: without the guard, the same name leads to the sink.
	if r := attempt(loopback); !r.Delivered() || reached.Load() != 1 {
		t.Errorf("control: got %+v, and the sink was reached %d times", r, reached.Load())
	}
}

// TestEachDialIsChecked delivers to a target that another guard would have refused. The
// address of the connection decides.
func TestEachDialIsChecked(t *testing.T) {
	s := newSink(t, ok)
	sender := newSender(t, s, egress.Options{Guard: egress.NewGuard(egress.Allow{}, nil)})
	for _, to := range []string{s.URL, "https://localhost" + s.port(), "https://[::1]" + s.port(), "https://0x7f.1" + s.port()} {
		if r := deliver(t, sender, target(t, to)); !r.Blocked || r.Error == "" {
			t.Errorf("%s: got %+v", to, r)
		}
	}
}

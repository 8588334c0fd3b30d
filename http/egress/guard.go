package egress

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// resolveWait is how long the name of a new target may take to resolve.
// // docs: webhooks.md
const resolveWait = 2 * time.Second

// LearnEvery is how often a service resolves its own names again.
const LearnEvery = time.Minute

// reserved are addresses that are public by the registries but reachable only inside a
// network: the host agent of a large cloud, which hands out credentials.
var reserved = []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")}

// loopback is what Allow.Loopback allows, by address family.
var (
	loopback4 = netip.MustParsePrefix("127.0.0.0/8")
	loopback6 = netip.MustParsePrefix("::1/128")
)

// Guard decides which addresses may be reached: those that are public by the IANA
// registries. It is safe for concurrent use.
type Guard struct {
	allow    Allow
	fence    fence
	resolver *net.Resolver
	// own are the addresses of this service, by the names that last resolved to them.
	own sync.Map // of []netip.Addr by string
}

// NewGuard returns a guard. denied are additional networks to block, such as the public
// addresses of this service itself. A nil resolver means the system's.
func NewGuard(allow Allow, resolver *net.Resolver, denied ...netip.Prefix) *Guard {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	return &Guard{allow: allow, fence: newFence(allow, denied...), resolver: resolver}
}

// DenyNames blocks additional names, such as the public name of this service itself, and
// the addresses they resolve to. It must be called before the guard is used.
func (g *Guard) DenyNames(names ...string) {
	for _, name := range names {
		g.fence.names = append(g.fence.names, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
}

// FollowNames resolves the denied names now, and again at each tick until ctx ends.
func (g *Guard) FollowNames(ctx context.Context, tick <-chan time.Time) {
	for {
		for _, name := range g.fence.names {
			g.learn(ctx, name)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// learn resolves a name. If that fails, the name keeps its known addresses.
func (g *Guard) learn(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	addresses, err := g.resolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return
	}
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	g.own.Store(name, addresses)
}

// isOwn reports whether an address is one of this service.
func (g *Guard) isOwn(address netip.Addr) (own bool) {
	g.own.Range(func(_, known any) bool {
		own = slices.Contains(known.([]netip.Addr), address)
		return !own
	})
	return own
}

// Parse is ParseTarget with what this guard allows.
func (g *Guard) Parse(text string) (Target, error) {
	return parse(text, g.allow, g.fence)
}

// Admit checks a target when it is created. It returns ErrBlocked if one of the addresses
// it resolves to is not public. A name that does not resolve within two seconds is
// admitted: it may exist later, and is checked again at each dial.
func (g *Guard) Admit(ctx context.Context, t Target) error {
	if t.addr.IsValid() {
		if g.isOwn(t.addr) {
			return ErrBlocked
		}
		return g.fence.admit(t)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	addresses, err := g.resolver.LookupNetIP(ctx, "ip", t.host)
	if err != nil {
		return nil
	}
	for _, address := range addresses {
		if address = address.Unmap(); !g.fence.public(address) || g.isOwn(address) {
			return ErrBlocked
		}
	}
	return nil
}

// control is called with the actual address of each connection, after the name was
// resolved and before a packet is sent. So a resolver that changes its answer between two
// lookups gains nothing.
func (g *Guard) control(network, address string, c syscall.RawConn) error {
	if g.fence.guardian.Safe(network, address, c) != nil {
		return ErrBlocked
	}
	if at, err := netip.ParseAddrPort(address); err != nil || g.isOwn(at.Addr().Unmap()) {
		return ErrBlocked
	}
	return nil
}

// fence holds a Guard's address rules.
type fence struct {
	allow    Allow
	guardian *ssrf.Guardian
	names    []string // denied, in lower case, without a trailing dot
}

func newFence(allow Allow, denied ...netip.Prefix) fence {
	options := []ssrf.Option{ssrf.WithAnyPort()}
	denied4, denied6 := reserved, []netip.Prefix(nil)
	for _, prefix := range denied {
		if prefix.Addr().Is4() {
			denied4 = append(denied4[:len(denied4):len(denied4)], prefix)
		} else {
			denied6 = append(denied6, prefix)
		}
	}
	options = append(options, ssrf.WithDeniedV4Prefixes(denied4...), ssrf.WithDeniedV6Prefixes(denied6...))
	if allow.Loopback {
		options = append(options, ssrf.WithAllowedV4Prefixes(loopback4), ssrf.WithAllowedV6Prefixes(loopback6))
	}
	return fence{allow: allow, guardian: ssrf.New(options...)}
}

func (f fence) public(address netip.Addr) bool { return f.guardian.SafeAddr(address) == nil }

// admit checks what needs no resolver.
func (f fence) admit(t Target) error {
	if t.addr.IsValid() && !f.public(t.addr) || !f.allow.Loopback && isLocalhost(t.host) || slices.Contains(f.names, strings.TrimSuffix(t.host, ".")) {
		return ErrBlocked
	}
	return nil
}

// isLocalhost reports whether a name means this machine, whatever a resolver returns.
// // source: RFC 6761 section 6.3
func isLocalhost(host string) bool {
	host = strings.TrimSuffix(host, ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

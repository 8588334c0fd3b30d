package networktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"parley/cmd/parley/blackbox/kit"
)

// Network is a bridge that connects nodes, each of which has a network namespace of its own.
// Clients outside of them reach every node, whatever is lost between nodes.
type Network struct {
	t      testing.TB
	dir    string
	prefix [3]byte
	Spaces []*Space
}

// Space is the network namespace of a node.
type Space struct {
	ns      netns.NsHandle
	Address net.IP
	filter  *nftables.Conn
	chain   *nftables.Chain
}

// New makes a network for so many nodes. Without the permission it prints a prominent
// notice; in CI it fails.
func New(t testing.TB, count int) *Network {
	t.Helper()
	w := &Network{t: t, dir: t.TempDir(), prefix: [3]byte{10, byte(200 + rand.IntN(50)), byte(rand.IntN(256))}}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("parley-%02x%02x", w.prefix[1], w.prefix[2])}}
	err := netlink.LinkAdd(bridge)
	if errors.Is(err, os.ErrPermission) {
		const left = "!! NOT CHECKED: a network that loses packets between nodes: making one needs root"
		if os.Getenv("CI") == "true" {
			t.Fatal(left)
		}
		t.Skip(left)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range w.Spaces {
			_ = s.ns.Close()
		}
		if err := netlink.LinkDel(bridge); err != nil {
			t.Error(err)
		}
	})
	kit.Must(t, configure(&netlink.Handle{}, bridge, w.address(254)))
	for i := range count {
		s, err := w.newSpace(bridge, i)
		if err != nil {
			t.Fatal(err)
		}
		w.Spaces = append(w.Spaces, s)
	}
	return w
}

func (w *Network) address(last byte) net.IP {
	return net.IPv4(w.prefix[0], w.prefix[1], w.prefix[2], last).To4()
}

// configure gives a link an address and sets it up.
func configure(h *netlink.Handle, l netlink.Link, address net.IP) error {
	if address != nil {
		if err := h.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: address, Mask: net.CIDRMask(24, 32)}}); err != nil {
			return err
		}
	}
	return h.LinkSetUp(l)
}

// newSpace makes a namespace and connects it with the bridge.
func (w *Network) newSpace(bridge netlink.Link, i int) (*Space, error) {
	s := &Space{Address: w.address(byte(i + 1))}
	err := onOwnThread(func(home netns.NsHandle) (err error) {
		s.ns, err = netns.New() // and enters it
		return errors.Join(err, netns.Set(home))
	})
	if err != nil {
		return nil, err
	}
	outside := fmt.Sprintf("pl%02x%02x-%d", w.prefix[1], w.prefix[2], i)
	cable := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: outside, MasterIndex: bridge.Attrs().Index},
		PeerName:  "node", PeerNamespace: netlink.NsFd(int(s.ns)),
	}
	if err := netlink.LinkAdd(cable); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(cable); err != nil {
		return nil, err
	}
	inside, err := netlink.NewHandleAt(s.ns)
	if err != nil {
		return nil, err
	}
	defer inside.Close()
	for name, address := range map[string]net.IP{"lo": nil, "node": s.Address} {
		l, err := inside.LinkByName(name)
		if err == nil {
			err = configure(inside, l, address)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, s.newFilter()
}

// onOwnThread calls a function that changes the namespace of its thread, and back to home.
func onOwnThread(do func(home netns.NsHandle) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		return err
	}
	return errors.Join(do(home), home.Close())
}

// Enter calls a function in a namespace: processes that it starts run there.
func (s *Space) Enter(do func() error) error {
	return onOwnThread(func(home netns.NsHandle) error {
		if err := netns.Set(s.ns); err != nil {
			return err
		}
		return errors.Join(do(), netns.Set(home))
	})
}

// newFilter makes an empty filter of the packets that come in.
func (s *Space) newFilter() (err error) {
	if s.filter, err = nftables.New(nftables.WithNetNSFd(int(s.ns))); err != nil {
		return err
	}
	table := s.filter.AddTable(&nftables.Table{Name: "faults", Family: nftables.TableFamilyIPv4})
	s.chain = s.filter.AddChain(&nftables.Chain{
		Name: "in", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter,
	})
	return s.filter.Flush()
}

// drawn has the kernel draw a number (NFT_NG_RANDOM).
const drawn = 1

// Lose drops so many percent of the packets from one node to another, at random.
func (w *Network) Lose(from, to int, percent uint32) {
	w.t.Helper()
	s := w.Spaces[to]
	s.filter.AddRule(&nftables.Rule{Table: s.chain.Table, Chain: s.chain, Exprs: []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}, // the source
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: w.Spaces[from].Address},
		&expr.Numgen{Register: 1, Type: drawn, Modulus: 100},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(percent)},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	kit.Must(w.t, s.filter.Flush())
}

// Cut drops all packets from one node to another.
func (w *Network) Cut(from, to int) { w.Lose(from, to, 100) }

// Split cuts two nodes off from each other.
func (w *Network) Split(a, b int) {
	w.Cut(a, b)
	w.Cut(b, a)
}

// Heal lets everything pass again.
func (w *Network) Heal() {
	w.t.Helper()
	for _, s := range w.Spaces {
		s.filter.FlushChain(s.chain)
		kit.Must(w.t, s.filter.Flush())
	}
}

// Place is nodes.place in the network.
func (w *Network) Place(i int) (kit.Place, error) {
	s := w.Spaces[i]
	return kit.Place{
		Dir: filepath.Join(w.dir, kit.NodeName(i)), Listen: s.Address.String() + ":8000", Admin: "127.0.0.1:8100",
		Cluster: s.Address.String() + ":7000", Enter: s.Enter,
	}, nil
}

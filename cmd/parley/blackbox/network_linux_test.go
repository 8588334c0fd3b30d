package blackbox

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
)

// network is a bridge that connects nodes, each of which has a network namespace of its own.
// Clients outside of them reach every node, whatever is lost between nodes.
type network struct {
	t      testing.TB
	dir    string
	prefix [3]byte
	spaces []*space
}

// space is the network namespace of a node.
type space struct {
	ns      netns.NsHandle
	address net.IP
	filter  *nftables.Conn
	chain   *nftables.Chain
}

// newNetwork makes a network for so many nodes. Without the permission it prints a prominent
// notice; in CI it fails.
func newNetwork(t testing.TB, count int) *network {
	t.Helper()
	w := &network{t: t, dir: t.TempDir(), prefix: [3]byte{10, byte(200 + rand.IntN(50)), byte(rand.IntN(256))}}
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
		for _, s := range w.spaces {
			_ = s.ns.Close()
		}
		if err := netlink.LinkDel(bridge); err != nil {
			t.Error(err)
		}
	})
	Must(t, configure(&netlink.Handle{}, bridge, w.address(254)))
	for i := range count {
		s, err := w.newSpace(bridge, i)
		if err != nil {
			t.Fatal(err)
		}
		w.spaces = append(w.spaces, s)
	}
	return w
}

func (w *network) address(last byte) net.IP {
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
func (w *network) newSpace(bridge netlink.Link, i int) (*space, error) {
	s := &space{address: w.address(byte(i + 1))}
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
	for name, address := range map[string]net.IP{"lo": nil, "node": s.address} {
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

// enter calls a function in a namespace: processes that it starts run there.
func (s *space) enter(do func() error) error {
	return onOwnThread(func(home netns.NsHandle) error {
		if err := netns.Set(s.ns); err != nil {
			return err
		}
		return errors.Join(do(), netns.Set(home))
	})
}

// newFilter makes an empty filter of the packets that come in.
func (s *space) newFilter() (err error) {
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

// lose drops so many percent of the packets from one node to another, at random.
func (w *network) lose(from, to int, percent uint32) {
	w.t.Helper()
	s := w.spaces[to]
	s.filter.AddRule(&nftables.Rule{Table: s.chain.Table, Chain: s.chain, Exprs: []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}, // the source
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: w.spaces[from].address},
		&expr.Numgen{Register: 1, Type: drawn, Modulus: 100},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(percent)},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	Must(w.t, s.filter.Flush())
}

// cut drops all packets from one node to another.
func (w *network) cut(from, to int) { w.lose(from, to, 100) }

// split cuts two nodes off from each other.
func (w *network) split(a, b int) {
	w.cut(a, b)
	w.cut(b, a)
}

// heal lets everything pass again.
func (w *network) heal() {
	w.t.Helper()
	for _, s := range w.spaces {
		s.filter.FlushChain(s.chain)
		Must(w.t, s.filter.Flush())
	}
}

// place is nodes.place in the network.
func (w *network) place(i int) (Place, error) {
	s := w.spaces[i]
	return Place{
		Dir: filepath.Join(w.dir, NodeName(i)), Listen: s.address.String() + ":8000", Admin: "127.0.0.1:8100",
		Cluster: s.address.String() + ":7000", Enter: s.enter,
	}, nil
}

// numberOf is the number of a node.
func (n *Nodes) numberOf(s *Server) int {
	for i := range n.All {
		if n.Node(i) == s {
			return i
		}
	}
	return -1
}

package nodes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// clusterStatus is what cluster status --json prints.
type clusterStatus struct {
	ClusterID string `json:"cluster_id"`
	Nodes     []struct {
		ID, Name, Address, State string
		Leads                    []int
		Self                     bool
	}
	Groups []struct {
		Group            int
		Leader           *string
		Term             uint64
		Voters, Learners []string
	}
}

func clusterStatusOf(t testing.TB, s *kit.Server) (status clusterStatus) {
	t.Helper()
	said, err := s.Operate("cluster", "status", "--json")
	if err == nil {
		err = json.Unmarshal([]byte(said), &status)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return status
}

// eventuallyStatus waits until the cluster is as wanted.
func eventuallyStatus(t testing.TB, s *kit.Server, what string, met func(clusterStatus) bool) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		status := clusterStatusOf(t, s)
		if met(status) {
			return
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%s never comes true: %+v", what, status)
		}
	}
}

// state is the state of a node by name, "" if the cluster has none.
func (c clusterStatus) state(name string) string {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n.State
		}
	}
	return ""
}

// voters is how many nodes vote.
func (c clusterStatus) voters() int { return len(c.Groups[0].Voters) }

// TestMembersChange has a fourth node join, takes a node out, and replaces one that lost its
// disk. Every node has every message, and logs what became of the members.
func TestMembersChange(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	s := n.Server()
	one, other := kit.Pair(t, s)
	sent := 0
	send := func() {
		t.Helper()
		for range 20 {
			sent++
			one.Send(other)
		}
	}
	send()
	if err := n.Add(3); err != nil {
		t.Fatal(err)
	}
	eventuallyStatus(t, s, "four voters", func(c clusterStatus) bool { return c.voters() == 4 && c.state("d") == "ready" })
	send()

	oneTokenOneNode(t, n)
	oneAddressOneNode(t, n)
	replaceLost(t, n, 3)
	send()
	n.Ready(t)
	for i := range 4 { // every node shows every message
		if rows := other.On(n.Node(i)).Everything(); len(rows) != sent {
			t.Errorf("node %d shows %d of %d messages", i, len(rows), sent)
		}
	}
	logsMembers(t, n)
}

// logsMembers checks what the nodes logged about the members of TestMembersChange: each change
// once, and never a token.
func logsMembers(t *testing.T, n *kit.Nodes) {
	t.Helper()
	token, err := n.Node(0).Operate("cluster", "token")
	kit.Must(t, err)
	want := []string{
		"a node was added to the cluster: d", "a node of the cluster became a voter: d",
		"a node was added to the cluster: e", "a node of the cluster became a voter: e", "a node was removed from the cluster: e",
		"a node was added to the cluster: d2", "a node of the cluster became a voter: d2", "a node of the cluster was replaced: d by_name=d2",
	}
	for i := range 3 {
		said := n.Node(i).Log.Text()
		var got []string
		for _, line := range loggedChange.FindAllStringSubmatch(said, -1) {
			got = append(got, line[1]+": "+line[2]+line[3])
		}
		if !slices.Equal(got, want) {
			t.Errorf("node %d logs %q, want %q", i, got, want)
		}
		tokens := []int{strings.Count(said, "INF a join token was issued"), strings.Count(said, "replaces=")}
		if i > 0 && tokens[0] > 0 || i == 0 && !slices.Equal(tokens, []int{7, 1}) { // b, c, d, e, f, d2, and that of this function
			t.Errorf("node %d logs that it issued %v join tokens\n%s", i, tokens, n.Node(i).Log.Tail())
		}
		if strings.Contains(said, strings.TrimSpace(token)) {
			t.Errorf("node %d logs a join token", i)
		}
	}
}

// loggedChange is a line about a member of the cluster that is called d, d2 or e.
var loggedChange = regexp.MustCompile(`INF (a node .*) node=[0-9a-f]{16} name=([de]2?) address=127\.0\.0\.1:[0-9]+(?: by=[0-9a-f]{16}( by_name=d2))?\n`)

// oneTokenOneNode has a node join and leave again: another one is not admitted with its token.
func oneTokenOneNode(t *testing.T, n *kit.Nodes) {
	t.Helper()
	s := n.Server()
	token, err := s.Operate("cluster", "token")
	if err != nil {
		t.Fatal(token, err)
	}
	for i, want := range []bool{true, false} {
		at, err := kit.UnusedAddress()
		if err != nil {
			t.Fatal(err)
		}
		e := &kit.Server{Dir: t.TempDir(), Flags: append([]string{"--node-name", "e", "--cluster-listen", at, "--join", s.Flag("--cluster-listen"), "--join-token", strings.TrimSpace(token)}, n.Flags...)}
		_, err = e.Launched("127.0.0.1:0")
		if (err == nil) != want {
			t.Fatalf("try %d with one token: %v", i+1, err)
		}
		if err != nil {
			continue
		}
		eventuallyStatus(t, s, "five voters", func(c clusterStatus) bool { return c.voters() == 5 })
		e.Kill()
		if said, err := s.Operate("cluster", "remove", "e"); err != nil {
			t.Fatal(said, err)
		}
	}
	if said, err := s.Operate("cluster", "remove", "e"); err == nil {
		t.Errorf("a node is removed twice: %s", said)
	}
}

// oneAddressOneNode has a node join with the address of another one: it is not admitted.
func oneAddressOneNode(t *testing.T, n *kit.Nodes) {
	t.Helper()
	s := n.Server()
	token, err := s.Operate("cluster", "token")
	kit.Must(t, err)
	at, err := kit.UnusedAddress()
	kit.Must(t, err)
	said := kit.Fails(t, t.TempDir(), append([]string{
		"--node-name", "f", "--cluster-listen", at, "--cluster-advertise", n.Node(1).Flag("--cluster-listen"),
		"--join", s.Flag("--cluster-listen"), "--join-token", strings.TrimSpace(token),
	}, n.Flags...)...)
	if !strings.Contains(said, "has this address already") {
		t.Errorf("it does not say why it is not admitted:\n%s", said)
	}
	if voters := clusterStatusOf(t, s).voters(); voters != 4 {
		t.Errorf("%d voters", voters)
	}
}

// replaceLost has a new node take the place of one that lost its disk.
func replaceLost(t *testing.T, n *kit.Nodes, i int) {
	t.Helper()
	lost, other := n.Node(i), n.Node((i+1)%len(n.All))
	lost.Kill()
	kit.Must(t, os.RemoveAll(lost.Dir))
	former := lost.Flag("--node-name")
	token, err := other.Operate("cluster", "replace", former)
	if err != nil {
		t.Fatal(token, err)
	}
	lost.Flags = slices.Clone(lost.Flags)
	lost.Flags[1] = former + "2"
	lost.Joins = []string{"--join", other.Flag("--cluster-listen"), "--join-token", strings.TrimSpace(token)}
	if _, err := lost.Launched(lost.Addr); err != nil {
		t.Fatal(err)
	}
	eventuallyStatus(t, other, "the new node in place of the lost one", func(c clusterStatus) bool {
		return c.voters() == len(n.All) && c.state(former) == "" && c.state(former+"2") == "ready"
	})
}

// TestSettingsAreCompared starts a follower again with other settings than the node that leads:
// it names them, once. Nodes with the same settings say nothing.
func TestSettingsAreCompared(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3, "--quota", "tier1.agents=5", "--quota", "tier1.groups=3")
	n.Ready(t)
	const warning = "WRN settings differ"
	for i := range 3 {
		if said := n.Node(i).Log.Text(); strings.Contains(said, warning) {
			t.Errorf("node %d warns of its settings:\n%s", i, said)
		}
	}
	other := n.Follower()
	kit.Must(t, other.Drain(15*time.Second))
	other.Flags = append(slices.Clone(other.Flags), "--brand", "other", "--quota", "tier1.groups=4", "--rate", "writes=600")
	kit.Must(t, other.Again())
	kit.Eventually(t, "a warning names what differs", func() bool {
		return strings.Contains(other.Log.Text(), warning+` from those of the leader, and should be the same on all nodes settings="--brand --quota --rate"`)
	})
	n.Ready(t)
	if said := other.Log.Text(); strings.Count(said, warning) != 1 {
		t.Errorf("not one warning:\n%s", said)
	}
}

// TestRemovedNodeEndsWaiting removes a node on which a stream is open and a request waits: both
// end, so that their clients ask a node that has news.
func TestRemovedNodeEndsWaiting(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	_, other := kit.Pair(t, n.Server())
	n.Ready(t)
	removed, stays := n.Follower(), n.Leader()
	reader := other.On(removed)
	st, elsewhere := reader.Stream(""), other.On(stays).Stream("")
	waited := make(chan *kit.Answer, 1)
	go func() { waited <- reader.Get(reader.Path("/wait?timeout_ms=60000")) }()
	time.Sleep(500 * time.Millisecond) // the wait has begun
	if said, err := stays.Operate("cluster", "remove", removed.Flag("--node-name")); err != nil {
		t.Fatal(said, err)
	}
	began := time.Now()
	if !endsWithin(st, 30*time.Second) {
		t.Error("the stream stays open and brings nothing")
	}
	select {
	case a := <-waited:
		if a.Status != 200 || time.Since(began) < time.Second {
			t.Errorf("the wait was answered %d %s after %v", a.Status, a.Raw, time.Since(began))
		}
	case <-time.After(30 * time.Second):
		t.Error("the request still waits on the removed node")
	}
	t.Logf("both ended %v after the removal", time.Since(began).Round(time.Millisecond))
	if endsWithin(elsewhere, 0) {
		t.Error("the stream on a member ended")
	}
}

// endsWithin reads the events of a stream, and reports whether it ends in time.
func endsWithin(st *kit.Stream, patience time.Duration) bool {
	late := time.After(patience)
	for {
		select {
		case _, open := <-st.Events:
			if !open {
				return true
			}
		case <-late:
			return false
		}
	}
}

// TestOlderCopy brings a node back with an older copy of its data directory: it must refuse
// to take part, because others count on what it acknowledged since.
func TestOlderCopy(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	s := n.Server()
	one, other := kit.Pair(t, s)
	one.Send(other)
	victim := n.Follower()
	if err := victim.Drain(15 * time.Second); err != nil {
		t.Fatal(err)
	}
	older := filepath.Join(t.TempDir(), "older")
	if said, err := exec.Command("cp", "-a", victim.Dir, older).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if err := victim.Again(); err != nil {
		t.Fatal(err)
	}
	n.Ready(t)
	for range 20 {
		one.Send(other)
	}
	if err := victim.Drain(15 * time.Second); err != nil {
		t.Fatal(err)
	}
	newest := victim.Dir + ".newest"
	if err := os.Rename(victim.Dir, newest); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(older, victim.Dir); err != nil {
		t.Fatal(err)
	}
	if said := kit.Fails(t, victim.Dir, victim.Flags...); !strings.Contains(said, "older copy") {
		t.Errorf("it does not say why:\n%s", said)
	}
	if err := os.RemoveAll(victim.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(newest, victim.Dir); err != nil { // the control: the right one is taken
		t.Fatal(err)
	}
	if err := victim.Again(); err != nil {
		t.Fatal(err)
	}
	n.Ready(t)
}

// TestConvertedDirectory makes the directory of a single server the first node of a cluster:
// everything in it is on the nodes that join.
func TestConvertedDirectory(t *testing.T) {
	kit.OneServerOnly(t, "it starts nodes itself")
	t.Parallel()
	single := kit.Start(t)
	one, other := kit.Pair(t, single)
	for range 50 {
		one.Send(other)
	}
	before := kit.IDs(other.Everything())
	if err := single.Drain(15 * time.Second); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Rename(single.Dir, filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	n, err := kit.OpenNodes(dir, 2, "--base-url", single.Base)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	}()
	reader := other.On(n.Node(1))
	if after := kit.IDs(reader.Everything()); !slices.Equal(before, after) {
		t.Errorf("the inbox had %d messages, the node that joined shows %d, or others", len(before), len(after))
	}
	one.On(n.Node(1)).Send(reader)
	if n := len(reader.Everything()); n != len(before)+1 {
		t.Errorf("after another message there are %d", n)
	}
	for i := range 2 { // one has commits from before it was a node
		kit.Must(t, n.Node(i).Drain(15*time.Second))
		kit.Succeeds(t, "verify", "--data", n.Node(i).Dir)
		reportsLostWitness(t, n.Node(i).Dir, "journal", "witness")
		kit.Must(t, n.Node(i).Again())
	}
	n.Ready(t)
	for _, data := range []string{"backup", "quarantine"} { // nothing writes beside the cluster
		args := map[string][]string{"backup": {"backup", "--to", t.TempDir(), "--data", n.Node(0).Dir}, "quarantine": {"quarantine", "drop", "x", "--data", n.Node(0).Dir}}[data]
		if said, err := kit.Execute(args...); err == nil {
			t.Errorf("%s opens the directory of a node: %s", data, said)
		}
	}
}

// TestClusterFromBackup begins a new cluster with the restored backup of a node of another one.
func TestClusterFromBackup(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 2)
	one, other := kit.Pair(t, n.Server())
	for range 10 {
		one.Send(other)
	}
	to, dir := filepath.Join(t.TempDir(), "backup"), t.TempDir()
	if said, err := n.Node(1).Operate("backup", "--to", to); err != nil {
		t.Fatal(said, err)
	}
	kit.Succeeds(t, "restore", "--from", to, "--data", filepath.Join(dir, "a"))
	again, err := kit.OpenNodes(dir, 2, "--base-url", n.Server().Base)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := again.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if rows := other.On(again.Node(1)).Everything(); len(rows) != 10 {
		t.Errorf("the new cluster has %d of 10 messages", len(rows))
	}
}

// TestKilledWhileJoining kills a node after it was admitted and before it knew: the same command,
// with the same token, makes it a member, and it is one member.
func TestKilledWhileJoining(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 1)
	n.Ready(t)
	token, err := n.Node(0).Operate("cluster", "token")
	kit.Must(t, err)
	at, err := kit.LocalPlace(t.TempDir())(1)
	kit.Must(t, err)
	s := &kit.Server{Dir: at.Dir, Flags: append([]string{"--node-name", "b", "--cluster-listen", at.Cluster, "--admin-listen", at.Admin}, n.Flags...)}
	joins := []string{"--join", n.Node(0).Flag("--cluster-listen"), "--join-token", strings.TrimSpace(token)}
	s.Joins = joins
	kit.Must(t, s.Begin(at.Listen))
	knows := filepath.Join(at.Dir, "cluster", "node.json")
	kit.Eventually(t, "it is admitted", func() bool { _, err := os.Stat(knows); return err == nil })
	s.Kill()
	kit.Must(t, os.Remove(knows)) // it is written last
	written, err := os.ReadDir(at.Dir)
	kit.Must(t, err)
	for _, f := range written {
		if f.Name() != "cluster" && f.Name() != "master.key" { // what comes after it
			kit.Must(t, os.RemoveAll(filepath.Join(at.Dir, f.Name())))
		}
	}
	s.Joins = joins
	if _, err := s.Launched(at.Listen); err != nil {
		t.Fatal(err)
	}
	n.ConsistsOf(append(n.All, s)...)
	n.Ready(t)
	if members := len(clusterStatusOf(t, n.Node(0)).Nodes); members != 2 {
		t.Errorf("%d members", members)
	}
}

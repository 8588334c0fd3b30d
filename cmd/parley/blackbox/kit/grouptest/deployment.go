package grouptest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// Deployment is a set of agents and groups on which clients run all commands at
// once.
type Deployment struct {
	t      *testing.T
	s      *kit.Server
	mu     sync.Mutex
	Agents []*kit.Agent
	gone   []*kit.Agent // revoked, or being revoked when the server died
	Groups []*Group
	Sent   map[string]int // the recipients of each acknowledged broadcast, by payload
	dying  atomic.Bool
	over   atomic.Bool
	Done   atomic.Int64
}

// NewDeployment creates the agents and the first groups.
func NewDeployment(t *testing.T, s *kit.Server) *Deployment {
	v := &Deployment{t: t, s: s, Sent: map[string]int{}}
	for range 3 {
		v.Agents = append(v.Agents, s.Org(t).NewAgents(8, "v")...)
	}
	for i, policy := range []string{"open", "closed", "majority", "unanimity", "open", "majority"} {
		body := obj{"enrollment_policy": policy, "visibility": "private", "isolated": i >= 4}
		v.Groups = append(v.Groups, New(v.Agents[len(v.Agents)-1-i], body))
	}
	return v
}

func (v *Deployment) randomAgent() *kit.Agent {
	v.mu.Lock()
	defer v.mu.Unlock()
	return kit.AnyOf(v.Agents)
}

func (v *Deployment) randomGroup() *Group {
	v.mu.Lock()
	defer v.mu.Unlock()
	return kit.AnyOf(v.Groups)
}

// randomRequest makes one random request, permitted or not.
func (v *Deployment) randomRequest() *kit.Answer {
	g, other, r := v.randomAgent(), v.randomAgent(), v.randomGroup()
	switch dice := rand.IntN(100); {
	case dice < 25:
		return r.Join(g)
	case dice < 40:
		return r.Remove(g, g)
	case dice < 45:
		return r.Remove(r.By, g)
	case dice < 60:
		return r.Invite(g, other)
	case dice < 80:
		return v.votes(r, g)
	case dice < 85:
		return r.Role(r.By, other, []string{"admin", "member"}[rand.IntN(2)])
	case dice < 90:
		return v.broadcasts(r, g)
	case dice < 92:
		return v.founds(g)
	case dice < 93:
		return g.Request("DELETE", r.Path(""), nil)
	case dice < 94:
		return v.revokes(g)
	}
	return r.By.Request("PATCH", r.Path(""), obj{"enrollment_policy": []string{"open", "closed", "majority", "unanimity"}[rand.IntN(4)]})
}

// votes casts a vote on some open request.
func (v *Deployment) votes(r *Group, g *kit.Agent) *kit.Answer {
	page := r.By.Org.Get(r.Path("/requests"))
	rows, _ := page.At("items").([]any)
	if len(rows) == 0 {
		return page
	}
	return r.Vote(g, kit.Text(kit.AnyOf(rows).(obj), "id"), []string{"approve", "approve", "deny"}[rand.IntN(3)])
}

// broadcasts sends a broadcast, and remembers it if it was acknowledged.
func (v *Deployment) broadcasts(r *Group, g *kit.Agent) *kit.Answer {
	payload := kit.B64([]byte(kit.RandomHex(8)))
	a := r.TryBroadcast(g, obj{"encrypted_payload": payload})
	if a.Status == 201 {
		recipients, _ := a.At("recipient_count").(float64)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.Sent[payload] = int(recipients)
	}
	return a
}

func (v *Deployment) founds(g *kit.Agent) *kit.Answer {
	a := TryCreate(g, obj{"enrollment_policy": "open", "isolated": rand.IntN(2) == 0})
	if a.Status == 201 {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.Groups = append(v.Groups, Founded(g, a))
	}
	return a
}

func (v *Deployment) revokes(g *kit.Agent) *kit.Answer {
	v.mu.Lock()
	at := slices.Index(v.Agents, g)
	if few := len(v.Agents) < 16; few || at < 0 {
		v.mu.Unlock()
		return g.Org.Get("/org")
	}
	v.Agents, v.gone = slices.Delete(v.Agents, at, at+1), append(v.gone, g)
	v.mu.Unlock()
	return g.Delete(g.Path(""))
}

// RunUntilKilled runs clients for a while and kills the server during their requests.
func (v *Deployment) RunUntilKilled(d time.Duration) {
	v.RunThrough(d, v.s.Kill)
	v.s.Restart(v.t)
	v.RepeatRevocations()
}

// RunThrough runs clients for a while, and goes on with them during a fault that may break
// their connections.
func (v *Deployment) RunThrough(d time.Duration, fault func()) {
	v.dying.Store(false)
	v.over.Store(false)
	var working sync.WaitGroup
	for range 10 {
		working.Go(func() {
			for !v.over.Load() {
				switch a := v.randomRequest(); {
				case a.Err != nil && v.dying.Load():
				case a.Err != nil, a.Status >= 500 && a.Status != 503:
					a.Errorf("no answer from a healthy server")
					return
				case a.Status < 300:
					v.Done.Add(1)
				}
			}
		})
	}
	time.Sleep(d)
	v.dying.Store(true)
	fault()
	v.over.Store(true)
	working.Wait()
}

// RepeatRevocations repeats those of which nobody knows what became of them.
func (v *Deployment) RepeatRevocations() {
	for _, g := range v.gone {
		g.Delete(g.Path("")).Want(204)
	}
}

// faults returns the violations of the groups' invariants.
func (v *Deployment) faults() (faults []string) {
	seats, isolated := map[string]int{}, map[string]bool{}
	for _, r := range v.Groups {
		a := r.By.Org.Get(r.Path(""))
		if a.Status == 410 {
			continue
		}
		rows := a.Want(200).Shaped(Shape).At("member_agent_ids").([]any)
		members := r.By.Org.Pages(r.Path("/members"), "?limit=50")
		admins := 0
		for _, m := range members {
			if m["role"] == "admin" {
				admins++
			}
			id := kit.Text(m, "agent_id")
			seats[id]++
			isolated[id] = isolated[id] || a.At("isolated") == true
		}
		told := []any{}
		for _, m := range members {
			told = append(told, m["agent_id"])
		}
		if frozen := a.At("frozen"); frozen != (admins == 0) || !kit.SameSet(rows, told) || !kit.Same(a.At("member_count"), len(rows)) || len(slices.Compact(slices.Sorted(slices.Values(kit.IDs(members))))) != len(rows) {
			faults = append(faults, a.Dump("its members are not in order"))
		}
	}
	for _, r := range v.Groups {
		faults = append(faults, r.voteFaults()...)
	}
	for id, n := range seats {
		if n > 1 && isolated[id] {
			faults = append(faults, id+" is in an isolated group and in others")
		}
		if !slices.ContainsFunc(v.Agents, func(g *kit.Agent) bool { return g.ID == id }) {
			faults = append(faults, id+" is revoked and a member")
		}
	}
	return faults
}

// Settle waits until the groups are in order.
func (v *Deployment) Settle() {
	v.t.Helper()
	var faults []string
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if faults = v.faults(); len(faults) == 0 || time.Since(began) > 3*time.Second {
			break
		}
	}
	for _, fault := range faults {
		v.t.Error(fault)
	}
}

// voteFaults returns the open requests of a group that its votes have decided, or that have
// more votes than voters.
func (r *Group) voteFaults() (faults []string) {
	rows := r.By.Org.Get(r.Path("/requests") + "?limit=50")
	if rows.Status == 410 {
		return nil
	}
	for _, row := range rows.Want(200).Items() {
		count := func(name string) float64 { n, _ := row[name].(float64); return n }
		// An invitation waits for its agent, whatever the votes.
		if row["status"] != "pending" || row["invited_by"] != nil || count("electorate_size") == 0 {
			continue
		}
		if count("approvals") >= count("approvals_needed") || count("denials") >= count("denials_needed") || count("approvals")+count("denials") > count("electorate_size") {
			faults = append(faults, fmt.Sprintf("a request that is open has these votes: %v", row))
		}
	}
	return faults
}

// Views are all listings of groups and inboxes as one node shows them.
func (v *Deployment) Views(s *kit.Server) map[string]string {
	out := map[string]string{}
	see := func(a *kit.Answer) *kit.Answer {
		out[a.Asked] = fmt.Sprint(a.Status)
		if a.Status != 410 {
			out[a.Asked] = string(a.Want(200).Raw)
		}
		return a
	}
	for _, r := range v.Groups {
		by := r.By.Org.On(s)
		see(by.Get(r.Path("")))
		see(by.Get(r.Path("/members?limit=100")))
		see(by.Get(r.Path("/requests?status=all&limit=100")))
	}
	for _, g := range slices.Concat(v.Agents, v.gone) {
		see(g.On(s).Get(g.Path("")))
		out["inbox of "+g.ID] = fmt.Sprint(g.On(s).Everything())
	}
	return out
}

// Inboxes are the payloads of broadcasts in all inboxes of a node, oldest first.
func (v *Deployment) Inboxes(s *kit.Server) map[string][]string {
	out := map[string][]string{}
	for _, g := range slices.Concat(v.Agents, v.gone) {
		for _, m := range slices.Backward(g.On(s).Everything()) {
			out[g.Name+" "+g.ID] = append(out[g.Name+" "+g.ID], kit.Text(m, "encrypted_payload"))
		}
	}
	return out
}

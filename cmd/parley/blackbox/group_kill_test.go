package blackbox

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// groupDeployment is a set of agents and groups on which clients run all commands at
// once.
type groupDeployment struct {
	t      *testing.T
	s      *Server
	mu     sync.Mutex
	agents []*Agent
	gone   []*Agent // revoked, or being revoked when the server died
	groups []*group
	said   map[string]int // the recipients of each acknowledged broadcast, by payload
	dying  atomic.Bool
	over   atomic.Bool
	done   atomic.Int64
}

func newGroupDeployment(t *testing.T, s *Server) *groupDeployment {
	v := &groupDeployment{t: t, s: s, said: map[string]int{}}
	for range 3 {
		v.agents = append(v.agents, s.Org(t).NewAgents(8, "v")...)
	}
	for i, policy := range []string{"open", "closed", "majority", "unanimity", "open", "majority"} {
		body := obj{"enrollment_policy": policy, "visibility": "private", "isolated": i >= 4}
		v.groups = append(v.groups, v.agents[len(v.agents)-1-i].group(body))
	}
	return v
}

func (v *groupDeployment) randomAgent() *Agent {
	v.mu.Lock()
	defer v.mu.Unlock()
	return AnyOf(v.agents)
}

func (v *groupDeployment) randomGroup() *group {
	v.mu.Lock()
	defer v.mu.Unlock()
	return AnyOf(v.groups)
}

// randomRequest makes one random request, permitted or not.
func (v *groupDeployment) randomRequest() *Answer {
	g, other, r := v.randomAgent(), v.randomAgent(), v.randomGroup()
	switch dice := rand.IntN(100); {
	case dice < 25:
		return r.join(g)
	case dice < 40:
		return r.remove(g, g)
	case dice < 45:
		return r.remove(r.by, g)
	case dice < 60:
		return r.invite(g, other)
	case dice < 80:
		return v.votes(r, g)
	case dice < 85:
		return r.role(r.by, other, []string{"admin", "member"}[rand.IntN(2)])
	case dice < 90:
		return v.broadcasts(r, g)
	case dice < 92:
		return v.founds(g)
	case dice < 93:
		return g.Request("DELETE", r.path(""), nil)
	case dice < 94:
		return v.revokes(g)
	}
	return r.by.Request("PATCH", r.path(""), obj{"enrollment_policy": []string{"open", "closed", "majority", "unanimity"}[rand.IntN(4)]})
}

// votes casts a vote on some open request.
func (v *groupDeployment) votes(r *group, g *Agent) *Answer {
	page := r.by.Org.Get(r.path("/requests"))
	rows, _ := page.At("items").([]any)
	if len(rows) == 0 {
		return page
	}
	return r.vote(g, Text(AnyOf(rows).(obj), "id"), []string{"approve", "approve", "deny"}[rand.IntN(3)])
}

// broadcasts sends a broadcast, and remembers it if it was acknowledged.
func (v *groupDeployment) broadcasts(r *group, g *Agent) *Answer {
	payload := B64([]byte(RandomHex(8)))
	a := r.tryBroadcast(g, obj{"encrypted_payload": payload})
	if a.Status == 201 {
		recipients, _ := a.At("recipient_count").(float64)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.said[payload] = int(recipients)
	}
	return a
}

func (v *groupDeployment) founds(g *Agent) *Answer {
	a := g.tryCreateGroup(obj{"enrollment_policy": "open", "isolated": rand.IntN(2) == 0})
	if a.Status == 201 {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.groups = append(v.groups, g.founded(a))
	}
	return a
}

func (v *groupDeployment) revokes(g *Agent) *Answer {
	v.mu.Lock()
	at := slices.Index(v.agents, g)
	if few := len(v.agents) < 16; few || at < 0 {
		v.mu.Unlock()
		return g.Org.Get("/org")
	}
	v.agents, v.gone = slices.Delete(v.agents, at, at+1), append(v.gone, g)
	v.mu.Unlock()
	return g.Delete(g.Path(""))
}

// runUntilKilled runs clients for a while and kills the server during their requests.
func (v *groupDeployment) runUntilKilled(d time.Duration) {
	v.runThrough(d, v.s.Kill)
	v.s.Restart(v.t)
	v.repeatRevocations()
}

// runThrough runs clients for a while, and goes on with them during a fault that may break
// their connections.
func (v *groupDeployment) runThrough(d time.Duration, fault func()) {
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
					v.done.Add(1)
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

// repeatRevocations repeats those of which nobody knows what became of them.
func (v *groupDeployment) repeatRevocations() {
	for _, g := range v.gone {
		g.Delete(g.Path("")).Want(204)
	}
}

// faults returns the violations of the groups' invariants.
func (v *groupDeployment) faults() (faults []string) {
	seats, isolated := map[string]int{}, map[string]bool{}
	for _, r := range v.groups {
		a := r.by.Org.Get(r.path(""))
		if a.Status == 410 {
			continue
		}
		rows := a.Want(200).Shaped(groupShape).At("member_agent_ids").([]any)
		members := r.by.Org.Pages(r.path("/members"), "?limit=50")
		admins := 0
		for _, m := range members {
			if m["role"] == "admin" {
				admins++
			}
			id := Text(m, "agent_id")
			seats[id]++
			isolated[id] = isolated[id] || a.At("isolated") == true
		}
		told := []any{}
		for _, m := range members {
			told = append(told, m["agent_id"])
		}
		if admins == 0 || !SameSet(rows, told) || !Same(a.At("member_count"), len(rows)) || len(slices.Compact(slices.Sorted(slices.Values(IDs(members))))) != len(rows) {
			faults = append(faults, a.Dump("its members are not in order"))
		}
	}
	for _, r := range v.groups {
		faults = append(faults, r.voteFaults()...)
	}
	for id, n := range seats {
		if n > 1 && isolated[id] {
			faults = append(faults, id+" is in an isolated group and in others")
		}
		if !slices.ContainsFunc(v.agents, func(g *Agent) bool { return g.ID == id }) {
			faults = append(faults, id+" is revoked and a member")
		}
	}
	return faults
}

// settle waits until the groups are in order.
func (v *groupDeployment) settle() {
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
func (r *group) voteFaults() (faults []string) {
	rows := r.by.Org.Get(r.path("/requests") + "?limit=50")
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

// TestGroupsUnderKills runs random foundings, joins, departures, removals, invitations,
// votes, promotions, deletions and revocations while the server is killed again and
// again. After each restart the groups keep their invariants, and at the end the data
// directory passes verification.
func TestGroupsUnderKills(t *testing.T) {
	Own(t, func(t *testing.T, journals string) {
		s := Start(t, "--journals", journals)
		v := newGroupDeployment(t, s)
		// On a slow machine 100 requests take more than four lives.
		for lives := 0; lives < 4 || lives < 12 && v.done.Load() < 100; lives++ {
			v.runUntilKilled(time.Duration(150+rand.IntN(250)) * time.Millisecond)
			v.settle()
		}
		t.Logf("%d requests, %d groups, %d agents left", v.done.Load(), len(v.groups), len(v.agents))
		if v.done.Load() < 100 {
			t.Errorf("only %d requests", v.done.Load())
		}
		VerifyDirectory(t, s)
	})
}

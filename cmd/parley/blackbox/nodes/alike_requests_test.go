package nodes

import (
	"fmt"
	"slices"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

func draw[T any](p *alike, list []T) T { return list[p.random.IntN(len(list))] }

// request makes the request with a number.
func (p *alike) request(n int) {
	kinds := []func(int){
		p.send, p.send, p.send, p.repeat, p.reply, p.reply, p.move, p.move, p.page, p.talk, p.message,
		p.agent, p.key, p.group, p.enroll, p.enroll, p.vote, p.broadcast, p.leave, p.organization, p.acknowledge, p.nonsense,
	}
	draw(p, kinds)(n)
}

func (p *alike) send(n int) {
	from, to := draw(p, p.agents), draw(p, p.agents)
	body := obj{"encrypted_payload": kit.B64(fmt.Appendf(nil, "message %d", n)), "type": draw(p, []string{"svc.v1.dm", "acme.v1.letter"})}
	if p.random.IntN(4) == 0 {
		body["conversation_metadata"] = obj{"n": n}
	}
	if p.random.IntN(2) == 0 {
		p.said(from.TrySend(to, body))
		return
	}
	key := fmt.Sprint("k", n)
	p.keyed = append(p.keyed, func() *kit.Answer {
		again := obj{}
		if p.random.IntN(4) == 0 {
			again["type"] = "acme.v1.other"
		}
		return from.TrySend(to, kit.Merged(body, again), "Idempotency-Key", key)
	})
	p.said(from.TrySend(to, body, "Idempotency-Key", key))
}

// said notes the answer to a message, and remembers the message.
func (p *alike) said(a *kit.Answer) {
	if p.note(a); a.Status == 201 {
		p.messages = append(p.messages, a.Body)
	}
}

func (p *alike) repeat(int) {
	if len(p.keyed) > 0 {
		p.note(draw(p, p.keyed)())
	}
}

// anyMessage is one of the messages, or one that is not.
func (p *alike) anyMessage() obj {
	if len(p.messages) == 0 || p.random.IntN(20) == 0 {
		return obj{"id": kit.Nobody, "conversation_id": kit.Nobody}
	}
	return p.messages[max(0, len(p.messages)-1-p.random.IntN(20))]
}

// either is mostly an agent that a message concerns.
func (p *alike) either(m obj) *kit.Agent {
	g := p.withID(kit.Text(m, draw(p, []string{"to_agent_id", "from_agent_id"})))
	if g == nil || p.random.IntN(8) == 0 {
		return draw(p, p.agents)
	}
	return g
}

func (p *alike) withID(id string) *kit.Agent {
	if at := slices.IndexFunc(p.agents, func(g *kit.Agent) bool { return g.ID == id }); at >= 0 {
		return p.agents[at]
	}
	return nil
}

func (p *alike) reply(n int) {
	m := p.anyMessage()
	p.said(p.either(m).TryReply(m, obj{"encrypted_payload": kit.B64(fmt.Appendf(nil, "reply %d", n))}))
}

func (p *alike) move(int) {
	m := p.anyMessage()
	status := draw(p, []string{"open", "open", "open", "paused", "paused", "input_required", "input_required", "completed", "rejected", "asleep"})
	p.note(p.either(m).Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": status, "reason": "because"}))
}

// page reads an inbox, page by page.
func (p *alike) page(int) {
	g := draw(p, p.agents)
	path := g.Path(fmt.Sprintf("/messages?limit=%d", 1+p.random.IntN(10)))
	cursor := ""
	for range 3 {
		a := p.note(g.Get(path + cursor))
		next, _ := a.At("next_cursor").(string)
		if cursor = "&cursor=" + next; next == "" {
			return
		}
	}
}

func (p *alike) talk(int) {
	m := p.anyMessage()
	g := p.either(m)
	path := "/conversations/" + kit.Text(m, "conversation_id")
	p.note(g.Get(draw(p, []string{path, path + "/participants", path + "/messages?limit=5", g.Path("/conversations?limit=5")})))
}

func (p *alike) message(int) {
	m := p.anyMessage()
	g := p.either(m)
	p.note(g.Request(draw(p, []string{"GET", "GET", "PUT"}), "/messages/"+kit.Text(m, "id"), nil))
}

func (p *alike) agent(n int) {
	g := draw(p, p.agents)
	switch p.random.IntN(8) {
	case 0:
		p.newAgent(g.Org, fmt.Sprint("agent", n))
	case 1:
		p.newAgent(g.Org, g.Name)
	case 2:
		p.note(g.Patch(g.Path(""), obj{"unlisted": p.random.IntN(2) == 0, "incoming_policy": draw(p, []string{"accept_all", "accept_all", "groups_only"})}))
	case 3:
		p.note(g.Put(g.Path("/card"), kit.Merged(kit.PlainCard(), obj{"name": fmt.Sprint("card ", n), "is_public": p.random.IntN(2) == 0})))
	case 4:
		if p.streams[g] == nil && len(p.agents) > 5 && p.random.IntN(3) == 0 {
			p.note(g.Delete(g.Path("")))
		}
	case 5:
		p.note(g.Get("/agents?include_revoked=true&limit=3"))
	case 6:
		p.note(p.s.Call(p.t, "", "GET", g.Path("/keys"), nil))
	default:
		p.note(draw(p, p.orgs).Get(g.Path(draw(p, []string{"", "/card", "/did.json", "/key-bindings"}))))
	}
}

func (p *alike) key(int) {
	g := draw(p, p.agents)
	sign, seal := p.keys()
	switch p.random.IntN(3) {
	case 0:
		p.note(g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(sign)}))
	case 1:
		p.note(g.Post(g.Path("/keys"), obj{"encryption_public_key": kit.SealJWK(seal)}))
	default:
		p.note(g.Post(g.Path("/keys/retire"), obj{"kid": g.SignKid()}))
	}
}

func (p *alike) group(n int) {
	g := draw(p, p.agents)
	if len(p.groups) > 6 || p.random.IntN(2) == 0 {
		p.note(g.Request("GET", draw(p, []string{"/groups", "/groups?scope=all&limit=3", "/groups?scope=seated", "/groups/invites"}), nil))
		return
	}
	a := p.note(g.Request("POST", "/groups", obj{
		"name": fmt.Sprint("group", n), "enrollment_policy": draw(p, []string{"open", "open", "closed", "majority", "unanimity"}),
		"visibility": draw(p, []string{"public", "private"}), "isolated": p.random.IntN(5) == 0,
	}))
	if a.Status == 201 {
		p.groups = append(p.groups, &grouptest.Group{T: p.t, By: g, ID: a.Str("id"), Name: a.Str("name"), Handle: a.Str("handle")})
	}
}

func (p *alike) enroll(int) {
	if len(p.groups) == 0 {
		return
	}
	r, g := draw(p, p.groups), draw(p, p.agents)
	a := r.Join(g)
	if p.random.IntN(3) == 0 {
		a = r.Invite(r.By, g)
	}
	p.note(a)
	for _, path := range []string{"request.id", "request_id"} {
		if id, ok := a.At(path).(string); ok && a.Status == 200 {
			p.asked = append(p.asked, id)
		}
	}
}

func (p *alike) vote(int) {
	if len(p.asked) == 0 {
		return
	}
	r, g := draw(p, p.groups), draw(p, p.agents)
	if p.random.IntN(2) == 0 {
		g = r.By
	}
	p.note(r.Vote(g, draw(p, p.asked), draw(p, []string{"approve", "approve", "deny", "perhaps"})))
	p.note(g.Request("GET", r.Path("/requests?status=all&limit=4"), nil))
}

func (p *alike) broadcast(n int) {
	if len(p.groups) == 0 {
		return
	}
	r, g := draw(p, p.groups), draw(p, p.agents)
	if p.random.IntN(2) == 0 {
		g = r.By
	}
	p.said(r.TryBroadcast(g, obj{"encrypted_payload": kit.B64(fmt.Appendf(nil, "broadcast %d", n))}, "Idempotency-Key", fmt.Sprint("b", n)))
	p.note(g.Request("GET", r.Path(draw(p, []string{"", "/members?limit=4"})), nil))
}

func (p *alike) leave(int) {
	if len(p.groups) == 0 {
		return
	}
	r, by, whom := draw(p, p.groups), draw(p, p.agents), draw(p, p.agents)
	switch p.random.IntN(4) {
	case 0:
		p.note(r.Remove(whom, whom))
	case 1:
		p.note(r.Remove(by, whom))
	case 2:
		p.note(r.Role(r.By, whom, draw(p, []string{"admin", "member"})))
	default:
		p.note(r.By.Request("PATCH", r.Path(""), obj{"description": draw(p, []string{"old", "new"})}))
	}
}

func (p *alike) organization(int) {
	o := draw(p, p.orgs)
	switch p.random.IntN(4) {
	case 0:
		p.note(o.Patch("/org", obj{"name": fmt.Sprint("Name ", p.random.IntN(9)), "country_code": draw(p, []string{"FR", "NL", "XYZ"})}))
	case 1:
		if a := p.note(o.Post("/org/credentials", nil)); a.Status == 201 && p.random.IntN(2) == 0 {
			p.note(o.Delete("/org/credentials/" + a.Str("client_id")))
			p.note(p.s.Grant(p.t, a.Str("client_id"), a.Str("client_secret")))
		}
	default:
		p.note(o.Get("/org"))
	}
}

func (p *alike) acknowledge(int) {
	m := p.anyMessage()
	g := p.either(m)
	switch p.random.IntN(3) {
	case 0:
		p.note(g.Post(g.Path("/messages/ack"), obj{"up_to": m["id"]}))
	case 1:
		p.note(g.Post(g.Path("/messages/ack"), obj{"ids": []any{m["id"], draw(p, append(p.messages, m))["id"]}}))
	default:
		p.note(g.Request("POST", "/messages/"+kit.Text(m, "id")+"/read", nil))
	}
}

func (p *alike) nonsense(int) {
	g := draw(p, p.agents)
	p.note([]func() *kit.Answer{
		func() *kit.Answer { return g.Post("/messages", kit.Verbatim(`{"to_agent_id":`)) },
		func() *kit.Answer { return g.Post("/messages", obj{"type": 7}) },
		func() *kit.Answer { return p.s.Call(p.t, "wrong", "GET", g.Path("/messages"), nil) },
		func() *kit.Answer { return g.Get(g.Path("/messages?limit=0")) },
		func() *kit.Answer { return g.Get(g.Path("/messages?cursor=nonsense")) },
		func() *kit.Answer { return draw(p, p.orgs).Get("/agents/" + kit.Nobody) },
		func() *kit.Answer { return draw(p, p.orgs).Get(g.Path("/messages?limit=2")) },
		func() *kit.Answer { return p.s.Call(p.t, "", "GET", "/nowhere", nil) },
	}[p.random.IntN(8)]())
}

package orgs

import (
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// TestErasedAgent: whatever is public of an agent is gone for everybody once its
// organization was erased, and requests that wait for the agent end: without that the
// client would give up on them.
func TestErasedAgent(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		gone, stays, far := s.Org(t).Agent("gone"), s.Org(t).Agent("stays"), s.Org(t).Agent("far")
		gone.Put(gone.Path("/card"), kit.Merged(kit.BridgedCard(), obj{"is_public": true})).Want(200)
		host := gone.Slug + ".localhost"
		kid := kit.Text(gone.Record["signing_public_key"].(obj), "kid")
		paths := []string{
			"/directory/agents/" + gone.ID, "/a/" + gone.Handle, "/a2a/" + gone.Handle + "/agent.json", "/a2a/" + gone.Handle + "/.well-known/agent-card.json", "/a2a/" + gone.ID + "/agent.json",
			"/.well-known/agent-cards/" + gone.ID + ".json", gone.Path("/card"), "/agents/" + gone.Handle + "/card", gone.Path("/keys"), "/agents/" + gone.Handle + "/keys", gone.Path("/keys?kid=" + kid),
			gone.Path("/key-bindings"), "/agents/" + gone.Name + "/did.json", "/agents/" + gone.Name + "/did.json?org=" + gone.Slug, gone.Path("/did.json"), "/agents/" + gone.Handle + "/did.json",
		}
		read := func(path string) *kit.Answer { return s.Call(t, "", "GET", path, nil, "Host", host) }
		for _, path := range paths {
			read(path).Want(200)
		}
		task := stays.Begins(gone, "m-1")
		first, second := gone.Send(stays), far.Send(stays)

		sync := stays.Ask(gone, "?timeout_ms=300000", nil)
		blocking := make(chan *kit.Answer, 1)
		go func() {
			message := kit.Cleartext("m-2", "hello")
			message["configuration"] = obj{"returnImmediately": false}
			blocking <- stays.Reaches(gone, "SendMessage", message, "X-A2A-Timeout", "300")
		}()
		kit.Eventually(t, "both requests are waiting", func() bool { return len(gone.Everything()) == 3 })
		gone.Delete("/orgs/" + gone.Org.ID).Want(200)
		(<-sync).Refused(410, "gone")
		(<-blocking).RPCFails(-32001, "TASK_NOT_FOUND")

		for _, path := range paths {
			read(path).Want(410)
			if !strings.HasPrefix(path, "/a/") {
				read(path).Refused(410, "gone")
				stays.Get(path, "Host", host).Refused(410, "gone")
			}
		}
		s.Call(t, "", "GET", kit.WebFinger(gone), nil).Want(404)
		s.Call(t, "", "GET", "/agents/keys?ids="+gone.ID+","+stays.ID, nil).Want(200).Is("keys."+gone.ID, nil)
		for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
			stays.Reaches(gone, method, kit.Cleartext("m-3", "more", obj{"taskId": task})).As("%s to a task", method).RPCFails(-32001, "TASK_NOT_FOUND")
			stays.Reaches(gone, method, kit.Cleartext("m-3", "more")).As("%s", method).Want(404)
		}
		ack := func(ids ...any) *kit.Answer { return stays.Post(stays.Path("/messages/ack"), obj{"ids": ids}) }
		ack(first["id"]).As("only what is gone").Want(200).Is("acked", 0)
		ack(first["id"], second["id"]).Want(200).Is("acked", 1)
		ack(first["id"], kit.Nobody).As("and one that is unknown").Refused(404, "not_found")
		far.Post(far.Path("/messages/ack"), obj{"ids": []any{first["id"]}}).As("of another's inbox").Refused(404, "not_found")
	})
}

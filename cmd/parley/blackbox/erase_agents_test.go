package blackbox

import (
	"strings"
	"testing"
)

// TestErasedAgent: whatever is public of an agent is gone for everybody once its
// organization was erased, and requests that wait for the agent end: without that the
// client would give up on them.
func TestErasedAgent(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		gone, stays, far := s.org(t).agent("gone"), s.org(t).agent("stays"), s.org(t).agent("far")
		gone.put(gone.path("/card"), merged(bridgedCard(), obj{"is_public": true})).want(200)
		host := gone.slug + ".localhost"
		kid := text(gone.record["signing_public_key"].(obj), "kid")
		paths := []string{
			"/directory/agents/" + gone.id, "/a/" + gone.handle, "/a2a/" + gone.handle + "/agent.json", "/a2a/" + gone.handle + "/.well-known/agent-card.json", "/a2a/" + gone.id + "/agent.json",
			"/.well-known/agent-cards/" + gone.id + ".json", gone.path("/card"), "/agents/" + gone.handle + "/card", gone.path("/keys"), "/agents/" + gone.handle + "/keys", gone.path("/keys?kid=" + kid),
			gone.path("/key-bindings"), "/agents/" + gone.name + "/did.json", "/agents/" + gone.name + "/did.json?org=" + gone.slug, gone.path("/did.json"), "/agents/" + gone.handle + "/did.json",
		}
		read := func(path string) *answer { return s.call(t, "", "GET", path, nil, "Host", host) }
		for _, path := range paths {
			read(path).want(200)
		}
		task := stays.begins(gone, "m-1")
		first, second := gone.send(stays), far.send(stays)

		sync := stays.ask(gone, "?timeout_ms=300000", nil)
		blocking := make(chan *answer, 1)
		go func() {
			message := cleartext("m-2", "hello")
			message["configuration"] = obj{"returnImmediately": false}
			blocking <- stays.reaches(gone, "SendMessage", message, "X-A2A-Timeout", "300")
		}()
		eventually(t, "both requests are waiting", func() bool { return len(gone.everything()) == 3 })
		gone.delete("/orgs/" + gone.org.id).want(200)
		(<-sync).refused(410, "gone")
		(<-blocking).rpcFails(-32001, "TASK_NOT_FOUND")

		for _, path := range paths {
			read(path).want(410)
			if !strings.HasPrefix(path, "/a/") {
				read(path).refused(410, "gone")
				stays.get(path, "Host", host).refused(410, "gone")
			}
		}
		s.call(t, "", "GET", webFinger(gone), nil).want(404)
		s.call(t, "", "GET", "/agents/keys?ids="+gone.id+","+stays.id, nil).want(200).is("keys."+gone.id, nil)
		for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
			stays.reaches(gone, method, cleartext("m-3", "more", obj{"taskId": task})).as("%s to a task", method).rpcFails(-32001, "TASK_NOT_FOUND")
			stays.reaches(gone, method, cleartext("m-3", "more")).as("%s", method).want(404)
		}
		ack := func(ids ...any) *answer { return stays.post(stays.path("/messages/ack"), obj{"ids": ids}) }
		ack(first["id"]).as("only what is gone").want(200).is("acked", 0)
		ack(first["id"], second["id"]).want(200).is("acked", 1)
		ack(first["id"], nobody).as("and one that is unknown").refused(404, "not_found")
		far.post(far.path("/messages/ack"), obj{"ids": []any{first["id"]}}).as("of another's inbox").refused(404, "not_found")
	})
}

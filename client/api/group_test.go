package api_test

import (
	"reflect"
	"testing"

	"parley/client/api"
	"parley/client/parley"
)

// TestTargets: lists of agents accept every form of a name, and refuse values that name
// no agent.
func TestTargets(t *testing.T) {
	each(t, func(t *testing.T, c codec) {
		for text, want := range map[string]string{
			`"` + uuidA + `"`: uuidA, `"ann@acme.localhost"`: "ann@acme.localhost", `"ann"`: "ann",
			`{"agent_id":"` + uuidA + `"}`: uuidA, `{"handle":"ann@acme.localhost","message":"Hello"}`: "ann@acme.localhost",
			`{"agent_handle":"ann@acme.localhost"}`: "ann@acme.localhost", `{"id":"` + uuidA + `","handle":null}`: uuidA,
		} {
			var in api.Invite
			if err := c.unmarshal([]byte(`{"agents":[`+text+`]}`), &in); err != nil || len(in.Agents) != 1 {
				t.Fatalf("%s: %v", text, err)
			}
			named, fault := in.Agents[0].Read()
			if fault != "" || named.Name != want || len(in.Check()) != 0 {
				t.Errorf("%s names %q: %s", text, named.Name, fault)
			}
			if back, err := c.marshal(in); err != nil || string(back) != `{"agents":[`+text+`]}` {
				t.Errorf("%s is written back as %s: %v", text, back, err)
			}
		}
		for _, text := range []string{`5`, `null`, `[]`, `{}`, `{"agent_id":5}`, `{"agent_id":"a","handle":"b"}`, `{"message":"Hello"}`} {
			var in api.Invite
			if err := c.unmarshal([]byte(`{"agents":[`+text+`]}`), &in); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if len(in.Check()) != 1 {
				t.Errorf("%s was accepted as a target", text)
			}
		}
		made, err := c.marshal(api.Invite{Agents: []api.Target{api.TargetNamed("ann@acme.localhost")}})
		if err != nil || string(made) != `{"agents":["ann@acme.localhost"]}` {
			t.Errorf("a target built in code is %s: %v", made, err)
		}
	})
}

func TestInviteAnswers(t *testing.T) {
	each(t, func(t *testing.T, c codec) {
		for want, answer := range map[string]api.InviteAnswer{
			`{"request_id":null,"status":"not_required"}`:        {One: &api.InviteResult{Status: api.NotRequired}},
			`{"results":[],"invited":0,"pending":0,"skipped":0}`: {Several: &api.InviteResults{Results: []api.Invitation{}}},
		} {
			got, err := c.marshal(answer)
			if err != nil || string(got) != want {
				t.Errorf("got %s, want %s: %v", got, want, err)
			}
			var back api.InviteAnswer
			if err := c.unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, answer) {
				t.Errorf("%s is read as %+v: %v", got, back, err)
			}
		}
	})
}

// TestGroupNamePattern: group names follow the rules of handles.
func TestGroupNamePattern(t *testing.T) {
	f, _ := reflect.TypeOf(api.CreateGroup{}).FieldByName("Name")
	if got := f.Tag.Get("pattern"); got != parley.GroupNamePattern {
		t.Errorf("the pattern of a group's name is %q", got)
	}
}

package rest

import (
	"reflect"
	"testing"

	"github.com/valyala/fasthttp"

	"parley/client/parley"
)

// TestBindHandles: a handle may stand where a path has the id of an agent or a group, and stands
// for an id without a resource if nothing has that handle.
func TestBindHandles(t *testing.T) {
	type named struct {
		ID      parley.GroupID  `json:"-" path:"id" required:"true"`
		AgentID parley.AgentID  `json:"-" path:"agent_id" required:"true"`
		Other   parley.AnyID    `json:"-" path:"other" required:"true"`
		Body    *parley.AgentID `json:"body"`
	}
	known := map[string]parley.AnyID{"bob@acme.example": {1}, "#board@acme.example": {2}}
	host := &Host{Resolve: func(_ *Call, h parley.Handle) (parley.AnyID, error) {
		id, ok := known[h.String()]
		if h.Slug == "broken" {
			return id, parley.ErrInternal
		}
		if !ok {
			return id, parley.ErrNotFound
		}
		return id, nil
	}}
	p, err := newPlan(reflect.TypeFor[named](), "Svc")
	if err != nil {
		t.Fatal(err)
	}
	const notNamed = " uuid_parsing: Input should be a handle, such as name@org.domain, or a valid UUID"
	const badHandle = " value_error: Value should be a handle such as name@org.domain"
	for _, c := range []struct {
		group, agent, other string
		want                string
		ids                 [2]parley.AnyID
		byHandle            bool
	}{
		{group: toyID, agent: toyID, ids: [2]parley.AnyID{parley.AnyID(must(parley.ParseID[parley.AnyID](toyID))), must(parley.ParseID[parley.AnyID](toyID))}},
		{group: "%23board@acme.example", agent: "bob@acme.example", ids: [2]parley.AnyID{{2}, {1}}, byHandle: true},
		{group: "Board@ACME.example", agent: "bob%40acme.Example", ids: [2]parley.AnyID{{2}, {1}}, byHandle: true},
		{group: "bob@acme.example", agent: "%23board@acme.example", ids: [2]parley.AnyID{nobody, nobody}, byHandle: true},
		{group: toyID, agent: "nobody@acme.example", ids: [2]parley.AnyID{must(parley.ParseID[parley.AnyID](toyID)), nobody}},
		{group: "board", agent: "bob", want: `["path","id"]` + notNamed + "\n" + `["path","agent_id"]` + notNamed},
		{group: "%23@acme.example", agent: "@", want: `["path","id"]` + badHandle + "\n" + `["path","agent_id"]` + badHandle},
		{group: toyID, agent: "bob@broken.example", want: parley.ErrInternal.Error()},
		{group: toyID, agent: toyID, other: "bob@acme.example", want: `["path","other"] uuid_parsing: ` + MsgUUID},
	} {
		ctx := &fasthttp.RequestCtx{}
		for name, value := range map[string]string{"id": c.group, "agent_id": c.agent, "other": c.other} {
			if value == "" {
				value = toyID
			}
			ctx.SetUserValue(name, value)
		}
		in, call := new(named), &Call{ctx: ctx, host: host}
		err := p.bind(call, reflect.ValueOf(in).Elem())
		if got := faultsOf(t, err); got != c.want {
			t.Errorf("%s, %s:\n%s\nwant:\n%s", c.group, c.agent, got, c.want)
		}
		if got := [2]parley.AnyID{parley.AnyID(in.ID), parley.AnyID(in.AgentID)}; err == nil && (got != c.ids || call.GroupByHandle != c.byHandle) {
			t.Errorf("%s, %s: %v, %t", c.group, c.agent, got, call.GroupByHandle)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

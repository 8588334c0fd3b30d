package rest

import (
	"reflect"
	"strings"

	"github.com/valyala/fasthttp"

	"parley/client/api"
)

// streamEvents are the events of an agent's stream. Only a message has an id, so the last
// id is always a message's.
var streamEvents = []struct {
	name, text string
	data       reflect.Type
}{
	{api.EventMessage, "A message to the agent: one it missed, or a new one.", reflect.TypeFor[api.Message]()},
	{api.EventStatus, "A conversation of the agent has another status.", reflect.TypeFor[api.StatusEvent]()},
	{api.EventGroup, "Something happened in a group, or to a join request, that concerns the agent.", reflect.TypeFor[api.GroupEvent]()},
	{api.EventWebhook, "The server disabled a webhook of the agent.", reflect.TypeFor[api.WebhookEvent]()},
	{api.EventHeartbeat, "Sent every 30 seconds when there is nothing else to send.", reflect.TypeFor[api.HeartbeatEvent]()},
	{api.EventGap, "Sent first when the stream cannot resume after Last-Event-ID: it goes on with everything not carried yet.", reflect.TypeFor[api.GapEvent]()},
}

// eventMedia is the media type of server-sent events.
const eventMedia = "text/event-stream"

// streamed describes the content of a stream. ogen writes a client that does not compile for
// a stream with refusals of its own, unless it is told to return the response as it is.
func streamed(schema object) object {
	return object{{"schema", schema}, {"x-ogen-raw-response", true}}
}

// eventStream describes the events of a stream, each by its fields on the wire. Each kind has
// a schema with a name, because a discriminator needs one.
func (b *schemas) eventStream(r *Route) object {
	if r.in == reflect.TypeFor[api.SearchStream]() {
		return b.searchEvents()
	}
	return b.ref(reflect.TypeFor[agentStreamEvent](), false, func() object {
		var events []object
		kinds := object{}
		for _, e := range streamEvents {
			data := object{{"type", "string"}, {"contentMediaType", JSONMedia}, {"contentSchema", b.output(e.data)}}
			properties := object{{"event", object{{"type", "string"}, {"const", e.name}}}, {"data", data}}
			required := []string{"event", "data"}
			if e.name == api.EventMessage {
				properties = properties.with("id", object{{"type", "string"}, {"format", "uuid"}, {"description", "The message's id, for Last-Event-ID."}})
				required = append(required, "id")
			}
			ref := b.refNamed("AgentStream"+camel(e.name), object{{"type", "object"}, {"title", e.name}, {"description", e.text}, {"properties", properties}, {"required", required}})
			events, kinds = append(events, ref), kinds.with(e.name, ref[0].value)
		}
		return object{{"description", "One event of the stream."}, {"oneOf", events}, {"discriminator", object{{"propertyName", "event"}, {"mapping", kinds}}}}
	})
}

// searchEvents describes the events of a search stream. They have no names, so that the last
// one differs by its data alone.
func (b *schemas) searchEvents() object {
	return b.ref(reflect.TypeFor[searchStreamEvent](), false, func() object {
		phase := object{{"contentMediaType", JSONMedia}, {"contentSchema", b.output(reflect.TypeFor[api.SearchPhase]())}}
		data := object{
			{"type", "string"},
			{"description", "What a phase of the search has found, as JSON. The last event has " + api.StreamDone + " instead."},
			{"if", object{{"const", api.StreamDone}}},
			{"else", phase},
		}
		return object{{"type", "object"}, {"description", "One event of the stream."}, {"properties", object{{"data", data}}}, {"required", []string{"data"}}}
	})
}

// searchStreamEvent names the schema of the events of a search stream.
type searchStreamEvent struct{}

// agentStreamEvent names the schema of stream events.
type agentStreamEvent struct{}

// hookEvents are the events that webhooks deliver, in the order in which CreateWebhook
// names them.
var hookEvents = []struct{ name, text string }{
	{api.HookMessageReceived, "A message arrived for the agent."},
	{api.HookMessageDelivered, "A message that the agent sent was delivered."},
	{api.HookMessageRead, "A message that the agent sent was read."},
	{api.HookConversationUpdated, "A conversation of the agent has another status. Not sent to the agent that changed it."},
	{api.HookGroupInvited, "The agent was invited into a group."},
	{api.HookGroupRequestCreated, "A join request was filed: sent to the applicant and to the group's admins."},
	{api.HookGroupRequestResolved, "A join request was settled: sent to the applicant and to the group's admins."},
	{api.HookGroupMemberJoined, "An agent joined a group: sent to it and to the group's admins."},
	{api.HookGroupMemberLeft, "An agent left a group: sent to it and to the group's admins."},
	{api.HookGroupMLS, "A commit began an epoch of a group's MLS group, a Welcome arrived for the agent, or a member awaits its Add, or a leaf its Remove, by a commit."},
	{api.HookWebhookDisabled, "The server disabled another webhook of the agent, for the reason given."},
	{api.HookCredentialExpiring, "A credential of the organization ends in seven days, or in one. Webhooks that ask for it are created with the scope org."},
	{api.HookTest, "Asked for by POST /webhooks/{id}/test."},
}

// webhooks describes the requests that the service makes.
func (b *schemas) webhooks() object {
	all := object{}
	payload := b.output(reflect.TypeFor[api.HookPayload]())
	for _, e := range hookEvents {
		body := object{{"allOf", []object{payload, {{"type", "object"}, {"properties", object{{"event", object{{"const", e.name}}}}}}}}}
		all = all.with(e.name, object{{"post", object{
			{"operationId", "on" + camel(e.name)},
			{"summary", e.text},
			{"security", []object{}},
			{"parameters", b.hookHeaders()},
			{"requestBody", object{{"required", true}, {"content", object{{JSONMedia, object{{"schema", body}}}}}}},
			{"responses", object{
				{"2XX", object{{"description", "Accepted. Answer within 15 seconds."}}},
				{"410", object{{"description", "The delivery job is dead and the webhook is switched off."}}},
				{"default", object{{"description", "A failure: the delivery is tried again, not before Retry-After."}, {"headers", object{{fasthttp.HeaderRetryAfter, object{{"$ref", "#/components/headers/" + fasthttp.HeaderRetryAfter}}}}}}},
			}},
		}}})
	}
	return all
}

// hookHeaders returns the headers of a delivery.
func (b *schemas) hookHeaders() []object {
	var all []object
	for _, h := range []struct {
		name, text string
		required   bool
	}{
		{branded + "Signature", "sha256= and the hex HMAC-SHA256 of the raw body, keyed with the whole text of the secret.", true},
		{branded + "Signature-Previous", "The same by the former secret, for 24 hours after a rotation.", false},
		{"webhook-id", "The delivery job's id: the same on every attempt.", true},
		{"webhook-timestamp", "Seconds since 1970 at the time of the attempt.", true},
		{"webhook-signature", "v1, and the base64 HMAC-SHA256 of id, timestamp and body joined by dots, keyed with the bytes of the secret. During a rotation a second one by the former secret follows a blank.", true},
	} {
		all = append(all, object{{"name", h.name}, {"in", "header"}, {"required", h.required}, {"description", h.text}, {"schema", object{{"type", "string"}}}})
	}
	return all
}

// camel converts a dotted name to one word: message.received becomes MessageReceived.
func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(c rune) bool { return c == '.' || c == '_' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

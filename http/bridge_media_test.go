package http

import (
	"strings"
	"testing"
)

// TestMediaTypes: what a card does not list is refused before anything is stored, in a message
// that begins a task and in one that continues it. // source: A2A 1.0 section 3.1.1
func TestMediaTypes(t *testing.T) {
	h := newBridgeHarness(t)
	parts := func(members object) []any { return []any{members} }
	accepted := func(id string, content []any, more object) *response {
		return h.call(h.second, "SendMessage", h.say(id, content, more))
	}
	const refused = -32005
	task := h.begin("begin")
	for name, c := range map[string]struct {
		modes, skill []any
		part         object
		code         int
	}{
		"text without a list":             {nil, nil, object{"text": "x"}, 0},
		"JSON without a list":             {nil, nil, object{"data": object{"a": 1}}, 0},
		"another type without a list":     {nil, nil, object{"text": "x", "mediaType": "text/csv"}, refused},
		"text that is not listed":         {[]any{"image/png"}, nil, object{"text": "x"}, refused},
		"a listed type":                   {[]any{"image/png"}, nil, object{"raw": "eA==", "mediaType": "image/png"}, 0},
		"another case, with a parameter":  {[]any{"Text/CSV; header=present"}, nil, object{"text": "x", "mediaType": "TEXT/csv; charset=utf-8"}, 0},
		"a type of a skill":               {[]any{"image/png"}, []any{"text/plain"}, object{"text": "x"}, 0},
		"a range":                         {[]any{"image/*"}, nil, object{"raw": "eA==", "mediaType": "image/png"}, 0},
		"outside of a range":              {[]any{"image/*"}, nil, object{"raw": "eA==", "mediaType": "text/png"}, refused},
		"everything":                      {[]any{"*/*"}, nil, object{"url": "https://x.example/", "mediaType": "video/mp4"}, 0},
		"bytes without a type":            {[]any{"image/png"}, nil, object{"raw": "eA=="}, 0},
		"an address without a type":       {[]any{"image/png"}, nil, object{"url": "https://x.example/"}, 0},
		"no media type":                   {[]any{"*/*"}, nil, object{"text": "x", "mediaType": "text"}, refused},
		"a range as a type":               {[]any{"*/*"}, nil, object{"text": "x", "mediaType": "text/*"}, refused},
		"a type in the metadata":          {[]any{"image/png"}, nil, object{"text": "x", "metadata": object{"contentType": "image/png"}}, 0},
		"another type in the metadata":    {[]any{"text/plain"}, nil, object{"text": "x", "metadata": object{"contentType": "image/png"}}, refused},
		"a member wins over the metadata": {[]any{"image/png"}, nil, object{"text": "x", "mediaType": "image/png", "metadata": object{"contentType": "a/b"}}, 0},
	} {
		published := card{"name": "Translator", "svc": card{"a2a_enabled": true, "a2a_accept_cleartext": true}}
		if c.modes != nil {
			published["defaultInputModes"] = c.modes
		}
		if c.skill != nil {
			published["skills"] = []any{card{"id": "s", "name": "s", "description": "s", "inputModes": c.skill}}
		}
		h.first.publish(h.art, published)
		before := h.messageCount()
		for more, context := range map[string]object{"": nil, " again": {"taskId": task}} {
			a := accepted(name+more, parts(c.part), context)
			if c.code == 0 {
				a.want(200).at("result.task.id")
				accepted(name+more, parts(c.part), context).want(200).at("result.task.id")
			} else {
				a.fails(c.code, "CONTENT_TYPE_NOT_SUPPORTED")
			}
		}
		want := before
		if c.code == 0 {
			want += 2
		}
		if n := h.messageCount(); n != want {
			t.Errorf("%s: %d messages instead of %d", name, n, want)
		}
	}
	sealed := []any{object{"data": object{"encrypted_payload": "AQIDBA"}, "mediaType": "application/vnd.svc.encrypted+json"}}
	h.first.publish(h.art, card{"name": "Translator", "defaultInputModes": []any{"image/png"}, "svc": card{"a2a_enabled": true}})
	accepted("sealed", sealed, nil).want(200).at("result.task.id")
}

// TestReusedMessageID: an id that was used for other parts swallows no message.
func TestReusedMessageID(t *testing.T) {
	h := newBridgeHarness(t)
	task := h.begin("m1")
	follow := object{"taskId": task}
	h.call(h.second, "SendMessage", h.say("m2", textParts("more"), follow)).want(200).at("result.task.id")
	long := textParts(strings.Repeat("long ", 2000)) // it does not stand in the metadata
	h.call(h.second, "SendMessage", h.say("m3", long, nil)).want(200).at("result.task.id")
	for id, more := range map[string]object{"m1": nil, "m2": follow, "m3": nil} {
		h.call(h.second, "SendMessage", h.say(id, textParts("other words"), more)).fails(-32602, "INVALID_PARAMS")
	}
	h.call(h.second, "SendMessage", h.say("m3", long, nil)).want(200).at("result.task.id")
	h.call(h.second, "SendMessage", h.say("m2", textParts("more"), follow)).is(object{"result.task.id": task})
	if n := h.messageCount(); n != 3 {
		t.Errorf("%d messages", n)
	}
}

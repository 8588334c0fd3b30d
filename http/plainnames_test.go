package http

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"parley/http/rest"
)

// hiddenFaults gives an organization names with a character that changes the direction
// of writing. It returns the wrong answers.
func hiddenFaults(t *testing.T, checked bool) (answers []string) {
	t.Helper()
	h := harnessInMemory(t, 1)
	defer h.close()
	for _, r := range h.server.Routes() {
		*inside[bool](&r, "plan", "checked") = checked
	}
	p := h.tenant("first")
	for _, c := range []struct{ method, path, body string }{
		{"PATCH", "/org", `{"name":"Ac%sme"}`},
		{"PATCH", "/org", `{"contact_email":"ops%s@acme.example"}`},
		{"POST", "/auth/register", `{"email":"a@b.example","org_slug":"globex","org_name":"Ac%sme"}`},
		{"POST", "/auth/register", `{"email":"ops%s@acme.example","org_slug":"globex"}`},
	} {
		answers = append(answers, fmt.Sprint(p.ask(c.method, c.path, fmt.Sprintf(c.body, "\u202e")).status))
		if plain := p.ask(c.method, c.path, fmt.Sprintf(c.body, "")); plain.status/100 != 2 {
			t.Errorf("%s: answered %d %s", plain.what, plain.status, plain.raw)
		}
	}
	return answers
}

// TestHiddenCharactersAreRefused: names with hidden characters are refused. In the
// control, requests are checked against their schemas only, and a name then looks like
// another.
func TestHiddenCharactersAreRefused(t *testing.T) {
	if got := hiddenFaults(t, true); !slices.Equal(got, []string{"422", "422", "422", "422"}) {
		t.Errorf("answered %v", got)
	}
	if got := hiddenFaults(t, false); !slices.Equal(got, []string{"200", "200", "201", "201"}) {
		t.Errorf("control: answered %v", got)
	}
}

// TestEmptySignatureCountsAsSignature: a header with an empty value counts as present.
// In the control it counts as missing, and the message is accepted without a signature.
func TestEmptySignatureCountsAsSignature(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	p := h.tenant("first")
	p.agent("ann")
	body := `{"to_agent_id":"` + p.agent("bob") + `","type":"svc.v1.dm","encrypted_payload":"AA"}`
	const header = "X-Svc-Message-Signature"
	p.ask("POST", "/messages", body, as("ann"), header+": ").want(403, "signature_invalid")
	for _, r := range h.server.Routes() {
		unread(&r, header)
	}

	p.ask("POST", "/messages", body, as("ann"), header+": ").want(201)
}

// unread makes a route ignore a header.
func unread(r *rest.Route, header string) {
	plan := reflect.ValueOf(r).Elem().FieldByName("plan").Elem().FieldByName("header")
	fields := reflect.NewAt(plan.Type(), unsafe.Pointer(plan.UnsafeAddr())).Elem()
	for i := fields.Len() - 1; i >= 0; i-- {
		if fields.Index(i).FieldByName("name").String() == header {
			fields.Set(reflect.AppendSlice(fields.Slice(0, i), fields.Slice(i+1, fields.Len())))
		}
	}
}

package host

import (
	"fmt"
	"reflect"
	"testing"
)

// TestFindMessage: an answer found by search has what the full reading finds in it.
func TestFindMessage(t *testing.T) {
	const id = "01900000-0000-7000-8000-00000000dead"
	for _, text := range []string{
		`{"id":"` + id + `"}`,
		`{"id":"` + id + `","conversation_id":"c","to_agent_id":"a","recipient_handle":"b@c.d","n":null,"encrypted_payload":"abc","z":[]}`,
		`{"id":"` + id + `","encrypted_payload":""}`,
	} {
		full, err := ReadMessage([]byte(text))
		found, err2 := FindMessage([]byte(text))
		if err != nil || err2 != nil || fmt.Sprint(full) != fmt.Sprint(found) {
			t.Errorf("%s: %+v %v, in full %+v %v", text, found, err2, full, err)
		}
	}
	for _, text := range []string{``, `{}`, `{"id":7}`, `{"id":"x"}`, `{"id":"` + id} {
		if m, err := FindMessage([]byte(text)); err == nil {
			t.Errorf("%s passes as %+v", text, m)
		}
	}
}

// TestAnswersReadPage: the pages after the first have what the first has. One with a
// message less, or another payload, is noticed.
func TestAnswersReadPage(t *testing.T) {
	row := `{"id":"01900000-0000-7000-8000-00000000dead","to_agent_id":"a","encrypted_payload":"abc"}`
	whole := `{"items":[` + row + `,` + row + `],"next_cursor":"c=1","has_more":true}`
	var pages []page
	var a answers
	for range 3 {
		p, err := a.readPage([]byte(whole), func(m Message) error {
			if string(m.Payload) != "abc" || string(m.toAgent) != "a" {
				t.Errorf("a message %+v", m)
			}
			return nil
		})
		if pages = append(pages, p); err != nil || !reflect.DeepEqual(p, pages[0]) || p.count != 2 {
			t.Errorf("%v: %+v, the first was %+v", err, p, pages[0])
		}
	}
	if p, err := a.readPage([]byte(`{"items":[`+row+`],"next_cursor":null,"has_more":false}`), func(Message) error { return nil }); err != nil || p.count != 1 || p.HasMore || p.Cursor != "" {
		t.Errorf("%v: %+v", err, p)
	}
	if _, err := a.readPage([]byte(whole), func(Message) error { return Wrong("payload") }); err == nil {
		t.Error("the judgement of a message is not heard")
	}
	for text, count := range map[string]int{`{"items":[]}`: 0, `{"items":[{"a":1,` + row[1:] + `]}`: 1} {
		if p, err := a.readPage([]byte(text), func(Message) error { return nil }); err != nil || p.count != count {
			t.Errorf("%s: %v, %d messages", text, err, p.count)
		}
	}
	if _, err := a.readPage([]byte(`{}`), func(Message) error { return nil }); err == nil {
		t.Error("what is no page passes")
	}
}

package host

import (
	"strings"
	"testing"
)

func TestReadMessage(t *testing.T) {
	const id = "01900000-0000-7000-8000-00000000dead"
	for text, sound := range map[string]bool{
		`{"id":"` + id + `"}`: true,
		` { "a" : [1,{"b":"]}\""}] , "id" : "` + id + `", "n":null,"t":true,"f":-1.5e3 } `: true,
		`{"a":{"id":"` + id + `"}}`:                     false,
		`{"a":"\\","id":"` + id + `"}`:                  true,
		`{"a":"\"id\":","id":"` + id + `"}`:             true,
		`{"id":"01900000-0000-7000-8000-00000000"}`:     false,
		`{"id":"00000000-0000-0000-0000-000000000000"}`: false,
		`{"id":7}`:                     false,
		`{"id"`:                        false,
		`{"id":"` + id:                 false,
		`{"id":"` + id + `"`:           false,
		`{"id":"` + id + `","a":[1,2}`: false,
		`["` + id + `"]`:               false,
		``:                             false,
		`null`:                         false,
	} {
		m, err := ReadMessage([]byte(text))
		if (err == nil) != sound || sound && m.ID.String() != id {
			t.Errorf("%s: %v %v", text, m.ID, err)
		}
	}
}

// TestReadMessageOfParts: cuts a message at every byte. No part of it may pass or do
// harm.
func TestReadMessageOfParts(t *testing.T) {
	whole := `{"id":"01900000-0000-7000-8000-00000000dead","metadata":{"a":["\\",{}]},"encrypted_payload":"abc"}`
	for i := range whole {
		if _, err := ReadMessage([]byte(whole[:i])); err == nil {
			t.Errorf("passes: %s", whole[:i])
		}
	}
	if m, err := ReadMessage([]byte(whole)); err != nil || string(m.Payload) != "abc" {
		t.Errorf("%v %q", err, m.Payload)
	}
}

func TestReadPage(t *testing.T) {
	row := `{"id":"01900000-0000-7000-8000-00000000dead","metadata":{"a":[]},"encrypted_payload":"abc"}`
	whole := `{"search_mode":[{"items":[]}],"items":[ ` + row + ` , ` + row + ` ],"next_cursor":"c=1","has_more":true}`
	count := 0
	each := func(m Message) error {
		count++
		if string(m.Payload) != "abc" {
			t.Errorf("a payload of %q", m.Payload)
		}
		return nil
	}
	p, err := ReadPage([]byte(whole), each)
	if err != nil || p.count != 2 || count != 2 || !p.HasMore || p.Cursor != "c=1" {
		t.Errorf("%v %+v after %d messages", err, p, count)
	}
	for i := range whole {
		if _, err := ReadPage([]byte(whole[:i]), each); err == nil {
			t.Errorf("passes: %s", whole[:i])
		}
	}
	for _, text := range []string{`{}`, `[]`, `{"items":null}`, `{"items":{}}`, `{"items":[` + row + row + `]}`, `{"items":[1]}`, `{"items":[` + row + `,]}`} {
		if _, err := ReadPage([]byte(text), each); err == nil {
			t.Errorf("passes: %s", text)
		}
	}
	if p, err := ReadPage([]byte(`{"messages":[],"next_cursor":null}`), each); err != nil || p.count != 0 || p.HasMore || p.Cursor != "" {
		t.Errorf("an empty page: %v %+v", err, p)
	}
}

func TestPayloads(t *testing.T) {
	p := newPayloads(42, 100)
	for _, key := range []Key{{}, {Run: 65535, Kind: 15, Worker: WorkersMax - 1, N: 4294967295}, {Run: 1, Kind: 1, Worker: 2, N: 3}} {
		payload := make([]byte, p.Size)
		p.Write(payload, key)
		if got, sound := p.Read(payload); !sound || got != key {
			t.Errorf("%+v is read as %+v, %v", key, got, sound)
		}
		if strings.Trim(string(payload), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("%s is not base64url", payload)
		}
		for i := range payload {
			changed := []byte(string(payload))
			changed[i] = '!'
			if _, sound := p.Read(changed); sound {
				t.Errorf("a change of byte %d is not detected", i)
			}
		}
		if _, sound := newPayloads(43, 100).Read(payload); sound {
			t.Error("a payload with another seed passes")
		}
	}
}

package rest

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestReservedMembers(t *testing.T) {
	r := reservedOf("provenance,a2a=parts cleartext")
	for object, want := range map[string]string{
		`{}`:                               `{}`,
		`{"k":1}`:                          `{"k":1}`,
		`{"provenance":{"via":"a2a"}}`:     `{}`,
		`{"k":1,"provenance":[1,2]}`:       `{"k":1}`,
		`{"provenance":null,"k":"}\""}`:    `{"k":"}\""}`,
		`{"k":{"provenance":1},"l":[2]}`:   `{"k":{"provenance":1},"l":[2]}`,
		`{"k":"\"provenance\":","b":1.50}`: `{"k":"\"provenance\":","b":1.50}`,
		`{"a2a":{"task_id":"t","parts":[{"task_id":1}],"cleartext":true}}`: `{"a2a":{"parts":[{"task_id":1}],"cleartext":true}}`,
		`{"a2a":{"task_id":"t"},"z":0}`:                                    `{"a2a":{},"z":0}`,
		`{"a2a":"text","z":0}`:                                             `{"z":0}`,
		`{"provenance2":1,"Provenance":2}`:                                 `{"provenance2":1,"Provenance":2}`,
	} {
		if got := r.dropFrom(jsontext.Value(object)); string(got) != want {
			t.Errorf("%s: %s instead of %s", object, got, want)
		}
	}
	if got := WithoutMembers(jsontext.Value(`{"a":1,"b":{"c":2},"d":3}`), "b", "d"); string(got) != `{"a":1}` {
		t.Errorf("%s", got)
	}
}

package org_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/actorstest"
	"parley/actors/org"
)

// TestFormer reads encodings from before groups and from before terms. All fields must
// be known and the encoding must round-trip, so no field added since reuses the number
// of another.
func TestFormer(t *testing.T) {
	text, err := os.ReadFile("testdata/former.golden")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || line[0] == '#' {
			continue
		}
		var m actorstest.Event = &org.State{}
		if tag, err := strconv.Atoi(words[0]); err == nil {
			m, _ = org.New(byte(tag))
		}
		data, err := hex.DecodeString(words[len(words)-1])
		if err != nil {
			t.Fatal(err)
		}
		if err := m.UnmarshalVT(data); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		as := m.(proto.Message).ProtoReflect()
		again, err := m.MarshalVT()
		if err != nil || !bytes.Equal(data, again) || len(as.GetUnknown()) > 0 || string(as.Descriptor().Name()) != words[len(words)-2] {
			t.Errorf("%s decodes to %v, which encodes to %x (%v)", line, m, again, err)
		}
		read++
	}
	if read != 10 {
		t.Errorf("%d encodings read", read)
	}
}

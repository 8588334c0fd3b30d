package scenario

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkReadPage bounds what the generator adds to the cost of a page.
func BenchmarkReadPage(b *testing.B) {
	p := newPayloads(1, 1024)
	payload := make([]byte, p.length())
	p.write(payload, Key{})
	row := fmt.Sprintf(`{"id":"01900000-0000-7000-8000-00000000dead","conversation_id":"01900000-0000-7000-8000-00000000dead",`+
		`"encrypted_payload":"%s","metadata":{"trace":"0af7651916cd43dd8448eb211c80319c","provenance":{"server":"localhost","via":"api"}},`+
		`"created_at":"2026-11-20T10:00:00.000000Z","group_id":null,"group_handle":null,"status":"new"}`, payload)
	body := []byte(`{"items":[` + strings.TrimSuffix(strings.Repeat(row+",", pageSize), ",") + `],"next_cursor":null,"has_more":false}`)
	b.ReportAllocs()
	for b.Loop() {
		page, err := readPage(body, func(m message) error {
			_, _ = p.read(m.payload)
			return nil
		})
		if err != nil || page.count != pageSize {
			b.Fatal(err)
		}
	}
}

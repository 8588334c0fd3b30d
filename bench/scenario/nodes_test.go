package scenario

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"parley/bench/result"
	"parley/bench/target"
)

// anotherNode is a second way to a fake server. change may change each page of an inbox.
func anotherNode(t *testing.T, endpoint target.Endpoint, change func(items []json.RawMessage) []json.RawMessage) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := http.NewRequestWithContext(r.Context(), r.Method, "http://"+endpoint.Address+r.URL.RequestURI(), nil)
		request.Header = r.Header
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		text, _ := io.ReadAll(answer.Body)
		var page map[string]json.RawMessage
		var items []json.RawMessage
		if json.Unmarshal(text, &page) == nil && json.Unmarshal(page["items"], &items) == nil {
			page["items"], _ = json.Marshal(change(items))
			text, _ = json.Marshal(page)
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// TestVerifyReadsEveryNode: what one node of three lacks, or has in another order, is found.
// The control is a node that changes nothing.
func TestVerifyReadsEveryNode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(items []json.RawMessage) []json.RawMessage
		found  func(v *result.Verification, n result.Verification) bool
	}{
		"as the others": {
			func(items []json.RawMessage) []json.RawMessage { return items },
			func(v *result.Verification, _ result.Verification) bool {
				return v.Clean() && v.Found == v.Acknowledged
			},
		},
		"lacks one": {
			func(items []json.RawMessage) []json.RawMessage { return items[min(1, len(items)):] },
			func(v *result.Verification, n result.Verification) bool {
				return !v.Clean() && v.Missing > 0 && n.Missing == v.Missing && n.Differing > 0 && v.Found == n.Found && n.Found < v.Acknowledged
			},
		},
		"has one twice": {
			func(items []json.RawMessage) []json.RawMessage { return append(items, items[:min(1, len(items))]...) },
			func(v *result.Verification, n result.Verification) bool {
				return !v.Clean() && v.Twice > 0 && n.Twice == v.Twice
			},
		},
		"has another order": {
			func(items []json.RawMessage) []json.RawMessage { slices.Reverse(items); return items },
			func(v *result.Verification, n result.Verification) bool {
				return !v.Clean() && v.Reordered > 0 && n.Reordered == v.Reordered && v.Missing == 0 && n.Differing > 0
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, sound)
			if _, err := measure(t, h, Send); err != nil {
				t.Fatal(err)
			}
			same := func(items []json.RawMessage) []json.RawMessage { return items }
			endpoint := h.Endpoint()
			endpoint.Nodes = []string{endpoint.Address, anotherNode(t, endpoint, same), anotherNode(t, endpoint, c.change)}
			h.Reopen(endpoint)
			v, err := h.Verify(t.Context())
			if err != nil || len(v.Nodes) != 3 || v.Acknowledged == 0 {
				t.Fatalf("%v, %+v", err, v)
			}
			if !c.found(v, v.Nodes[2]) {
				t.Errorf("%+v", v)
			}
			if first := v.Nodes[0]; first.Node != "a" || first.Missing+first.Twice+first.Reordered+first.Differing+v.Nodes[1].Differing != 0 || first.Found != v.Acknowledged {
				t.Errorf("the nodes without a fault: %+v", v.Nodes)
			}
		})
	}
}

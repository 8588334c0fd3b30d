package api

import (
	"regexp"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// handleOf returns a path with the handle in place of the id of its first agent or group, and the
// same with a handle that nothing has. It returns "" for paths that have neither.
func (c *accessScene) handleOf(t *testing.T, path string) (known, unknown string) {
	t.Helper()
	parts := strings.Split(path, "/")
	for i, part := range parts {
		id, rest := part, ""
		if len(part) > 36 {
			id, rest = part[:36], part[36:]
		}
		if i == 0 || !kit.UUIDForm.MatchString(id) {
			continue
		}
		handle := ""
		switch parts[i-1] {
		case "agents", "agent-cards":
			handle = c.s.Call(t, "", "GET", "/agents/"+id+"/keys", nil).Want(200).Str("handle")
		case "groups":
			handle = strings.Replace(c.alice.Get("/groups/"+id).Want(200).Str("handle"), "#", "%23", 1)
		default:
			return "", ""
		}
		parts[i] = strings.ToUpper(handle) + rest
		known = strings.Join(parts, "/")
		parts[i] = "nobody" + handle[strings.Index(handle, "@"):] + rest
		if strings.HasPrefix(handle, "%23") {
			parts[i] = "%23nobody" + handle[strings.Index(handle, "@"):] + rest
		}
		return known, strings.Join(parts, "/")
	}
	return "", ""
}

// TestHandlesInPaths: on every route with an agent or a group in its path, the handle gets the
// answer of the id, from its owner and from others; a handle that nothing has gets that of an
// unknown id, and a bare name 422.
func TestHandlesInPaths(t *testing.T) {
	c := newAccessScene(t, "2")
	checked, uuid := 0, regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	routes, _ := describedRoutes(t, c.s)
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		if !strings.Contains(path, "/{id}") || accessAsks[route] == nil || strings.HasSuffix(path, "/export") {
			continue
		}
		for caller, token := range map[string]string{"owner": c.alice.Token, "other": c.carol.Token} {
			byID, byName := accessAsks[route](c), accessAsks[route](c)
			known, unknown := c.handleOf(t, byName.path)
			if known == "" {
				break
			}
			checked++
			call := func(path string, body any) *kit.Answer {
				if strings.HasSuffix(route, "/stream") {
					return openPath(t, c.s, token, path)
				}
				return c.s.Call(t, token, method, path, body)
			}
			want, got := call(byID.path, byID.body), call(known, byName.body)
			if strings.HasSuffix(route, "/vote") && caller == "other" {
				got.As("%s by %s", route, caller).Refused(404, "not_found") // the group is private
			} else if kit.SummaryOf(want.Status, want.Raw) != kit.SummaryOf(got.Status, got.Raw) {
				t.Errorf("%s by %s: %d %s, by handle %d %s", route, caller, want.Status, want.Raw, got.Status, got.Raw)
			}
			want, got = call(uuid.ReplaceAllString(byID.path, kit.Nobody), byID.body), call(unknown, byName.body)
			if kit.SummaryOf(want.Status, want.Raw) != kit.SummaryOf(got.Status, got.Raw) {
				t.Errorf("%s of an unknown id by %s: %d %s, by handle %d %s", route, caller, want.Status, want.Raw, got.Status, got.Raw)
			}
			call(strings.Replace(path, "{id}", "bob", 1), byID.body).As("%s, bare name", route).Invalid("path.id", "uuid_parsing")
		}
	}
	if checked < 60 {
		t.Errorf("%d cells are checked", checked)
	}
}

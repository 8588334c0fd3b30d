package groups

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

const (
	profileFields = "id name handle org_id description enrollment_policy vote_duration_hours member_count created_at mls_enabled"
	invitedShape  = "agent_id:uuid? handle:str? request_id:str? status:any reason:str?"
)

// voted casts a vote, which must count, and returns the status of the request.
func voted(r *grouptest.Group, by *kit.Agent, request, vote string) string {
	r.T.Helper()
	a := r.Vote(by, request, vote).Want(200).Shaped("request_id:str status:str your_vote:str").Is("request_id", request, "your_vote", vote)
	if seated, present := a.Body["mls_seated"]; present && !kit.OfKind(seated, "bool") {
		a.Errorf("mls_seated is %v", seated)
	}
	return a.Str("status")
}

// checkRequest checks fields of a request, given in pairs.
func checkRequest(r *grouptest.Group, what string, g *kit.Agent, id string, pairs ...any) {
	r.T.Helper()
	row := r.Request(g, id)
	for pair := range slices.Chunk(pairs, 2) {
		if got := row[pair[0].(string)]; !kit.Same(got, pair[1]) {
			r.T.Errorf("%s: %s of the request is %v, want %v\n  %v", what, pair[0], got, pair[1], row)
		}
	}
	live := row["status"] == "pending" || row["status"] == "invited"
	if (row["resolved_at"] == nil) != live {
		r.T.Errorf("%s: a request that is %v was resolved at %v", what, row["status"], row["resolved_at"])
	}
}

// admins returns the names of the admins, in order.
func admins(r *grouptest.Group, g *kit.Agent) string {
	r.T.Helper()
	var names []string
	for _, m := range r.Members(g) {
		if m["role"] == "admin" {
			name, _, _ := strings.Cut(kit.Text(m, "agent_handle"), "@")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// summary returns the status of an answer and its error code, as tables write them.
func summary(a *kit.Answer) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return strings.ReplaceAll(kit.SummaryOf(a.Status, a.Raw), " ", ":")
}

// matches checks an answer against a cell of a table: a status, and a code if the cell
// names one. "-" is a cell without a request.
func matches(a *kit.Answer, cell string) *kit.Answer {
	a.T.Helper()
	if got := summary(a); got != cell && !strings.HasPrefix(got, cell+":") {
		a.Errorf("want %s", cell)
	}
	return a
}

// payloadJSON reads an unencrypted payload.
func payloadJSON(t testing.TB, m obj) (v any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(kit.Text(m, "encrypted_payload"), "="))
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Errorf("the payload is not base64url of JSON: %v", err)
	}
	return v
}

package kit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Route is a method and a path of the service.
type Route struct{ Method, Path string }

// OwnRoutes require a token.
var OwnRoutes = []Route{
	{"GET", "/org"},
	{"PATCH", "/org"},
	{"GET", "/org/quotas"},
	{"POST", "/org/credentials"},
	{"DELETE", "/org/credentials/{id}"},
	{"GET", "/agents"},
	{"POST", "/agents"},
	{"GET", "/agents/{id}"},
	{"PATCH", "/agents/{id}"},
	{"DELETE", "/agents/{id}"},
	{"PUT", "/agents/{id}/card"},
	{"DELETE", "/agents/{id}/card"},
	{"POST", "/agents/{id}/keys"},
	{"POST", "/agents/{id}/keys/retire"},
	{"POST", "/agents/{id}/keys/pq"},
	{"DELETE", "/agents/{id}/keys/pq"},
	{"PUT", "/agents/{id}/key-binding"},
	{"POST", "/agents/{id}/mls/key-packages"},
	{"GET", "/agents/{id}/mls/key-packages/count"},
	{"POST", "/agents/{id}/mls/key-packages/claim"},
	{"POST", "/agents/{id}/verify-svid/challenge"},
	{"POST", "/agents/{id}/verify-svid"},
	{"POST", "/agents/{id}/poll-token"},
	{"DELETE", "/agents/{id}/poll-token"},
	{"GET", "/agents/{id}/messages"},
	{"GET", "/agents/{id}/conversations"},
	{"GET", "/agents/{id}/stream"},
	{"POST", "/messages"},
	{"POST", "/messages/sync"},
	{"GET", "/messages/{id}"},
	{"POST", "/messages/{id}/reply"},
	{"POST", "/messages/{id}/read"},
	{"GET", "/messages/{id}/receipt"},
	{"GET", "/messages/{id}/trace"},
	{"POST", "/agents/{id}/messages/ack"},
	{"GET", "/agents/{id}/wait"},
	{"GET", "/conversations/{id}"},
	{"GET", "/conversations/{id}/participants"},
	{"GET", "/conversations/{id}/messages"},
	{"PATCH", "/conversations/{id}/status"},
	{"GET", "/groups"},
	{"POST", "/groups"},
	{"GET", "/groups/invites"},
	{"GET", "/groups/{id}"},
	{"PATCH", "/groups/{id}"},
	{"DELETE", "/groups/{id}"},
	{"GET", "/groups/{id}/members"},
	{"PATCH", "/groups/{id}/members/{agent_id}"},
	{"POST", "/groups/{id}/admins"},
	{"DELETE", "/groups/{id}/members/{agent_id}"},
	{"POST", "/groups/{id}/join"},
	{"POST", "/groups/{id}/invite"},
	{"GET", "/groups/{id}/requests"},
	{"DELETE", "/groups/{id}/requests/{request_id}"},
	{"POST", "/groups/{id}/requests/{request_id}/vote"},
	{"POST", "/groups/{id}/mls/commits"},
	{"GET", "/groups/{id}/mls/commits"},
	{"GET", "/groups/{id}/mls/group-info"},
	{"GET", "/groups/{id}/mls/welcomes"},
	{"DELETE", "/groups/{id}/mls/welcomes/{welcome_id}"},
	{"GET", "/webhooks"},
	{"POST", "/webhooks"},
	{"PATCH", "/webhooks/{id}"},
	{"DELETE", "/webhooks/{id}"},
	{"GET", "/webhooks/{id}/deliveries"},
	{"GET", "/webhooks/{id}/deliveries/summary"},
	{"POST", "/webhooks/{id}/test"},
	{"POST", "/webhooks/{id}/rotate-secret"},
	{"POST", "/webhooks/{id}/deliveries/{job_id}/retry"},
}

// Report reports the faults that a check found.
func Report(t testing.TB, what string, faults []string) {
	t.Helper()
	for _, fault := range faults {
		t.Errorf("%s: %s", what, fault)
	}
}

// SummaryOf returns an answer as golden files show it: the status and the error code.
func SummaryOf(status int, body []byte) string {
	var problem struct {
		Code  string `json:"code"`
		Error any    `json:"error"`
	}
	_ = json.Unmarshal(body, &problem)
	if rpc, ok := problem.Error.(map[string]any); ok && status == http.StatusOK { // an error of JSON-RPC
		info, _ := rpc["data"].([]any)[0].(map[string]any)
		problem.Code = strings.ToLower(fmt.Sprint(info["reason"]))
	}
	return strings.TrimSpace(strconv.Itoa(status) + " " + problem.Code)
}

// AdminClient keeps no connections open, because they would be counted.
var AdminClient = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Resolved follows a reference, also one in an alternative with null.
func Resolved(document, schema Obj) Obj {
	if choices, ok := schema["anyOf"].([]any); ok {
		schema, _ = choices[0].(Obj)
	}
	if ref, ok := schema["$ref"].(string); ok {
		schema, _ = At(document, strings.ReplaceAll(strings.TrimPrefix(ref, "#/"), "/", ".")).(Obj)
	}
	return schema
}

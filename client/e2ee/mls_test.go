package e2ee

import (
	"errors"
	"net/http"
	"testing"

	"parley/client"
	"parley/client/clienttest"
)

// TestBroadcastWithAStaleGroup: a group that got an MLS group after the caller read it is
// ErrMLSGroup. Other refusals stay what they are: the control.
func TestBroadcastWithAStaleGroup(t *testing.T) {
	for name, enabled := range map[string]bool{"MLS group": true, "control": false} {
		w, agents := circleOf(t, "ann", "bob")
		current := *townGroup
		current.MLSEnabled = enabled
		w.Mux.HandleFunc("GET /groups/"+circle.String(), func(rw http.ResponseWriter, _ *http.Request) { clienttest.Answer(rw, 200, current) })
		w.takesMLS = true
		if sent, err := agents[0].Broadcast(t.Context(), townGroup, []byte("x"), "svc.v1.dm"); err == nil || errors.Is(err, ErrMLSGroup) != enabled {
			t.Errorf("%s: a broadcast is answered %v, %v", name, sent, err)
		}
		for _, status := range []int{409, 422} {
			err := agents[0].groups.orMLSGroup(t.Context(), circle, &client.Error{Status: status, Code: "validation_error"})
			if refused := (*client.Error)(nil); errors.Is(err, ErrMLSGroup) != enabled || !errors.As(err, &refused) || refused.Status != status {
				t.Errorf("%s, %d: %v", name, status, err)
			}
		}
		if err := agents[0].groups.orMLSGroup(t.Context(), circle, &client.Error{Status: 503, Code: "overloaded"}); errors.Is(err, ErrMLSGroup) {
			t.Errorf("%s: overload is %v", name, err)
		}
	}
}

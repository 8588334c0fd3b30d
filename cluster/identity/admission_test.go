package identity

import (
	"testing"
	"time"
)

// TestAdmittedAgain: a node that applies again, with the same key and token, as after it was
// killed, is the same node. With another token or directory it is another one.
func TestAdmittedAgain(t *testing.T) {
	first, err := Create(t.TempDir(), "a", "a:1", time.Now(), func(NodeID) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	token, err := first.NewToken(time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	admit := func(data, number string) NodeID {
		t.Helper()
		applicant, err := NewApplicant(data, token)
		if err != nil {
			t.Fatal(err)
		}
		admission, err := first.Admit(applicant.Request, number, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return admission.ID
	}
	data := t.TempDir()
	id := admit(data, "1")
	if again := admit(data, "1"); again != id {
		t.Errorf("node %v, and then %v", id, again)
	}
	if admit(data, "2") == id || admit(t.TempDir(), "1") == id {
		t.Error("another token, or another key, gets the same id")
	}
}

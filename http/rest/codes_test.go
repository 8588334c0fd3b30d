package rest

import (
	"os"
	"strings"
	"testing"
)

// TestClientKnowsEveryCode: the Go client has a constant for each error code in the
// document.
func TestClientKnowsEveryCode(t *testing.T) {
	source, err := os.ReadFile("../../client/error.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statusCodes {
		for _, code := range s.codes {
			if !strings.Contains(string(source), `Code = "`+code+`"`) {
				t.Errorf("status %d: no constant for %s", s.status, code)
			}
		}
	}
}

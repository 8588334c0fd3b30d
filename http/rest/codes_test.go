package rest

import (
	"os"
	"strings"
	"testing"
)

// TestClientKnowsEveryCode: there is a constant in the Go client for each code that
// the document says the service refuses with.
func TestClientKnowsEveryCode(t *testing.T) {
	source, err := os.ReadFile("../client/error.go")
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

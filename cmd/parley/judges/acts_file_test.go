package judges

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"
)

// actsFile is a file of scenarios. What the runner does not know of is an error, so that
// nothing is passed over in silence.
// // source: docs/acts-specification.md of A2A pull request 1882
type actsFile struct {
	ActsVersion string            `json:"acts_version"`
	SpecVersion string            `json:"spec_version"`
	SpecRef     string            `json:"spec_ref"`
	Metadata    any               `json:"metadata"`
	Variables   map[string]string `json:"variables"`
	Include     []string          `json:"include"`
	Suites      []struct {
		ID, Name, Description string
		Tags                  []string
		Tests                 []*actsTest
	} `json:"suites"`
}

// actsTest is a scenario.
type actsTest struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	Description   string   `json:"description"`
	SpecRef       string   `json:"spec_ref"`
	Level         string   `json:"level"`
	Tags          []string `json:"tags"`
	Transport     []string `json:"transport"`
	Preconditions struct {
		Capabilities map[string]bool `json:"capabilities"`
	} `json:"preconditions"`
	RequiresBehaviors []string    `json:"requires_behaviors"`
	Steps             []*actsStep `json:"steps"`
	// variables are those of the file.
	variables map[string]string
}

// actsStep is one request, and what is expected of the answer.
type actsStep struct {
	ID             string              `json:"id"`
	Operation      string              `json:"operation"`
	Params         map[string]any      `json:"params"`
	Raw            *actsRaw            `json:"raw"`
	ClientResponse *actsClientResponse `json:"client_response"`
	Expect         map[string]any      `json:"expect"`
	ExpectError    map[string]any      `json:"expect_error"`
	ExpectStream   *actsStream         `json:"expect_stream"`
	ExpectParsed   map[string]any      `json:"expect_parsed"`
	Capture        map[string]string   `json:"capture"`
	Assertions     []actsAssertion     `json:"assertions"`
	Repeat         *actsRepeat         `json:"repeat"`
}

// actsRaw is a request as it stands on the wire.
type actsRaw struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    map[string]any    `json:"body"`
	BodyRaw string            `json:"body_raw"`
}

// actsClientResponse is an answer that a client has to read.
type actsClientResponse struct {
	Operation   string         `json:"operation"`
	WirePayload map[string]any `json:"wire_payload"`
}

// actsStream is what is expected of a stream.
type actsStream struct {
	MinCount   int              `json:"min_count"`
	Ordering   string           `json:"ordering"`
	Events     []map[string]any `json:"events"`
	FinalEvent map[string]any   `json:"final_event"`
	EachEvent  map[string]any   `json:"each_event"`
}

// actsAssertion is about the elements of an array in the answer to a step.
type actsAssertion struct {
	Source string `json:"source"`
	Any    struct {
		Path  string         `json:"path"`
		Match map[string]any `json:"match"`
	} `json:"any"`
}

// actsRepeat repeats a step until something holds.
type actsRepeat struct {
	Until       string `json:"until"`
	MaxAttempts int    `json:"max_attempts"`
	DelayMS     int    `json:"delay_ms"`
}

// readACTS reads all scenarios that suite.acts.yaml names.
func readACTS(t *testing.T) (tests []*actsTest) {
	t.Helper()
	suite := readACTSFile(t, "suite.acts.yaml")
	known := map[string]bool{}
	for _, name := range suite.Include {
		file := readACTSFile(t, name)
		for _, s := range file.Suites {
			for _, test := range s.Tests {
				if known[test.ID] {
					t.Fatalf("%s: %s is there twice", name, test.ID)
				}
				known[test.ID], test.variables = true, file.Variables
				tests = append(tests, test)
			}
		}
	}
	return tests
}

func readACTSFile(t *testing.T, name string) (file actsFile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("acts", name))
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	as, err := json.Marshal(document)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	d := json.NewDecoder(bytes.NewReader(as))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if file.ActsVersion != "1.0" || file.SpecVersion != "1.0" {
		t.Fatalf("%s is of ACTS %q for A2A %q, want 1.0", name, file.ActsVersion, file.SpecVersion)
	}
	return file
}

var actsVariable = regexp.MustCompile(`\{\{([^}]+)\}\}`)

// fill returns a value with its variables replaced, in all strings of it.
func fill(value any, variables map[string]string) (any, error) {
	switch v := value.(type) {
	case string:
		var missing error
		filled := actsVariable.ReplaceAllStringFunc(v, func(found string) string {
			name := actsVariable.FindStringSubmatch(found)[1]
			text, ok := variables[name]
			if !ok {
				missing = fmt.Errorf("there is no variable %s", name)
			}
			return text
		})
		return filled, missing
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			filled, err := fill(member, variables)
			if err != nil {
				return nil, err
			}
			out[name] = filled
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			filled, err := fill(element, variables)
			if err != nil {
				return nil, err
			}
			out[i] = filled
		}
		return out, nil
	}
	return value, nil
}

// fillMap is fill of an object, which may be nil.
func fillMap(value map[string]any, variables map[string]string) (map[string]any, error) {
	if value == nil {
		return nil, nil
	}
	filled, err := fill(value, variables)
	if err != nil {
		return nil, err
	}
	return filled.(map[string]any), nil
}

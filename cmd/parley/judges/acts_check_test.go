package judges

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// holds checks a value against what is expected of it: a scalar, an object whose members
// are operators or names of the value's members, or a list, element by element. present is
// false if there is no such value.
// // source: docs/acts-specification.md of A2A pull request 1882, section 5
func holds(path string, want, got any, present bool) error {
	switch want := want.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if operator, ok := actsOperators[name]; ok {
				if err := operator(path, want[name], got, present); err != nil {
					return err
				}
				continue
			}
			object, _ := got.(map[string]any)
			member, there := object[name]
			if err := holds(join(path, name), want[name], member, there); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := got.([]any)
		if !ok {
			return fmt.Errorf("%s is %s, want an array", path, shown(got, present))
		}
		for i, element := range want {
			if i >= len(list) {
				return fmt.Errorf("%s has %d elements, want more", path, len(list))
			}
			if err := holds(fmt.Sprintf("%s[%d]", path, i), element, list[i], true); err != nil {
				return err
			}
		}
		return nil
	}
	if !present || !equal(want, got) {
		return fmt.Errorf("%s is %s, want %s", path, shown(got, present), shown(want, true))
	}
	return nil
}

func join(path, name string) string {
	if path == "" || strings.HasSuffix(path, ": ") {
		return path + name
	}
	return path + "." + name
}

func equal(a, b any) bool { return shown(a, true) == shown(b, true) }

// shown returns a value for a person.
func shown(value any, present bool) string {
	if !present {
		return "absent"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

type actsOperator func(path string, want, got any, present bool) error

var actsOperators map[string]actsOperator

func init() { // the combinators refer to holds
	actsOperators = map[string]actsOperator{
		"exists": func(path string, want, got any, present bool) error {
			if present != (want == true) {
				return fmt.Errorf("%s is %s", path, shown(got, present))
			}
			return nil
		},
		"absent": func(path string, want, got any, present bool) error {
			if present != (want != true) {
				return fmt.Errorf("%s is %s, want it absent", path, shown(got, present))
			}
			return nil
		},
		"type": func(path string, want, got any, present bool) error {
			if kind := kindOf(got); !present || kind != want {
				return fmt.Errorf("%s is %s, want %v", path, shown(got, present), want)
			}
			return nil
		},
		"contains":    textual("contain", strings.Contains),
		"starts_with": textual("begin with", strings.HasPrefix),
		"matches": textual("match", func(text, pattern string) bool {
			return regexp.MustCompile(pattern).MatchString(text)
		}),
		"count":     counted("", func(n, want int) bool { return n == want }),
		"count_gte": counted("at least ", func(n, want int) bool { return n >= want }),
		"count_lte": counted("at most ", func(n, want int) bool { return n <= want }),
		"one_of":    anyOf,
		"any_of":    anyOf,
		"all_of": func(path string, want, got any, present bool) error {
			for _, each := range want.([]any) {
				if err := holds(path, each, got, present); err != nil {
					return err
				}
			}
			return nil
		},
		"items": func(path string, want, got any, present bool) error {
			if _, positional := want.([]any); positional {
				return holds(path, want, got, present)
			}
			list, ok := got.([]any)
			if !ok {
				return fmt.Errorf("%s is %s, want an array", path, shown(got, present))
			}
			for i, element := range list {
				if err := holds(fmt.Sprintf("%s[%d]", path, i), want, element, true); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func anyOf(path string, want, got any, present bool) error {
	var faults []string
	for _, each := range want.([]any) {
		err := holds(path, each, got, present)
		if err == nil {
			return nil
		}
		faults = append(faults, err.Error())
	}
	return fmt.Errorf("none of these holds: %s", strings.Join(faults, "; "))
}

func textual(verb string, test func(text, want string) bool) actsOperator {
	return func(path string, want, got any, present bool) error {
		if text, ok := got.(string); !ok || !test(text, want.(string)) {
			return fmt.Errorf("%s is %s, want it to %s %q", path, shown(got, present), verb, want)
		}
		return nil
	}
}

func counted(words string, test func(n, want int) bool) actsOperator {
	return func(path string, want, got any, present bool) error {
		list, ok := got.([]any)
		if !ok {
			return fmt.Errorf("%s is %s, want an array", path, shown(got, present))
		}
		if !test(len(list), int(want.(float64))) {
			return fmt.Errorf("%s has %d elements, want %s%v", path, len(list), words, want)
		}
		return nil
	}
}

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// at returns the values at a path such as task.artifacts[*].parts[0].text.
func at(value any, path string) []any {
	found := []any{value}
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		var next []any
		for _, v := range found {
			switch v := v.(type) {
			case map[string]any:
				if member, ok := v[name]; ok {
					next = append(next, member)
				}
			case []any:
				if name == "*" {
					next = append(next, v...)
				} else if i, err := strconv.Atoi(name); err == nil && i < len(v) {
					next = append(next, v[i])
				}
			}
		}
		found = next
	}
	return found
}

var actsUntil = regexp.MustCompile(`^(\S+) (==|in) \[?([^\]]*)\]?$`)

// reached reports whether a condition such as "status.state in [A, B]" holds.
func reached(condition string, root any) (bool, error) {
	m := actsUntil.FindStringSubmatch(condition)
	if m == nil {
		return false, fmt.Errorf("the condition %q cannot be read", condition)
	}
	for _, value := range at(root, m[1]) {
		for _, want := range strings.Split(m[3], ",") {
			if value == strings.TrimSpace(want) {
				return true, nil
			}
		}
	}
	return false, nil
}

// TestACTSAssertions holds the runner to its own reading of assertions: a value that does
// not hold must be noticed.
func TestACTSAssertions(t *testing.T) {
	const answer = `{"id":"x","n":2,"none":null,"list":[{"a":1},{"a":2}],"status":{"state":"DONE"}}`
	var got any
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatal(err)
	}
	for assertion, want := range map[string]bool{
		`{"id":"x","status":{"state":"DONE"}}`: true,
		`{"id":"y"}`:                           false,
		`{"n":2}`:                              true,
		`{"n":"2"}`:                            false,
		`{"id":{"type":"string"},"none":{"type":"null"}}`:                     true,
		`{"id":{"type":"object"}}`:                                            false,
		`{"missing":{"type":"null"}}`:                                         false,
		`{"missing":{"absent":true}}`:                                         true,
		`{"id":{"absent":true}}`:                                              false,
		`{"missing":{"exists":true}}`:                                         false,
		`{"list":{"count_gte":2,"count_lte":2,"count":2}}`:                    true,
		`{"list":{"count_gte":3}}`:                                            false,
		`{"list":{"count_lte":1}}`:                                            false,
		`{"list":{"items":{"a":{"type":"number"}}}}`:                          true,
		`{"list":{"items":{"a":1}}}`:                                          false,
		`{"list":{"items":[{"a":1}]}}`:                                        true,
		`{"list":[{"a":1},{"a":2},{"a":3}]}`:                                  false,
		`{"status":{"state":{"one_of":["OPEN","DONE"]}}}`:                     true,
		`{"status":{"state":{"one_of":["OPEN"]}}}`:                            false,
		`{"any_of":[{"id":"y"},{"n":2}]}`:                                     true,
		`{"id":{"all_of":[{"type":"string"},{"contains":"y"}]}}`:              false,
		`{"id":{"matches":"^x$"},"status":{"state":{"starts_with":"DO"}}}`:    true,
		`{"status":{"state":{"matches":"^O"}}}`:                               false,
		`{"list":{"any_of":[{"absent":true},{"type":"array","count":0}]}}`:    false,
		`{"gone":{"any_of":[{"absent":true},{"type":"array","count":0}]}}`:    true,
		`{"id":{"type":"string"},"deeper":{"member":{"of":{"exists":true}}}}`: false,
	} {
		var a any
		if err := json.Unmarshal([]byte(assertion), &a); err != nil {
			t.Fatal(err)
		}
		if err := holds("", a, got, true); (err == nil) != want {
			t.Errorf("%s: %v, want it to hold: %v", assertion, err, want)
		}
	}
	for condition, want := range map[string]bool{"status.state == DONE": true, "status.state == OPEN": false, "status.state in [OPEN, DONE]": true} {
		if is, err := reached(condition, got); is != want || err != nil {
			t.Errorf("%s: %v, %v", condition, is, err)
		}
	}
	if found := at(got, "list[*].a"); len(found) != 2 {
		t.Errorf("list[*].a: %v", found)
	}
}

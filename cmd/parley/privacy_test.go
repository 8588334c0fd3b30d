package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// privacyRow is a row of the table of fields in docs/privacy.md.
type privacyRow struct{ fields, routes []string }

var codeSpan = regexp.MustCompile("`([^`]+)`")

// privacyRows returns the rows of the first table.
func privacyRows(text string) (rows []privacyRow) {
	_, table, _ := strings.Cut(text, "| Field |")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[2], "`") {
			continue
		}
		spans := func(cell string) (all []string) {
			for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
				all = append(all, span[1])
			}
			return all
		}
		rows = append(rows, privacyRow{spans(cells[1]), spans(cells[2])})
	}
	return rows
}

// missingInPrivacy returns the fields that no row names, and the names in rows that stand
// for no field. Fields are such as "POST /groups body.name"; the name of an object stands
// for all its members.
func missingInPrivacy(rows []privacyRow, fields []string) (missing []string) {
	used := map[string]bool{}
	for _, field := range fields {
		route, name, _ := strings.Cut(field, " body.")
		for _, place := range []string{" header.", " query.", " path."} {
			if name == "" {
				route, name, _ = strings.Cut(field, place)
			}
		}
		found := false
		for _, row := range rows {
			for _, of := range row.fields {
				if slices.Contains(row.routes, route) && (name == of || strings.HasPrefix(name, of+".") || strings.HasPrefix(name, of+"[")) {
					found, used[route], used[of+" of "+strings.Join(row.routes, ", ")] = true, true, true
				}
			}
		}
		if !found {
			missing = append(missing, field)
		}
	}
	for _, row := range rows {
		for _, of := range row.fields {
			if name := of + " of " + strings.Join(row.routes, ", "); !used[name] {
				missing = append(missing, name)
			}
		}
	}
	return missing
}

// TestPrivacyNamesEveryField: docs/privacy.md has every free text that requests may have,
// and nothing that they may not have.
func TestPrivacyNamesEveryField(t *testing.T) {
	text, err := os.ReadFile("../../docs/privacy.md")
	if err != nil {
		t.Fatal(err)
	}
	server := serveData(t, t.TempDir()+"/data", "1")
	_, document, raw := server.call("", "GET", "/openapi.json", nil)
	server.stop()
	if document == nil {
		t.Fatalf("no description of the interface: %.200s", raw)
	}
	rows := privacyRows(string(text))
	for _, missing := range missingInPrivacy(rows, freeFields(document)) {
		t.Errorf("docs/privacy.md: %s", missing)
	}
	// A field that is not described, and a description without a field, are noticed.
	if got := missingInPrivacy(rows, freeFields(withField(document))); !slices.Equal(got, []string{"POST /groups body.new[].field"}) {
		t.Errorf("a new field: %q", got)
	}
	stale := append(slices.Clone(rows), privacyRow{[]string{"gone"}, []string{"POST /groups"}})
	if got := missingInPrivacy(stale, freeFields(document)); !slices.Equal(got, []string{"gone of POST /groups"}) {
		t.Errorf("a stale row: %q", got)
	}
}

package rest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// textsFile says in prose what the routes do, under the tag of each. It is a file of its own
// so that it reads as a page.
const textsFile = "testdata/operations.md"

// texts are the tags of the document, in order, and what is said about each route.
type texts struct {
	tags []tagText
	of   map[string]operationText
}

type tagText struct{ name, text string }

type operationText struct{ tag, text string }

// readTexts reads headings of tags (#) and of routes (##), and the paragraphs below them.
func readTexts(file string) (texts, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return texts{}, err
	}
	t := texts{of: map[string]operationText{}}
	for section := range strings.SplitSeq("\n"+string(source), "\n#") {
		heading, text, _ := strings.Cut(section, "\n")
		text = paragraphs(text)
		if route, found := strings.CutPrefix(heading, "# "); found {
			if _, twice := t.of[route]; twice || len(t.tags) == 0 {
				return t, fmt.Errorf("%s: %s has two sections, or no tag", file, route)
			}
			t.of[route] = operationText{t.tags[len(t.tags)-1].name, text}
		} else if name, found := strings.CutPrefix(heading, " "); found {
			t.tags = append(t.tags, tagText{name, text})
		}
	}
	return t, nil
}

// paragraphs joins the lines of each paragraph.
func paragraphs(text string) string {
	var all []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if words := strings.Fields(paragraph); len(words) > 0 {
			all = append(all, strings.Join(words, " "))
		}
	}
	return strings.Join(all, "\n\n")
}

// about returns what is said about a route.
func (t texts) about(r *Route) operationText { return t.of[r.Method+" "+r.Path] }

// inDocument returns the tags as the document lists them.
func (t texts) inDocument() []object {
	tags := make([]object, len(t.tags))
	for i, tag := range t.tags {
		tags[i] = object{{"name", tag.name}, {"description", tag.text}}
	}
	return tags
}

// TestEachRouteIsDescribed: each route has one section, with a text that says more than its
// summary, and each tag has a text and routes.
func TestEachRouteIsDescribed(t *testing.T) {
	all, err := readTexts(textsFile)
	if err != nil {
		t.Fatal(err)
	}
	routed, tagged := map[string]bool{}, map[string]bool{}
	for _, r := range servicePlans(t, "Acme") {
		name := r.Method + " " + r.Path
		routed[name] = true
		text, entered := all.of[name]
		if !entered {
			t.Errorf("%s has no section: say what it does in %s", name, textsFile)
			continue
		}
		tagged[text.tag] = true
		if added := addedWords(text.text, r.Summary+" "+r.Path); len(added) < 3 {
			t.Errorf("%s: %q says little more than the summary %q", name, text.text, r.Summary)
		}
	}
	for name := range all.of {
		if !routed[name] {
			t.Errorf("%s has %s, which is not a route", textsFile, name)
		}
	}
	for _, tag := range all.tags {
		if !tagged[tag.name] || len(addedWords(tag.text, tag.name)) < 3 {
			t.Errorf("the tag %s has no route, or no text", tag.name)
		}
	}
}

// commonWords say nothing by themselves.
var commonWords = strings.Fields("a an and are as at be by for from get gets has have in is it its list lists of on one or that the their this to with")

var wordOf = regexp.MustCompile(`[a-z0-9]+`)

// addedWords returns the stems of a text that another text does not have.
func addedWords(text, other string) (added []string) {
	stems := func(text string) (all []string) {
		for _, word := range wordOf.FindAllString(strings.ToLower(text), -1) {
			if !slices.Contains(commonWords, word) {
				all = append(all, strings.TrimSuffix(strings.TrimSuffix(word, "s"), "e"))
			}
		}
		return all
	}
	known := stems(other)
	for _, stem := range stems(text) {
		if !slices.Contains(known, stem) && !slices.Contains(added, stem) {
			added = append(added, stem)
		}
	}
	return added
}

// TestAddedWordsControl: a text that repeats a summary adds nothing.
func TestAddedWordsControl(t *testing.T) {
	if added := addedWords("Lists the agents of the organization.", "Agents of the organization, oldest first."); added != nil {
		t.Errorf("a repetition adds %q", added)
	}
	if added := addedWords("Revoked agents are included.", "Agents of the organization."); len(added) != 2 {
		t.Errorf("a statement adds %q", added)
	}
}

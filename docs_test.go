package parley_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestDocs checks that the targets of links exist, headings included, and so do the
// files and functions that the pages name.
func TestDocs(t *testing.T) {
	complaints, checked := surveyDocs(t, os.DirFS("."))
	for _, complaint := range complaints {
		t.Error(complaint)
	}
	if checked < 100 {
		t.Errorf("found only %d links and names: the pages are not being read", checked)
	}
}

// TestPictureHasEveryPackage compares the picture in docs/architecture.md with lattice.
func TestPictureHasEveryPackage(t *testing.T) {
	picture := packagesIn(readFile(t, os.DirFS("."), "docs/architecture.md"))
	for name := range lattice {
		if short := strings.TrimPrefix(name, "parley/"); !picture[short] {
			t.Errorf("%s is not in the picture of docs/architecture.md", short)
		}
	}
	drawn := packagesIn("actors ── client http/a2a\n  bench/{load,\n wire} rest\n")
	for _, name := range []string{"actors", "client", "http/a2a", "bench/load", "bench/wire"} {
		if !drawn[name] {
			t.Errorf("%s is in the picture and was not found", name)
		}
	}
	if drawn["http"] || drawn["bench/rest"] {
		t.Error("found packages that are not in the picture")
	}
}

var (
	pathWord   = regexp.MustCompile(`[a-z]+(?:[/-][a-z0-9]+)*`)
	pathBraces = regexp.MustCompile(`([a-z/]+)/\{([^}]*)\}`)
)

// packagesIn returns the set of paths in a page; a/{b, c} counts as a/b and a/c.
func packagesIn(page string) map[string]bool {
	all := map[string]bool{}
	for _, braces := range pathBraces.FindAllStringSubmatch(page, -1) {
		for _, name := range pathWord.FindAllString(braces[2], -1) {
			all[braces[1]+"/"+name] = true
		}
	}
	for _, name := range pathWord.FindAllString(page, -1) {
		all[name] = true
	}
	return all
}

func TestDocsControl(t *testing.T) {
	sound := "# A page\n\n[itself](#a-page), [the other](docs/b.md#second-part), `run` (`cmd/main.go`), `cmd/main.go`, `cmd/<name>`\n"
	for page, want := range map[string]string{
		sound:                         "",
		"[gone](docs/gone.md)":        "docs/gone.md",
		"[lost](docs/b.md#third)":     "#third",
		"`stop` (`cmd/main.go`)":      "stop", // is called there
		"`run` (`cmd/other.go`)":      "cmd/other.go",
		"see `cmd/parley/missing.go`": "cmd/parley/missing.go",
	} {
		tree := fstest.MapFS{
			"README.md":   {Data: []byte(page)},
			"docs/b.md":   {Data: []byte("# B\n\n```\n# Third\n```\n\n## *Second* `part`\n")},
			"cmd/main.go": {Data: []byte("package main\n\nfunc run() {\n\tstop()\n}\n")},
		}
		complaints, _ := surveyDocs(t, tree)
		if got := strings.Join(complaints, "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", page, got, want)
		}
	}
}

var (
	docLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// A name and, in parentheses, the file that declares it.
	docName = regexp.MustCompile("`(\\w+)` \\(`([\\w./-]+\\.go)`\\)")
	// A path below one of the directories of code.
	docPath = regexp.MustCompile("`((?:actors|bench|cmd|docs|http|journal|persistence)/[\\w./-]+)`")
)

// otlpProtocol is a setting of OpenTelemetry that looks like a path.
const otlpProtocol = "http/protobuf"

// pages lists the documentation, without the specification, which is kept as it was
// received.
func pages(root fs.FS) []string {
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		some, _ := fs.Glob(root, pattern)
		all = append(all, some...)
	}
	return slices.DeleteFunc(all, func(page string) bool { return page == "docs/spec.md" })
}

// surveyDocs returns a complaint for each link, file and function that the pages under
// root name and that does not exist, and the number of names it checked.
func surveyDocs(t *testing.T, root fs.FS) (complaints []string, checked int) {
	t.Helper()
	for _, page := range pages(root) {
		text := readFile(t, root, page)
		check := func(found bool, format string, args ...any) {
			if checked++; !found {
				complaints = append(complaints, page+": "+fmt.Sprintf(format, args...))
			}
		}
		for _, m := range docLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			if target = path.Join(path.Dir(page), target); strings.HasPrefix(m[1], "#") {
				target = page
			}
			check(exists(root, target), "links to %s, which does not exist", target)
			if anchor != "" && exists(root, target) {
				check(strings.Contains(anchorsOf(readFile(t, root, target)), "#"+anchor+"\n"), "links to %s#%s: there is no such heading", target, anchor)
			}
		}
		for _, m := range docPath.FindAllStringSubmatch(text, -1) {
			check(m[1] == otlpProtocol || exists(root, m[1]), "names %s, which does not exist", m[1])
		}
		for _, m := range docName.FindAllStringSubmatch(text, -1) {
			found := exists(root, m[2])
			check(found && declares(readFile(t, root, m[2]), m[1]), "names %s in %s, which does not declare it", m[1], m[2])
		}
	}
	return complaints, checked
}

func readFile(t *testing.T, root fs.FS, name string) string {
	t.Helper()
	text, err := fs.ReadFile(root, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, strings.TrimSuffix(name, "/"))
	return err == nil
}

// declares reports whether a Go file declares a function, type, variable, constant,
// field or method of that name. A call at the depth of a field does not count.
func declares(source, name string) bool {
	atTop, within := `^(func (\([^)]*\) )?|type |var |const )`+name+`\b`, `^\t`+name+`(, \w+)*\s+[\w=*\[]`
	method := `^\t` + name + `\(.*\)( [\w(*\[].*)?$`
	if !strings.ContainsAny(name[:1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		method = atTop
	}
	return regexp.MustCompile(`(?m)` + atTop + `|` + within + `|` + method).MatchString(source)
}

// anchorsOf returns the anchors of a page's headings, one per line, each after a #.
func anchorsOf(page string) string {
	all, code := "", false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if heading := strings.TrimLeft(line, "#"); heading != line && !code {
			word := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			all += "#" + strings.ReplaceAll(word, " ", "-") + "\n"
		}
	}
	return all
}

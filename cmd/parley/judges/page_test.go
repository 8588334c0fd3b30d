package judges

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var updateTree = flag.Bool("update", false, "rewrite page-tree.txt, the expected accessibility tree of the pages, and docs/a2a-conformance.md")

// pageWait bounds the visit of all pages, which takes half a minute on an idle machine.
const pageWait = 4 * time.Minute

// needBrowser returns the path of Chromium. Without it the test is skipped with a
// prominent notice; in CI it fails.
func needBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("CI checks everything, and there is no Chromium")
	}
	t.Skip("!! NOT CHECKED: the pages for people in a browser: there is no Chromium here (on Debian: apt-get install chromium)")
	return ""
}

// TestPages: a visitor with a browser finds agents. Screenshots are in artifacts/page.
func TestPages(t *testing.T) {
	needNode(t)
	browser := needBrowser(t)
	artifacts, err := filepath.Abs("artifacts/page")
	if err != nil {
		t.Fatal(err)
	}
	var environment []string
	if *updateTree {
		environment = []string{"PAGE_TREE_UPDATE=1"}
	}
	t.Log(nodeFor(t, pageWait, environment, "", "page.mjs", serve(t), artifacts, browser))
}

// TestPageShowsWordsFirst: a provider of vectors that takes its time does not keep the
// visitor waiting for what words find.
func TestPageShowsWordsFirst(t *testing.T) {
	needNode(t)
	browser := needBrowser(t)
	provider := httptest.NewServer(heldVectors(make(chan struct{}, 8)))
	t.Cleanup(provider.Close)
	base, _ := serveBinary(t, "--embeddings", provider.URL, "--embeddings-model", "slow", "--embeddings-dim", "4")
	t.Log(nodeFor(t, pageWait, nil, "", "pageslow.mjs", base, browser, provider.URL))
}

// heldVectors answers as POST /v1/embeddings does. A vector counts words about money, goods
// and law. An answer about a text with the word "slowly" is held until a POST /release, before
// or after, allows it: the test waits for what the page shows and not for a clock.
type heldVectors chan struct{}

func (v heldVectors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/release" {
		v <- struct{}{}
		return
	}
	var in struct{ Input []string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	type vector struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	var out struct {
		Data []vector `json:"data"`
	}
	for i, text := range in.Input {
		text = strings.ToLower(text)
		if strings.Contains(text, "slowly") {
			select {
			case <-v:
			case <-r.Context().Done():
			}
		}
		one := vector{Index: i, Embedding: []float32{0, 0, 0, 0.01}}
		for dimension, words := range []string{"invoice salar money tax", "lorr ship goods warehouse", "contract clause legal"} {
			for word := range strings.FieldsSeq(words) {
				one.Embedding[dimension] += float32(strings.Count(text, word))
			}
		}
		out.Data = append(out.Data, one)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

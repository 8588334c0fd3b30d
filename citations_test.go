package parley_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCitationsExist checks that the pages of docs that comments cite exist, and that
// no comment cites a contract, which is not in the repository.
func TestCitationsExist(t *testing.T) {
	page, cited := regexp.MustCompile(`// docs: ([a-z.-]+)`), 0
	elsewhere := "// con" + "tract:"
	for name := range goFiles(t) {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), elsewhere) {
			t.Errorf("%s cites a contract: state the rule or cite a page of docs", name)
		}
		for _, m := range page.FindAllStringSubmatch(string(source), -1) {
			cited++
			if _, err := os.Stat(filepath.Join("docs", m[1])); err != nil {
				t.Errorf("%s cites docs/%s: %v", name, m[1], err)
			}
		}
	}
	if cited == 0 {
		t.Error("no comment cites a page: citations are not being read")
	}
}

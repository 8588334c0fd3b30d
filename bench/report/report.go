// Package report presents the results of a measurement: as JSON, as Markdown, as
// input of benchstat, and line by line during the run. It computes from its inputs and reads
// no clock, so the same report gives the same bytes.
//
// Two rules keep it honest. A number over several repeats is a median and is shown with
// its minimum and maximum. An invalid run is listed with its reason and enters no median.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"parley/bench/result"
)

// Save writes results.json, results.md, and results.txt for benchstat into dir, which it
// creates if necessary, and returns the paths of the files it wrote. If a file cannot be written,
// Save still writes the others, and the error names that file.
func Save(dir string, r *result.Report) (paths []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name  string
		write func(io.Writer, *result.Report) error
	}{{"results.json", writeJSON}, {"results.md", Markdown}, {"results.txt", Benchmarks}} {
		path := filepath.Join(dir, f.name)
		var b bytes.Buffer
		failed := f.write(&b, r)
		if failed == nil {
			failed = os.WriteFile(path, b.Bytes(), 0o644)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", path, failed))
			continue
		}
		paths = append(paths, path)
	}
	return paths, err
}

func writeJSON(w io.Writer, r *result.Report) error {
	stamped := *r
	stamped.Schema = result.Schema
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(stamped)
}

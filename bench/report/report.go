// Package report presents the results of a measurement: as files, as Markdown, as one
// self-contained HTML page, as a comparison of two measurements, and as a live view
// during the run. It computes from its inputs and reads no clock, so the same report
// gives the same bytes.
//
// Three rules keep it honest. A number over several repeats is a median and is shown with
// its minimum and maximum. An invalid run is listed with its reason and enters no median.
// Bars begin at zero, and an axis that does not is labelled as logarithmic.
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

// ErrSchema is returned for a file that is not a report of this layout.
var ErrSchema = errors.New("not a bench report of the layout " + result.Schema)

// Save writes results.json, results.md and results.html into dir, which it creates if
// necessary, and returns the paths of the files it wrote. Each file appears complete or
// not at all, and replaces an older one. If a file cannot be written, Save still writes
// the others, and the error names that file.
func Save(dir string, r *result.Report) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	files := []struct {
		name  string
		write func(io.Writer, *result.Report) error
	}{
		{"results.json", writeJSON},
		{"results.md", Markdown},
		{"results.html", HTML},
	}
	var paths []string
	var failed []error
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		var b bytes.Buffer
		err := f.write(&b, r)
		if err == nil {
			err = replace(path, b.Bytes())
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", path, err))
			continue
		}
		paths = append(paths, path)
	}
	return paths, errors.Join(failed...)
}

func writeJSON(w io.Writer, r *result.Report) error {
	stamped := *r
	stamped.Schema = result.Schema
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(stamped)
}

// replace writes data to path by renaming a synced temporary file beside it.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Load reads a results.json. For a file of another layout it returns an error that wraps
// ErrSchema and names the layout of the file.
func Load(path string) (*result.Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrSchema, err)
	}
	if head.Schema != result.Schema {
		return nil, fmt.Errorf("%s: %w: its schema is %q", path, ErrSchema, head.Schema)
	}
	var r result.Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &r, nil
}

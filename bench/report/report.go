// Package report presents the results of a measurement: as JSON, as Markdown, as plots, as
// input of benchstat, and line by line during the run. It computes from its inputs and reads
// no clock, so the same report gives the same bytes.
//
// Three rules keep it honest. A number over several repeats is a median and is shown with
// its minimum and maximum. An invalid run is listed with its reason and enters no median.
// An axis of a plot begins at zero or is logarithmic.
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

// Save writes results.json, results.md with its plots, and results.txt for benchstat into dir,
// which it creates if necessary, and returns the paths of the files it wrote. Each file appears
// complete or not at all, and replaces an older one. If a file cannot be written, Save still
// writes the others, and the error names that file.
func Save(dir string, r *result.Report) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	drawings, err := draw(r)
	failed := []error{err}
	files := []struct {
		name  string
		write func(io.Writer) error
	}{
		{"results.json", func(w io.Writer) error { return writeJSON(w, r) }},
		{"results.md", func(w io.Writer) error { return errors.Join(Markdown(w, r), linkDrawings(w, drawings)) }},
		{"results.txt", func(w io.Writer) error { return Benchmarks(w, r) }},
	}
	var paths []string
	save := func(name string, text []byte, err error) {
		path := filepath.Join(dir, name)
		if err == nil {
			err = replace(path, text)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", path, err))
			return
		}
		paths = append(paths, path)
	}
	for _, f := range files {
		var b bytes.Buffer
		err := f.write(&b)
		save(f.name, b.Bytes(), err)
	}
	for _, d := range drawings {
		save(d.file, d.svg, nil)
	}
	return paths, errors.Join(failed...)
}

// linkDrawings writes the end of the Markdown: the plots beside it.
func linkDrawings(w io.Writer, drawings []drawing) (err error) {
	for _, d := range drawings {
		_, failed := fmt.Fprintf(w, "\n![%s](%s)\n", escapeMarkdown(d.title), d.file)
		err = errors.Join(err, failed)
	}
	return err
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

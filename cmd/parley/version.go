package main

import (
	"fmt"

	"parley/cmd/parley/program"
)

type versionCmd struct{}

func (versionCmd) Run(std *program.Streams) error {
	b := program.ThisBuild()
	if std.JSON {
		return std.Value(b)
	}
	line := "parley " + b.Version
	if len(b.Commit) >= 12 {
		line += " (" + b.Commit[:12] + ")"
	}
	_, err := fmt.Fprintf(std.Out, "%s %s %s\n", line, b.Go, b.Platform)
	return err
}

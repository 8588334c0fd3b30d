package main

import (
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
	return std.Say("%s %s %s", line, b.Go, b.Platform)
}

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for a release: -X main.version=1.2.3
var version = ""

type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild is what the binary knows of its own making.
func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				b.Commit = setting.Value
			}
		}
	}
	if b.Version == "" {
		b.Version = "0.0.0-dev"
	}
	return b
}

type versionCmd struct{}

func (versionCmd) Run(std *streams) error {
	b := thisBuild()
	if std.json {
		return std.value(b)
	}
	line := "parley " + b.Version
	if len(b.Commit) >= 12 {
		line += " (" + b.Commit[:12] + ")"
	}
	_, err := fmt.Fprintf(std.out, "%s %s %s\n", line, b.Go, b.Platform)
	return err
}

package program

import (
	"runtime"
	"runtime/debug"
)

// version is set by the linker for a release:
// -X parley/cmd/parley/program.version=1.2.3
var version = ""

// Build describes the binary, as `parley version --json` prints it.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ThisBuild describes the running binary. Without a version from the linker the
// version is 0.0.0-dev.
func ThisBuild() Build {
	b := Build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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

package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Name is this program as the user can type it in a shell. Printed commands
// begin with it.
var Name = programName(os.Args[0], exec.LookPath)

// programName returns the bare name if a shell finds this file under it, and
// otherwise the path by which the program was started, quoted if necessary.
func programName(started string, lookPath func(string) (string, error)) string {
	name := filepath.Base(started)
	if found, err := lookPath(name); err == nil && sameFile(found, started) {
		return name
	}
	if strings.ContainsAny(started, " \t'\"$&;()") {
		return "'" + strings.ReplaceAll(started, "'", `'\''`) + "'"
	}
	return started
}

// sameFile reports whether two paths lead to one file. A name without a slash was
// found on PATH by the shell, so it is the file that lookPath found.
func sameFile(found, started string) bool {
	if !strings.ContainsRune(started, filepath.Separator) {
		return true
	}
	a, errA := os.Stat(found)
	b, errB := os.Stat(started)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// Typed returns a command of this program as the user can type it: Typed("verify")
// is "parley verify".
func Typed(command string) string { return Name + " " + command }

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// program is this program as the user can type it: commands that are printed
// for the user begin with it.
var program = programName(os.Args[0], exec.LookPath)

// programName is the bare name where a shell finds this very file under it, and
// else the path that the program was started by.
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

// sameFile reports whether two paths lead to one file. A name without a slash
// was found by the shell, where lookPath looks too.
func sameFile(found, started string) bool {
	if !strings.ContainsRune(started, filepath.Separator) {
		return true
	}
	a, errA := os.Stat(found)
	b, errB := os.Stat(started)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// typed is a command of this program as the user can type it.
func typed(command string) string { return program + " " + command }

//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupTarget: a server writes backups only where no user other than its own and
// root could replace them.
func TestBackupTarget(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) string { return filepath.Join(append([]string{top}, names...)...) }
	dir := func(path string, mode fs.FileMode) {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, path string) {
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	dir(at("own"), 0o755)
	dir(at("open", "inner"), 0o755)
	dir(at("open"), 0o777)
	dir(at("group"), 0o775)
	dir(at("sticky", "mine"), 0o700)
	dir(at("sticky"), 0o777|fs.ModeSticky)
	link("own", at("link"))
	link(at("link"), at("link2"))
	link("/tmp/../"+strings.TrimPrefix(at("own"), "/"), at("round"))
	link("loop", at("loop"))
	link("../open", at("own", "out"))
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		to      string
		allowed []string
		real    string // the resolved path, if accepted
		says    string // the error, if rejected
	}{
		{at("own"), nil, at("own"), ""},
		{at("own", "new", "deep"), nil, at("own", "new", "deep"), ""},
		{at("own", "..", "own", "x"), nil, at("own", "x"), ""},
		{at("open"), nil, "", "others may write into"},
		{at("open", "inner"), nil, "", "others may write into"},
		{at("open", "new"), nil, "", "others may write into"},
		{at("group", "new"), nil, "", "others may write into"},
		{at("sticky"), nil, "", "others may write into"},
		{at("sticky", "mine"), nil, at("sticky", "mine"), ""},
		{at("sticky", "new"), nil, at("sticky", "new"), ""},
		{at("link"), nil, "", "is a symbolic link"},
		{at("link2"), nil, "", "is a symbolic link"},
		{at("link", "x"), nil, at("own", "x"), ""},
		{at("link2", "x"), nil, at("own", "x"), ""},
		{at("round", "x"), nil, at("own", "x"), ""},
		{at("loop", "x"), nil, "", "too many symbolic links"},
		{at("file"), nil, "", "is not a directory"},
		{at("file", "x"), nil, "", "is not a directory"},
		{at("own", "x"), []string{at("own")}, at("own", "x"), ""},
		{at("own"), []string{"/nowhere", at("own")}, at("own"), ""},
		{at("open", "inner", "x"), []string{at("open")}, at("open", "inner", "x"), ""},
		{at("owner"), []string{at("own")}, "", "--backup-dir"},
		{at("own", "..", "sticky", "new"), []string{at("own")}, "", "--backup-dir"},
		{at("own", "out", "x"), []string{at("own")}, "", "others may write into"},
		{at("own", "out", "..", "sticky", "new"), []string{at("own", "out")}, "", "--backup-dir"},
		{at("x"), []string{"/"}, at("x"), ""},
	} {
		real, err := BackupTarget(c.to, c.allowed)
		if real != c.real || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s below %q: %q, %v", c.to, c.allowed, real, err)
		}
	}
	link(at("sticky", "mine"), at("own", "aside"))
	if _, err := BackupTarget(at("own", "aside", "x"), []string{at("own")}); err == nil || !strings.Contains(err.Error(), "is outside of") {
		t.Errorf("a link leads outside: %v", err)
	}
}

// TestBackupTargetOfAnother: another user could replace a directory that belongs to them
// at any time.
func TestBackupTargetOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the owner of a directory")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "theirs")
	if err := os.MkdirAll(filepath.Join(theirs, "ours"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(theirs, 65533, 65533); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{theirs, filepath.Join(theirs, "ours"), filepath.Join(theirs, "new")} {
		if _, err := BackupTarget(path, nil); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := BackupTarget(filepath.Join(theirs, "new"), []string{theirs}); err != nil {
		t.Errorf("the operator allowed it: %v", err)
	}
}

package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// TestAppendsOfThisProcess: appends to a file, overwrites an older file that has a name
// of the store's logs, which are reused, and writes one with another name.
func TestAppendsOfThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports positions in files")
	}
	dir := t.TempDir()
	create := func(name string) *os.File {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 5000), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	write := func(file *os.File, n int) {
		if _, err := file.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	before := create("1.log")
	write(before, 700)
	a := FollowAppends(os.Getpid(), isLog)
	defer a.Close()
	write(before, 300)
	write(create("2.log"), 4000)
	write(create("2.sst"), 4000)
	if n, err := a.Bytes(); err != nil || n != 4300 {
		t.Errorf("%d bytes of 4300, %v", n, err)
	}
	time.Sleep(3 * appendsEvery)
	write(before, 50)
	time.Sleep(3 * appendsEvery) // so that it is seen before it is closed
	_ = before.Close()
	write(create("3.log"), 6000)
	if n, err := a.Bytes(); err != nil || n != 10350 {
		t.Errorf("%d bytes of 10350, %v", n, err)
	}
}

func TestAppendsByFakeTree(t *testing.T) {
	s := captured(t, map[string]string{"proc/7/fdinfo/3": "pos:\t100\nflags:\t02\n", "proc/7/fdinfo/4": "pos:\t9\n"})
	if err := os.MkdirAll(filepath.Join(s.root, "proc/7/fd"), 0o755); err != nil {
		t.Fatal(err)
	}
	for number, name := range map[int]string{3: "/data/000001.log", 4: "/data/LOCK"} {
		if err := os.Symlink(name, filepath.Join(s.root, fmt.Sprintf("proc/7/fd/%d", number))); err != nil {
			t.Fatal(err)
		}
	}
	a := s.followAppends(7, isLog)
	defer a.Close()
	if err := os.WriteFile(filepath.Join(s.root, "proc/7/fdinfo/3"), []byte("pos:\t164\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Bytes(); err != nil || n != 64 {
		t.Errorf("%d bytes of 64, %v", n, err)
	}
	gone := s.followAppends(8, isLog)
	defer gone.Close()
	if _, err := gone.Bytes(); err == nil {
		t.Error("a process that does not exist has written something")
	}
}

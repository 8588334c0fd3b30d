package secretfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"parley/client/secretfile"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "token")

	fmt.Println(secretfile.Create(path, []byte("first")))
	fmt.Println(errors.Is(secretfile.Create(path, []byte("second")), fs.ErrExist))
	fmt.Println(secretfile.Replace(path, []byte("third")))
	text, err := secretfile.Read(path)
	fmt.Println(string(text), err)
	// Output:
	// <nil>
	// true
	// <nil>
	// third <nil>
}

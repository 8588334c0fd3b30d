package keylog_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"

	"parley/client"
	"parley/client/keylog"
	"parley/client/parley"
)

// A client that is about to encrypt for an agent checks that the keys it got are the newest ones
// in the server's key log, and that this log continues the one it saw before.
func ExampleCheck() {
	check := func(ctx context.Context, c *client.Session, server, handle string) error {
		to, err := parley.ParseHandle(handle)
		if err != nil {
			return err
		}
		keys, err := c.Keys.Get(ctx, handle, "")
		if err != nil {
			return err
		}
		seen := keylog.OpenSeen("keys")
		before, err := seen.Find(server)
		if err != nil {
			return err
		}
		logged, err := keylog.Check(ctx, c, to, keys, before)
		if err != nil { // wraps ErrFork or ErrNotLogged if the server is not to be trusted
			return err
		}
		return seen.Remember(server, logged.Tree, false)
	}
	_ = check
}

// What was seen of a server's key log only grows.
func ExampleSeen() {
	dir, err := os.MkdirTemp("", "keys")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const server = "https://parley.example"
	seen := keylog.OpenSeen(dir)
	for _, size := range []uint64{3, 8, 5} {
		if err := seen.Remember(server, keylog.Tree{Origin: "parley.example/keys", Size: size, Root: base64.StdEncoding.EncodeToString(make([]byte, 32))}, false); err != nil {
			fmt.Println(err)
			return
		}
	}
	tree, err := seen.Find(server)
	fmt.Println(tree.Size, err)
	// Output: 8 <nil>
}

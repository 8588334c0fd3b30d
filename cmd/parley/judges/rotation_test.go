package judges

import (
	"path/filepath"
	"testing"
)

// TestRotation: clients and verifiers of other people over a rotation of the signing key.
func TestRotation(t *testing.T) {
	needNode(t)
	admin, data := freeAddress(t), filepath.Join(t.TempDir(), "data")
	base, binary := serveBinary(t, "--admin-listen", admin, "--data", data)
	binary, err := filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(node(t, "", "rotation.mjs", base, binary, "http://"+admin, data))
}

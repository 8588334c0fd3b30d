package judges

import (
	"flag"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// mlsWait bounds a judge of an MLS group: ts-mls needs half a minute of a processor for
// 50 members.
const mlsWait = 8 * time.Minute

var mlsAll = flag.Bool("mls.all", false, "in TestMLSGroups, all members but two stay away for the hundred epochs (a minute more)")

// TestMLSGroups: MLS groups of ts-mls over the server come to one state, whatever their
// members do at once, lose or miss; and a removed member reads nothing more.
func TestMLSGroups(t *testing.T) {
	buildMLSExample(t)
	for _, journals := range []string{"1", "4"} {
		for _, members := range []string{"3", "50"} {
			t.Run("journals="+journals+"/members="+members, func(t *testing.T) {
				t.Parallel()
				args := []string{"mlsgroup.mjs", "", members}
				if *mlsAll {
					args = append(args, "all")
				}
				args[1], _ = serveBinary(t, "--journals", journals)
				t.Log(nodeFor(t, mlsWait, nil, "", args...))
			})
		}
	}
}

// TestMLSForeign: members refuse leaves that are not of members, and the leaf of an erased
// agent locks nobody out.
func TestMLSForeign(t *testing.T) {
	buildMLSExample(t)
	t.Log(nodeFor(t, mlsWait, nil, "", "mlsforeign.mjs", serve(t)))
}

// TestMLSCrash: kill -9 in the middle of admissions loses nothing of an MLS group, and what
// is stored is sound.
func TestMLSCrash(t *testing.T) {
	buildMLSExample(t)
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, journals := range []string{"1", "4"} {
		t.Run("journals="+journals, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			t.Log(nodeFor(t, mlsWait, nil, "", "mlscrash.mjs", "http://"+freeAddress(t), binary, data, journals))
			verify := exec.Command(binary, "verify", "--data", data)
			verify.Env = withoutSettings(verify.Environ())
			if out, err := verify.CombinedOutput(); err != nil {
				t.Errorf("parley verify: %v\n%s", err, out)
			}
		})
	}
}

// freeAddress returns an address on which nobody listens, for a server that has to keep its
// address when it is started again.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

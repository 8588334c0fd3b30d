package nodes

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

var nodesAdmissions = flag.Int("nodes.admissions", 20, "in how many races of 20 solvers TestRegistrationTokensAdmitNoMore uses a registration token")

// TestRegistrationTokensAdmitNoMore: of 20 who solve challenges at three nodes at the same time, exactly as
// many are registered as their token has uses, and the others are told so.
func TestRegistrationTokensAdmitNoMore(t *testing.T) {
	kit.OneServerOnly(t, "it starts its own nodes")
	n := kit.StartNodes(t, 3, "--registration", "token")
	for race := range *nodesAdmissions {
		uses := 1 + race%3
		said, err := n.Node(race%3).Operate("registration", "token", "create", "--uses", fmt.Sprint(uses))
		if err != nil {
			t.Fatal(err, said)
		}
		token := strings.SplitN(said, "\n", 2)[0]
		var solved, refused atomic.Int64
		begin := make(chan struct{})
		var solvers sync.WaitGroup
		for i := range 20 {
			at := n.Node(i % 3)
			slug := kit.FreshSlug()
			body := at.Call(t, "", "POST", "/auth/register", kit.Obj{"email": "ops@" + slug + ".example", "org_slug": slug, "registration_token": token}).Want(201).Solution()
			solvers.Go(func() {
				<-begin
				switch a := at.Call(t, "", "POST", "/auth/register/solve", body); a.Status {
				case 201:
					solved.Add(1)
				case 403:
					refused.Add(1)
				default:
					t.Errorf("race %d: %d %s", race, a.Status, a.Body)
				}
			})
		}
		close(begin)
		solvers.Wait()
		if solved.Load() != int64(uses) || solved.Load()+refused.Load() != 20 {
			t.Errorf("race %d: a token of %d uses admitted %d, and %d were refused", race, uses, solved.Load(), refused.Load())
		}
	}
}

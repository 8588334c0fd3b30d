package api_test

import (
	"encoding/json"
	"fmt"

	"parley/client/api"
)

// A field of a patch that is not set is not sent; a cleared one is null.
func ExampleClearable() {
	body, _ := json.Marshal(api.GroupPatch{Description: api.SetTo("Friends of Acme")})
	fmt.Println(string(body))
	body, _ = json.Marshal(api.GroupPatch{Description: api.Cleared[string]()})
	fmt.Println(string(body))
	// Output:
	// {"description":"Friends of Acme"}
	// {"description":null}
}

package receipts_test

import (
	"encoding/json"
	"fmt"
	"os"

	"parley/client/api"
	"parley/client/receipts"
)

// A sender keeps the receipt of a message, and anyone can check it later with the keys of the
// server, GET /.well-known/receipt-keys.json.
func ExampleVerify() {
	var stored struct {
		Keys     api.SigningKeys `json:"jwks"`
		Receipts []struct {
			Payload string `json:"encrypted_payload"`
			Receipt string `json:"receipt"`
		} `json:"receipts"`
	}
	text, err := os.ReadFile("../api/testdata/receipt.json")
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	if err != nil {
		fmt.Println(err)
		return
	}

	receipt, err := receipts.Verify(stored.Receipts[0].Receipt, &stored.Keys)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*receipt.FromHandle, receipt.Position, receipt.Covers(stored.Receipts[0].Payload), receipt.Covers("another payload"))
	// Output: alice@acme.parley.example 1 true false
}

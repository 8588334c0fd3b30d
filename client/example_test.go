package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// serve starts a server that answers a few routes, in place of Parley.
func serve(routes map[string]any) *httptest.Server {
	routes["POST /oauth/token"] = api.Token{AccessToken: "token", TokenType: "Bearer", ExpiresIn: 900, Scope: "org"}
	mux := http.NewServeMux()
	for route, body := range routes {
		mux.HandleFunc(route, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if _, refused := body.(api.Error); refused {
				w.WriteHeader(http.StatusForbidden)
			}
			_ = json.NewEncoder(w).Encode(body)
		})
	}
	return httptest.NewServer(mux)
}

// Register solves the proof of work and returns credentials. The client with these
// credentials renews its tokens by itself.
func ExampleSession_Register() {
	server := serve(map[string]any{
		"POST /auth/register":       api.Challenge{ChallengeID: "id", Algorithm: "sha256-hashcash", Challenge: "00112233445566778899aabbccddeeff", Difficulty: 8},
		"POST /auth/register/solve": api.Credentials{ClientSecret: "secret"},
		"GET /org":                  api.Org{Name: "Acme", TrustTier: 1},
	})
	defer server.Close()
	ctx := context.Background()

	c, err := client.New(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	credentials, err := c.Register(ctx, api.Register{Email: "ops@acme.example", OrgSlug: "acme"})
	if err != nil {
		fmt.Println(err)
		return
	}
	org, err := c.Authenticated(*credentials).Org.Get(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(org.Name, org.TrustTier)
	// Output: Acme 1
}

// Send posts a ciphertext; All over Inbox reads what an agent received, page by page. A
// session (NewAgent, SendSealed, Listen) also encrypts and verifies.
func ExampleMessages_Send() {
	message := api.Message{Type: "svc.v1.dm", EncryptedPayload: "AQIDBAUGBwg", Status: "new", Metadata: api.Object("{}")}
	server := serve(map[string]any{
		"POST /messages":            message,
		"GET /agents/{id}/messages": api.Page[api.Message]{Items: []api.Message{message}},
	})
	defer server.Close()
	ctx := context.Background()

	c, err := client.New(server.URL, client.WithCredentials(client.Credentials{ClientSecret: "secret"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	to := "bob@globex.example"
	sent, err := c.Messages.Send(ctx, api.Send{ToHandle: &to, Type: c.MessageType("dm"), EncryptedPayload: "AQIDBAUGBwg"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("sent", sent.Type)
	for received, err := range client.All(ctx, c.Messages.Inbox, api.Inbox{ID: parley.AgentID{15: 1}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("received", received.EncryptedPayload, received.Status)
	}
	// Output:
	// sent svc.v1.dm
	// received AQIDBAUGBwg new
}

// Refusals of the server are errors that errors.Is compares with the package's codes.
func ExampleGroups_Create() {
	server := serve(map[string]any{
		"POST /groups":             api.GroupCreated{Group: api.Group{Handle: "#board@acme.example", EnrollmentPolicy: "closed"}},
		"POST /groups/{id}/invite": api.Error{Code: "not_admin", Detail: "Only an admin of the group may do this."},
	})
	defer server.Close()
	ctx := context.Background()

	c, err := client.New(server.URL, client.WithCredentials(client.Credentials{ClientSecret: "secret"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	group, err := c.Groups.Create(ctx, api.CreateGroup{Name: "board", ActingAgent: "ann"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(group.Handle, group.EnrollmentPolicy)

	bob := "bob@globex.example"
	_, err = c.Groups.Invite(ctx, api.Invite{ID: group.ID, ActingAgent: "eve", Handle: &bob})
	fmt.Println(errors.Is(err, client.NotAdmin))
	// Output:
	// #board@acme.example closed
	// true
}

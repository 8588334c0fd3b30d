// Command a2a holds the client of the A2A project's Go SDK against a server: it resolves
// the cards of agents and connects to them. It is a module of its own, so that neither the
// server nor its tests depend on the SDK.
//
//	go run . BASE-URL HANDLES
//	go run . -tasks TOKEN ENDPOINT
//
// The second form calls every method of an agent that `parley a2a echo` serves.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

const wait = 30 * time.Second

func main() {
	if len(os.Args) < 3 {
		fail(fmt.Errorf("usage: a2a BASE-URL HANDLES"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if os.Args[1] == "-tasks" && len(os.Args) == 4 {
		if err := judgeTasks(ctx, os.Args[3], os.Args[2]); err != nil {
			fail(err)
		}
		return
	}
	base := os.Args[1]
	for _, handle := range os.Args[2:] {
		card, err := judgeCard(ctx, base+"/a2a/"+handle)
		if err != nil {
			fail(fmt.Errorf("%s: %w", handle, err))
		}
		fmt.Printf("ok - a2a-go resolves the card of %s, version %s, and connects\n", handle, card.Version)
	}
	if _, err := resolver.Resolve(ctx, base+"/a2a/nobody@nowhere.localhost"); err == nil {
		fail(fmt.Errorf("there is a card of an agent that does not exist"))
	}
	fmt.Println("ok - a2a-go is told that an unknown agent has no card")
	if _, err := agentcard.DefaultResolver.Resolve(ctx, base+"/a2a/"+os.Args[2]); err == nil {
		fail(fmt.Errorf("the parser of a2a-go reads security requirements now: parser.go is no longer needed"))
	}
}

// judgeCard resolves the card of the agent at an endpoint and checks what a client needs
// of it. The SDK has no verifier of signatures.
func judgeCard(ctx context.Context, endpoint string) (*a2a.AgentCard, error) {
	card, err := resolver.Resolve(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	switch scheme := card.SecuritySchemes["oauth"].(type) {
	case a2a.OAuth2SecurityScheme:
		flow, ok := scheme.Flows.(a2a.ClientCredentialsOAuthFlow)
		if !ok || flow.TokenURL == "" || flow.Scopes["org"] == "" || flow.Scopes["agents"] == "" {
			return nil, fmt.Errorf("its OAuth flow is %#v", scheme.Flows)
		}
	default:
		return nil, fmt.Errorf("its OAuth scheme is %#v", scheme)
	}
	if _, ok := card.SecuritySchemes["bearer"].(a2a.HTTPAuthSecurityScheme); !ok {
		return nil, fmt.Errorf("its bearer scheme is %#v", card.SecuritySchemes["bearer"])
	}
	can := card.Capabilities
	switch {
	case len(card.SupportedInterfaces) != 1 || card.SupportedInterfaces[0].URL != endpoint ||
		card.SupportedInterfaces[0].ProtocolBinding != a2a.TransportProtocolJSONRPC || card.SupportedInterfaces[0].ProtocolVersion != a2a.Version:
		return nil, fmt.Errorf("it has other interfaces than %s: %+v", endpoint, card.SupportedInterfaces)
	case fmt.Sprint(card.SecurityRequirements) != "[map[oauth:[org]] map[oauth:[agents]]]":
		return nil, fmt.Errorf("it requires %v", card.SecurityRequirements)
	case !can.Streaming || !can.PushNotifications || !can.ExtendedAgentCard || len(can.Extensions) != 1 || can.Extensions[0].Required:
		return nil, fmt.Errorf("its capabilities are %+v", can)
	case card.Name == "" || card.Description == "" || len(card.Skills) == 0 || len(card.DefaultInputModes) == 0 || len(card.DefaultOutputModes) == 0 || len(card.Signatures) != 1:
		return nil, fmt.Errorf("it lacks a required member: %+v", card)
	}
	client, err := a2aclient.NewFromCard(ctx, card)
	if err != nil {
		return nil, err
	}
	return card, client.Destroy()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

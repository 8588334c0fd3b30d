// Command ogencall calls a server with the client that ogen generates.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/ogen-go/ogen/ogenerrors"

	"parley/judges/generated/ogen"
)

func main() {
	if err := call(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// token is an access token.
type token string

func (token) Basic(context.Context, ogen.OperationName) (ogen.Basic, error) {
	return ogen.Basic{}, ogenerrors.ErrSkipClientSecurity
}

func (t token) Bearer(context.Context, ogen.OperationName) (ogen.Bearer, error) {
	return ogen.Bearer{Token: string(t)}, nil
}

func (token) OAuth2(context.Context, ogen.OperationName) (ogen.OAuth2, error) {
	return ogen.OAuth2{}, ogenerrors.ErrSkipClientSecurity
}

func call(ctx context.Context, base, secret, id string) error {
	client, err := ogen.NewClient(base, token(secret))
	if err != nil {
		return err
	}
	answer, err := client.GetAgent(ctx, ogen.GetAgentParams{ID: id})
	if err != nil {
		return err
	}
	agent, ok := answer.(*ogen.AgentHeaders)
	if !ok || agent.Response.ID.String() != id || agent.Response.Name != "generated" || agent.XRequestID.Value == "" {
		return fmt.Errorf("GetAgent: %+v", answer)
	}
	fmt.Println("ok - ogen: the agent is read with a token")
	answer, err = client.GetAgent(ctx, ogen.GetAgentParams{ID: "00000000-0000-7000-8000-000000000000"})
	if err != nil {
		return err
	}
	if unknown, ok := answer.(*ogen.NotFoundHeaders); !ok || unknown.Response.Code != ogen.NotFoundCodeNotFound {
		return fmt.Errorf("GetAgent of an unknown id: %+v", answer)
	}
	refused, err := client.CallA2A(ctx, &ogen.A2ARequest{Jsonrpc: ogen.A2ARequestJsonrpc20, ID: ogen.NewIntA2ARequestID(1), Method: "GetTask"}, ogen.CallA2AParams{Handle: "nobody"})
	if err != nil {
		return err
	}
	if none, ok := refused.(*ogen.A2ANotFoundHeaders); !ok || none.Response.Error.Code != -32000 || none.Response.Error.Data[0].Reason.Value != "NOT_FOUND" {
		return fmt.Errorf("CallA2A: %+v", refused)
	}
	fmt.Println("ok - ogen: refusals are read, those of the A2A bridge as JSON-RPC")
	return nil
}

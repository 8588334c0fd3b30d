// Command oapicall calls a server with the client that oapi-codegen generates.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"parley/judges/generated/oapi"
)

func main() {
	if err := call(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func call(ctx context.Context, base, token, id string) error {
	client, err := oapi.NewClientWithResponses(base, oapi.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	if err != nil {
		return err
	}
	agent, err := client.GetAgentWithResponse(ctx, id)
	if err != nil {
		return err
	}
	if agent.JSON200 == nil || agent.JSON200.Id.String() != id || agent.JSON200.Name != "generated" {
		return fmt.Errorf("GetAgent: %s: %s", agent.Status(), agent.Body)
	}
	fmt.Println("ok - oapi-codegen: the agent is read with a token")
	unknown, err := client.GetAgentWithResponse(ctx, "00000000-0000-7000-8000-000000000000")
	if err != nil {
		return err
	}
	if unknown.JSON404 == nil || unknown.JSON404.Code != oapi.NotFoundCodeNotFound || unknown.JSON404.RequestId == "" {
		return fmt.Errorf("GetAgent of an unknown id: %s: %s", unknown.Status(), unknown.Body)
	}
	request := oapi.A2ARequest{Jsonrpc: oapi.A2ARequestJsonrpcN20, Id: &oapi.A2ARequest_Id{}, Method: "GetTask"}
	if err := request.Id.FromA2ARequestId0("one"); err != nil {
		return err
	}
	version := "1.0"
	refused, err := client.CallA2AWithResponse(ctx, "nobody", &oapi.CallA2AParams{A2AVersion: &version, A2AVersionQuery: &version}, request)
	if err != nil {
		return err
	}
	if refused.JSON404 == nil || refused.JSON404.Id != nil || refused.JSON404.Error.Code != -32000 || *(*refused.JSON404.Error.Data)[0].Reason != "NOT_FOUND" {
		return fmt.Errorf("CallA2A: %s: %s", refused.Status(), refused.Body)
	}
	fmt.Println("ok - oapi-codegen: refusals are read, those of the A2A bridge as JSON-RPC")
	return nil
}

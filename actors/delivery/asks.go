package delivery

import "parley/actors/webhook"

// AskTypes returns samples of the types that the actors of webhooks are asked and answer, as
// actors.AskTypes does.
func AskTypes() []any {
	return []any{
		CreateWebhook{},
		(*webhook.State)(nil),
		webhook.Toggle{},
		webhook.Rotate{},
		webhook.Redirect{},
		webhook.Delete{},
		jobRequest{},
		webhook.Test{},
		webhook.Retry{},
		attemptedJob{},
	}
}

package rest

import (
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// The toy types have every kind of field.

type toyKey struct {
	Curve string `json:"crv" required:"true" enum:"Ed25519,X25519"`
	X     string `json:"x" required:"true" minLength:"3" maxLength:"3"`
}

type toyMember struct {
	Handle string `json:"handle" required:"true" maxLength:"5"`
	Note   string `json:"note"`
}

type toyTarget struct {
	ToAgentID *parley.AgentID `json:"to_agent_id"`
	ToHandle  *string         `json:"to_handle" description:"The recipient's handle."`
}

type toyIn struct {
	toyTarget
	ID      parley.AgentID         `json:"-" path:"id" required:"true"`
	Limit   int                    `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
	Deep    *bool                  `json:"-" query:"deep"`
	Tags    []string               `json:"-" query:"tag" maxLength:"4"`
	IDs     []parley.OrgID         `json:"-" query:"ids" split:"true" maxItems:"3"`
	Since   *api.Time              `json:"-" query:"since"`
	At      *time.Time             `json:"-" query:"at"`
	Order   string                 `json:"-" query:"order" default:"asc" enum:"asc,desc"`
	Key     string                 `json:"-" header:"Idempotency-Key" maxLength:"8"`
	Agent   string                 `json:"-" header:"X-Svc-Agent"`
	Type    string                 `json:"type" required:"true" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+){2,}$" words:"three segments or more" maxLength:"30"`
	Payload string                 `json:"payload" maxLength:"16" pattern:"^[A-Za-z0-9_-]+={0,2}$"`
	Title   *string                `json:"title" minLength:"2" maxLength:"4"`
	Version string                 `json:"version" default:"hpke-v1" enum:"hpke-v1,sender-key-v1,none"`
	Hours   *int                   `json:"hours" minimum:"1" maximum:"72"`
	Count   int64                  `json:"count"`
	Human   *bool                  `json:"human" default:"true"`
	Parent  *parley.ConversationID `json:"parent"`
	Meta    api.Object             `json:"meta" maxBytes:"16"`
	Proofs  api.Array              `json:"proofs"`
	Curve   *toyKey                `json:"signing_public_key"`
	JWK     *api.JWK               `json:"jwk"`
	Members []toyMember            `json:"members" maxItems:"3"`
	Words   []string               `json:"words" minLength:"2"`
	Email   api.Clearable[string]  `json:"email" format:"email" maxLength:"20"`
	When    *string                `json:"when" format:"date-time"`
	Vote    *string                `json:"vote" aliases:"choice,decision" enum:"approve,deny"`
}

func (in *toyIn) Check() []FieldError {
	if in.ToAgentID != nil && in.ToHandle != nil {
		return []FieldError{{Loc: []any{"body", "to_handle"}, Msg: "Value error, exactly one of to_agent_id and to_handle", Type: "value_error"}}
	}
	return nil
}

type toyClosed struct {
	_    struct{} `additionalProperties:"false"`
	Name string   `json:"name" required:"true"`
	Note *string  `json:"note" aliases:"remark"`
}

type toyForm struct {
	_     struct{} `form:"true"`
	Grant string   `json:"grant_type" default:"client_credentials"`
	Size  int      `json:"size" maximum:"9"`
	Tags  []string `json:"tags"`
}

type toyThing struct {
	ID   parley.AgentID `json:"id" path:"id"`
	Name string         `json:"name,omitzero"`
}

type toyAnswer struct {
	ID     parley.AgentID `json:"id"`
	Caller string         `json:"caller"`
	Limit  int            `json:"limit"`
	Note   *string        `json:"note"`
	code   int
}

func (a toyAnswer) Status() int { return max(a.code, 200) }

func toyRoutes() []Route {
	return []Route{
		Typed("GET", "/things/{id}", Read, 200, "Show a thing.", func(*Call, *toyThing) (toyAnswer, error) { return toyAnswer{}, nil }),
		RenderedAs[toyThing]("POST", "/things", Tier1, 201, "Make a thing.", func(*Call, *toyClosed) (Rendered, error) { return Rendered{}, nil }),
		Typed("POST", "/bind/{id}", Public, 200, "Take everything.", func(*Call, *toyIn) (api.Nothing, error) { return api.Nothing{}, nil }),
		Typed("POST", "/token", Basic, 200, "Give a token.", func(_ *Call, in *toyForm) (*toyForm, error) { return in, nil }),
		Typed("DELETE", "/things/{id}", Act, 204, "Remove a thing.", func(*Call, *toyThing) (NoContent, error) { return NoContent{}, nil }),
		Stream("GET", "/stream/{id}", Read, "Stream.", func(*Call, *toyThing) error { return nil }),
		Raw("GET", "/slow", Public, "text/plain", "Wait.", func(*Call, *struct{}) error { return nil }),
	}
}

package rest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

const toyID = "0190a6b0-0000-7000-8000-000000000001"

// bindOnce binds a request to an In struct without a server.
func bindOnce[In any](t testing.TB, path map[string]string, query, body string, headers map[string]string) (*In, error) {
	t.Helper()
	p, err := newPlan(reflect.TypeFor[In](), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.SetRequestURI("/x?" + query)
	ctx.Request.SetBodyString(body)
	for name, value := range headers {
		ctx.Request.Header.Set(name, value)
	}
	for name, value := range path {
		ctx.SetUserValue(name, value)
	}
	in := new(In)
	return in, p.bind(&Call{ctx: ctx}, reflect.ValueOf(in).Elem())
}

func faultsOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	schema, ok := err.(*SchemaError)
	if !ok {
		return err.Error()
	}
	var lines []string
	for _, f := range schema.Faults {
		loc, err := json.Marshal(f.Loc)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", loc, f.Type, f.Msg))
	}
	return strings.Join(lines, "\n")
}

func TestBindFaults(t *testing.T) {
	deep := strings.Repeat("[", 33) + strings.Repeat("]", 33)
	for name, c := range map[string]struct {
		path, query, body string
		headers           map[string]string
		want              string
	}{
		"nothing wrong":                     {body: `{"type":"a.b.c"}`},
		"missing":                           {body: `{}`, want: `["body","type"] missing: Field required`},
		"empty body":                        {body: ``, want: `["body","type"] missing: Field required`},
		"null is absent":                    {body: `{"type":null,"title":null,"hours":null}`, want: `["body","type"] missing: Field required`},
		"null body":                         {body: `null`, want: `["body","type"] missing: Field required`},
		"not an object":                     {body: `[]`, want: `["body"] dict_type: Input should be a valid dictionary`},
		"string type":                       {body: `{"type":5}`, want: `["body","type"] string_type: Input should be a valid string`},
		"string type of array":              {body: `{"type":[1]}`, want: `["body","type"] string_type: Input should be a valid string`},
		"pattern":                           {body: `{"type":"a.b"}`, want: `["body","type"] string_pattern_mismatch: String should be three segments or more`},
		"payload pattern":                   {body: `{"type":"a.b.c","payload":"a===" }`, want: `["body","payload"] string_pattern_mismatch: String should match pattern '^[A-Za-z0-9_-]+={0,2}$'`},
		"payload empty":                     {body: `{"type":"a.b.c","payload":"" }`, want: `["body","payload"] string_pattern_mismatch: String should match pattern '^[A-Za-z0-9_-]+={0,2}$'`},
		"payload padded":                    {body: `{"type":"a.b.c","payload":"YQ==" }`},
		"too long":                          {body: `{"type":"a.b.c","title":"abcde"}`, want: `["body","title"] string_too_long: String should have at most 4 characters`},
		"code points, not bytes":            {body: `{"type":"a.b.c","title":"äöü😀"}`},
		"escapes count once":                {body: `{"type":"a.b.c","title":"\u00e4\ud83d\ude00bc"}`},
		"too short":                         {body: `{"type":"a.b.c","title":"ä"}`, want: `["body","title"] string_too_short: String should have at least 2 characters`},
		"enum":                              {body: `{"type":"a.b.c","version":"x"}`, want: `["body","version"] enum: Input should be 'hpke-v1', 'sender-key-v1' or 'none'`},
		"bool parsing":                      {body: `{"type":"a.b.c","human":"true"}`, want: `["body","human"] bool_parsing: Input should be a valid boolean, unable to interpret input`},
		"bool type":                         {body: `{"type":"a.b.c","human":{}}`, want: `["body","human"] bool_type: Input should be a valid boolean`},
		"int type":                          {body: `{"type":"a.b.c","hours":true}`, want: `["body","hours"] int_type: Input should be a valid integer`},
		"int parsing":                       {body: `{"type":"a.b.c","hours":"five"}`, want: `["body","hours"] int_parsing: Input should be a valid integer, unable to parse string as an integer`},
		"int fraction":                      {body: `{"type":"a.b.c","hours":1.5}`, want: `["body","hours"] int_from_float: Input should be a valid integer, got a number with a fractional part`},
		"int whole":                         {body: `{"type":"a.b.c","hours":1.0e1}`},
		"int low":                           {body: `{"type":"a.b.c","hours":0}`, want: `["body","hours"] greater_than_equal: Input should be greater than or equal to 1`},
		"int high":                          {body: `{"type":"a.b.c","hours":73}`, want: `["body","hours"] less_than_equal: Input should be less than or equal to 72`},
		"int huge":                          {body: `{"type":"a.b.c","hours":99999999999999999999}`, want: `["body","hours"] less_than_equal: Input should be less than or equal to 72`},
		"int huge float":                    {body: `{"type":"a.b.c","hours":-1e400}`, want: `["body","hours"] greater_than_equal: Input should be greater than or equal to 1`},
		"int too large":                     {body: `{"type":"a.b.c","count":99999999999999999999}`, want: `["body","count"] int_parsing_size: Unable to parse input string as an integer, exceeded maximum size`},
		"uuid":                              {body: `{"type":"a.b.c","parent":"x"}`, want: `["body","parent"] uuid_parsing: Input should be a valid UUID, 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12`},
		"uuid type":                         {body: `{"type":"a.b.c","parent":7}`, want: `["body","parent"] uuid_type: UUID input should be a string`},
		"object":                            {body: `{"type":"a.b.c","meta":[]}`, want: `["body","meta"] dict_type: Input should be a valid dictionary`},
		"array":                             {body: `{"type":"a.b.c","proofs":{}}`, want: `["body","proofs"] list_type: Input should be a valid list`},
		"object bytes":                      {body: `{"type":"a.b.c","meta":{"a":  "12345678901"}}`, want: `["body","meta"] value_error: Value error, should have at most 16 bytes of compact JSON`},
		"object bytes compact":              {body: `{"type":"a.b.c","meta":{"a":        "12345678"}}`},
		"nested missing":                    {body: `{"type":"a.b.c","signing_public_key":{"crv":"Ed25519"}}`, want: `["body","signing_public_key","x"] missing: Field required`},
		"nested enum":                       {body: `{"type":"a.b.c","signing_public_key":{"crv":"P","x":"abc"}}`, want: `["body","signing_public_key","crv"] enum: Input should be 'Ed25519' or 'X25519'`},
		"nested not object":                 {body: `{"type":"a.b.c","signing_public_key":"abc"}`, want: `["body","signing_public_key"] dict_type: Input should be a valid dictionary`},
		"struct reading itself":             {body: `{"type":"a.b.c","jwk":{"kty":"OKP","crv":"X25519","x":"short"}}`, want: `["body","jwk","x"] string_too_short: String should have at least 43 characters`},
		"struct reading itself, other case": {body: `{"type":"a.b.c","jwk":{"kty":"OKP","crv":"X25519","X":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}`, want: `["body","jwk","x"] missing: Field required; you sent 'X', did you mean 'x'?`},
		"struct reading itself, other type": {body: `{"type":"a.b.c","jwk":{"kty":"OKP","crv":"X25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","kid":5}}`},
		"list of structs":                   {body: `{"type":"a.b.c","members":[{"handle":"a"},{},{"handle":"abcdef"}]}`, want: `["body","members",1,"handle"] missing: Field required` + "\n" + `["body","members",2,"handle"] string_too_long: String should have at most 5 characters`},
		"list not list":                     {body: `{"type":"a.b.c","members":{}}`, want: `["body","members"] list_type: Input should be a valid list`},
		"list item":                         {body: `{"type":"a.b.c","members":[3]}`, want: `["body","members",0] dict_type: Input should be a valid dictionary`},
		"list item null":                    {body: `{"type":"a.b.c","members":[null]}`, want: `["body","members",0] dict_type: Input should be a valid dictionary`},
		"list too long":                     {body: `{"type":"a.b.c","members":[{"handle":"a"},{"handle":"a"},{"handle":"a"},7]}`, want: `["body","members"] too_long: List should have at most 3 items after validation, not 4`},
		"list of strings":                   {body: `{"type":"a.b.c","words":["ab",1,"c"]}`, want: `["body","words",1] string_type: Input should be a valid string` + "\n" + `["body","words",2] string_too_short: String should have at least 2 characters`},
		"email":                             {body: `{"type":"a.b.c","email":"nobody"}`, want: `["body","email"] value_error: value is not a valid email address: it should be something@something`},
		"email type":                        {body: `{"type":"a.b.c","email":1}`, want: `["body","email"] string_type: Input should be a valid string`},
		"date-time":                         {body: `{"type":"a.b.c","when":"yesterday"}`, want: `["body","when"] datetime_parsing: Input should be a valid datetime`},
		"alias":                             {body: `{"type":"a.b.c","decision":"maybe"}`, want: `["body","decision"] enum: Input should be 'approve' or 'deny'`},
		"own name over alias":               {body: `{"type":"a.b.c","vote":"deny","choice":"maybe"}`},
		"own name after alias":              {body: `{"type":"a.b.c","choice":"maybe","vote":"deny"}`},
		"null name, then alias":             {body: `{"type":"a.b.c","vote":null,"choice":"maybe"}`, want: `["body","choice"] enum: Input should be 'approve' or 'deny'`},
		"across fields":                     {body: `{"type":"a.b.c","to_handle":"x","to_agent_id":"y"}`, want: `["body","to_agent_id"] uuid_parsing: Input should be a valid UUID, 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12` + "\n" + `["body","to_handle"] value_error: Value error, exactly one of to_agent_id and to_handle`},
		"unknown ignored":                   {body: `{"type":"a.b.c","other":{"a":[1,2,{"b":null}]}}`},

		"broken":            {body: `{"type":`, want: `["body"] json_invalid: Invalid JSON: unexpected EOF at byte 8`},
		"trailing":          {body: `{"type":"a.b.c"} x`, want: `["body"] json_invalid: Invalid JSON: invalid character 'x' after top-level value at byte 17`},
		"duplicate":         {body: `{"type":"a.b.c","type":"a.b.c"}`, want: `["body"] json_invalid: Invalid JSON: a member name occurs twice`},
		"nested duplicate":  {body: `{"type":"a.b.c","meta":{"a":1,"a":2}}`, want: `["body"] json_invalid: Invalid JSON: a member name occurs twice`},
		"unknown duplicate": {body: `{"type":"a.b.c","o":{"a":1,"a":2}}`, want: `["body"] json_invalid: Invalid JSON: a member name occurs twice`},
		"invalid UTF-8":     {body: "{\"type\":\"a.b.c\",\"title\":\"\xff\xfe\"}", want: `["body"] json_invalid: Invalid JSON: invalid UTF-8 at byte 25`},
		"lone surrogate":    {body: `{"type":"a.b.c","title":"\ud800"}`, want: "["},
		"too deep unknown":  {body: `{"type":"a.b.c","o":` + deep + `}`, want: `["body"] json_invalid: Invalid JSON: nested deeper than 32 levels`},
		"too deep object":   {body: `{"type":"a.b.c","meta":{"a":` + deep + `}}`, want: `["body"] json_invalid: Invalid JSON: nested deeper than 32 levels`},
		"deep enough":       {body: `{"type":"a.b.c","o":` + deep[1:32] + deep[33:64] + `}`},

		"path uuid":          {path: "nope", body: `{"type":"a.b.c"}`, want: `["path","id"] uuid_parsing: Input should be a handle, such as name@org.domain, or a valid UUID`},
		"path slash":         {path: "a%2fb", body: `{"type":"a.b.c"}`, want: `["path","id"] uuid_parsing: Input should be a handle, such as name@org.domain, or a valid UUID`},
		"path NUL":           {path: "a%00b", body: `{"type":"a.b.c"}`, want: `["path","id"] uuid_parsing: Input should be a handle, such as name@org.domain, or a valid UUID`},
		"path UTF-8":         {path: "%ff", body: `{"type":"a.b.c"}`, want: "not_found: There is no such resource."},
		"path encoding":      {path: "%4", body: `{"type":"a.b.c"}`, want: "not_found: There is no such resource."},
		"query low":          {query: "limit=0", body: `{"type":"a.b.c"}`, want: `["query","limit"] greater_than_equal: Input should be greater than or equal to 1`},
		"query high":         {query: "limit=101", body: `{"type":"a.b.c"}`, want: `["query","limit"] less_than_equal: Input should be less than or equal to 100`},
		"query int":          {query: "limit=ten", body: `{"type":"a.b.c"}`, want: `["query","limit"] int_parsing: Input should be a valid integer, unable to parse string as an integer`},
		"query empty limit":  {query: "limit=", body: `{"type":"a.b.c"}`},
		"query unknown":      {query: "limt=5", body: `{"type":"a.b.c"}`},
		"query bool":         {query: "deep=perhaps", body: `{"type":"a.b.c"}`, want: `["query","deep"] bool_parsing: Input should be a valid boolean, unable to interpret input`},
		"query encoding":     {query: "order=%zz", body: `{"type":"a.b.c"}`, want: `["query","order"] value_error: Value error, percent-encoding or UTF-8 is invalid`},
		"query UTF-8":        {query: "order=%ff", body: `{"type":"a.b.c"}`, want: `["query","order"] value_error: Value error, percent-encoding or UTF-8 is invalid`},
		"query enum":         {query: "order=up", body: `{"type":"a.b.c"}`, want: `["query","order"] enum: Input should be 'asc' or 'desc'`},
		"query list item":    {query: "tag=a&tag=abcde", body: `{"type":"a.b.c"}`, want: `["query","tag",1] string_too_long: String should have at most 4 characters`},
		"query list uuid":    {query: "ids=" + toyID + ",x", body: `{"type":"a.b.c"}`, want: `["query","ids",1] uuid_parsing: Input should be a valid UUID, 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12`},
		"query list long":    {query: "ids=a,b&ids=c,d", body: `{"type":"a.b.c"}`, want: `["query","ids"] too_long: List should have at most 3 items after validation, not 4`},
		"query time":         {query: "since=soon", body: `{"type":"a.b.c"}`, want: `["query","since"] datetime_parsing: Input should be a valid datetime`},
		"header long":        {body: `{"type":"a.b.c"}`, headers: map[string]string{"Idempotency-Key": "123456789"}, want: `["header","idempotency-key"] string_too_long: String should have at most 8 characters`},
		"header UTF-8":       {body: `{"type":"a.b.c"}`, headers: map[string]string{"Idempotency-Key": "\xff"}, want: `["header","idempotency-key"] value_error: Value error, percent-encoding or UTF-8 is invalid`},
		"everything at once": {path: "x", query: "limit=0", body: `{"title":"a"}`, headers: map[string]string{"Idempotency-Key": "123456789"}, want: `["path","id"] uuid_parsing: Input should be a handle, such as name@org.domain, or a valid UUID` + "\n" + `["query","limit"] greater_than_equal: Input should be greater than or equal to 1` + "\n" + `["header","idempotency-key"] string_too_long: String should have at most 8 characters` + "\n" + `["body","title"] string_too_short: String should have at least 2 characters` + "\n" + `["body","type"] missing: Field required`},
		"text media":         {body: `{"type":"a.b.c"}`, headers: map[string]string{"Content-Type": "text/plain"}, want: "unsupported_media_type: The body must be application/json."},
		"form media":         {body: `type=a.b.c`, headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, want: "unsupported_media_type: The body must be application/json."},
		"compressed":         {body: `{"type":"a.b.c"}`, headers: map[string]string{"Content-Encoding": "gzip"}, want: "unsupported_media_type: The body must not be compressed."},
		"not compressed":     {body: `{"type":"a.b.c"}`, headers: map[string]string{"Content-Encoding": "Identity"}},
		"json media":         {body: `{"type":"a.b.c"}`, headers: map[string]string{"Content-Type": "Application/JSON; charset=utf-8"}},
		"suffix media":       {body: `{"type":"a.b.c"}`, headers: map[string]string{"Content-Type": "application/problem+json"}},
		"media of no body":   {body: " \n", headers: map[string]string{"Content-Type": "text/plain"}, want: `["body","type"] missing: Field required`},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.path
			if path == "" {
				path = toyID
			}
			_, err := bindOnce[toyIn](t, map[string]string{"id": path}, c.query, c.body, c.headers)
			if got := faultsOf(t, err); got != c.want && (c.want != "[" || !strings.HasPrefix(got, `["body"] json_invalid: `)) {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

func TestBindValues(t *testing.T) {
	in, err := bindOnce[toyIn](t, map[string]string{"id": strings.ToUpper(toyID)},
		"limit=7&limit=9&deep=yes&tag=a&tag=b,c&ids="+toyID+"%2C"+toyID+"&since=2026-11-20T10:00:00+02:00&at=2026-11-20&order=desc",
		`{"type":"a.b.c","title":"a\"\u00e4","hours":3.0,"count":-5,"human":false,"meta":{"k" : [1, 2]},"proofs":[ 1 ],"signing_public_key":{"crv":"X25519","x":"abc","d":"!"},
		"members":[{"handle":"m","note":"n"},{"handle":"o"}],"words":["ab"],"email":null,"when":"2026-11-20","choice":"approve","decision":"deny","to_handle":"h",
		"jwk":{"kty":"OKP","crv":"X25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","d":"AAAA"}}`,
		map[string]string{"X-Acme-Agent": "me", "Idempotency-Key": "k"})
	if err != nil {
		t.Fatal(faultsOf(t, err))
	}
	for what, pair := range map[string][2]any{
		"path": {in.ID.String(), toyID}, "last of a scalar": {in.Limit, 9}, "bool": {*in.Deep, true},
		"list without split": {strings.Join(in.Tags, "|"), "a|b,c"}, "list with split": {len(in.IDs), 2},
		"a plus read as a space": {in.Since.String(), "2026-11-20T08:00:00.000000Z"}, "date only": {in.At.Format("2006-01-02T15:04:05Z07:00"), "2026-11-20T00:00:00Z"},
		"branded header": {in.Agent, "me"}, "header": {in.Key, "k"}, "escapes": {*in.Title, "a\"ä"}, "whole float": {*in.Hours, 3}, "int64": {in.Count, int64(-5)},
		"false": {*in.Human, false}, "raw object is compact": {string(in.Meta), `{"k":[1,2]}`}, "raw array": {string(in.Proofs), `[1]`},
		"nested": {in.Curve.X, "abc"}, "list of structs": {fmt.Sprint(in.Members), "[{m n} {o }]"}, "cleared": {in.Email.Set && in.Email.Null, true},
		"best alias": {*in.Vote, "approve"}, "default": {in.Version, "hpke-v1"}, "embedded": {*in.ToHandle, "h"}, "not sent": {in.ToAgentID == nil && in.Parent == nil, true},
		"a struct that reads itself": {in.JWK.Private(), true},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %v, want %v", what, pair[0], pair[1])
		}
	}
	bare, err := bindOnce[toyIn](t, map[string]string{"id": toyID}, "", `{"type":"a.b.c","email":"a@b"}`, nil)
	if err != nil {
		t.Fatal(faultsOf(t, err))
	}
	if bare.Limit != 20 || bare.Order != "asc" || !*bare.Human || bare.Email.Null || bare.Email.Value != "a@b" || bare.Meta != nil {
		t.Errorf("defaults: %+v", bare)
	}
	*bare.Human = false
	if again, _ := bindOnce[toyIn](t, map[string]string{"id": toyID}, "", `{"type":"a.b.c"}`, nil); !*again.Human || again.Email.Set {
		t.Error("one request changed the default of another")
	}
}

func TestBindClosed(t *testing.T) {
	_, err := bindOnce[toyClosed](t, nil, "", `{"name":"a","Name":"b","remark":"r","x\u0079":{"deep":[1]}}`, nil)
	want := `["body","Name"] extra_forbidden: Extra inputs are not permitted` + "\n" + `["body","xy"] extra_forbidden: Extra inputs are not permitted`
	if got := faultsOf(t, err); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestUnknownNames: lists refuse unknown names in the query, and a PATCH refuses a body of
// which it knows no member.
func TestUnknownNames(t *testing.T) {
	type list struct {
		Limit  *int    `query:"limit" minimum:"1" maximum:"100"`
		Cursor *string `query:"cursor"`
		Type   *string `query:"type" aliases:"kind"`
	}
	type page struct {
		Items []string `json:"items"`
	}
	type change struct {
		Name  *string `json:"name"`
		About *string `json:"about"`
	}
	nothing := func(*Call, *list) (page, error) { return page{}, nil }
	routes := map[string]Route{
		"page":     Typed("GET", "/x", Public, 200, "", nothing),
		"array":    Typed("GET", "/x", Public, 200, "", func(*Call, *list) ([]string, error) { return nil, nil }),
		"either":   RenderedAs[ArrayOrPage[string]]("GET", "/x", Public, 200, "", func(*Call, *list) (Rendered, error) { return Rendered{}, nil }),
		"single":   Typed("GET", "/x", Public, 200, "", func(*Call, *list) (change, error) { return change{}, nil }),
		"stream":   Stream("GET", "/x", Public, "", func(*Call, *list) error { return nil }),
		"download": Download("/x", "text/plain", "", func(*Call, *list) error { return nil }),
		"POST":     Typed("POST", "/x", Public, 200, "", nothing),
		"PATCH":    Typed("PATCH", "/x", Public, 200, "", func(*Call, *change) (change, error) { return change{}, nil }),
	}
	const unlike = "; accepted are limit, cursor, type"
	for _, c := range []struct{ route, query, body, want string }{
		{route: "page", query: "limit=5&cursor=x&kind=a&_=17&utm_source=y"},
		{route: "page", query: "limit=&cursor="},
		{route: "page", query: "limit=%20", want: `["query","limit"] int_parsing: Input should be a valid integer, unable to parse string as an integer`},
		{route: "page", query: "limt=2", want: `["query","limt"] extra_forbidden: Extra inputs are not permitted; you sent 'limt', did you mean 'limit'?`},
		{route: "array", query: "offset=20", want: `["query","offset"] extra_forbidden: Extra inputs are not permitted` + unlike},
		{route: "either", query: "Limit=2", want: `["query","Limit"] extra_forbidden: Extra inputs are not permitted; you sent 'Limit', did you mean 'limit'?`},
		{route: "single", query: "limt=2"},
		{route: "stream", query: "limt=2"},
		{route: "download", query: "limt=2"},
		{route: "POST", query: "limt=2"},
		{route: "PATCH", query: "limt=2"},
		{route: "PATCH", body: `{}`},
		{route: "PATCH", body: `null`},
		{route: "PATCH", body: `{"name":null,"nmae":"x"}`},
		{route: "PATCH", body: `{"about":"x","other":1}`},
		{route: "PATCH", body: `{"nmae":"x","o":{"name":1}}`, want: `["body","nmae"] extra_forbidden: Extra inputs are not permitted; you sent 'nmae', did you mean 'name'?` + "\n" + `["body","o"] extra_forbidden: Extra inputs are not permitted; accepted are name, about`},
		{route: "POST", body: `{"nmae":"x"}`},
	} {
		r := routes[c.route]
		if err := r.Prepare("Acme"); err != nil {
			t.Fatal(err)
		}
		ctx := &fasthttp.RequestCtx{}
		ctx.Request.SetRequestURI("/x?" + c.query)
		ctx.Request.SetBodyString(c.body)
		if got := faultsOf(t, r.plan.bind(&Call{ctx: ctx}, reflect.New(r.in).Elem())); got != c.want {
			t.Errorf("%s ?%s %s: got\n%s\nwant\n%s", c.route, c.query, c.body, got, c.want)
		}
	}
}

func TestBindForm(t *testing.T) {
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	in, err := bindOnce[toyForm](t, nil, "", "size=3&tags=a+b%26&other=1", form)
	if err != nil || in.Size != 3 || strings.Join(in.Tags, "|") != "a b&" || in.Grant != "client_credentials" {
		t.Errorf("%+v %v", in, err)
	}
	_, err = bindOnce[toyForm](t, nil, "", "size=10&grant_type=%f", form)
	want := `["body","grant_type"] value_error: Value error, percent-encoding or UTF-8 is invalid` + "\n" + `["body","size"] less_than_equal: Input should be less than or equal to 9`
	if got := faultsOf(t, err); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for _, twice := range []string{"size=3&size=3", "tags=a&tags=b", "size=3&other=1&other=1"} {
		_, err = bindOnce[toyForm](t, nil, "", twice, form)
		if got := faultsOf(t, err); got != `["body"] value_error: Value error, a parameter occurs twice` {
			t.Errorf("%s: %s", twice, got)
		}
	}
	if in, err := bindOnce[toyForm](t, nil, "", `{"grant_type":"x"}`, nil); err != nil || in.Grant != "x" {
		t.Errorf("a form as JSON: %+v %v", in, err)
	}
}

// TestBindCopies overwrites the buffers that the engine reuses.
func TestBindCopies(t *testing.T) {
	p, err := newPlan(reflect.TypeFor[toyIn](), "Svc")
	if err != nil {
		t.Fatal(err)
	}
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.SetRequestURI("/x?order=desc&tag=tagg")
	ctx.Request.SetBodyString(`{"type":"a.b.c","title":"abcd","meta":{"k":"v"},"words":["wwww"]}`)
	ctx.Request.Header.Set("Idempotency-Key", "kkkk")
	ctx.SetUserValue("id", toyID)
	in := new(toyIn)
	if err := p.bind(&Call{ctx: ctx}, reflect.ValueOf(in).Elem()); err != nil {
		t.Fatal(faultsOf(t, err))
	}
	for _, buffer := range [][]byte{ctx.Request.Body(), ctx.URI().QueryString(), ctx.Request.Header.Peek("Idempotency-Key")} {
		for i := range buffer {
			buffer[i] = '#'
		}
	}
	if got := fmt.Sprint(in.Type, *in.Title, string(in.Meta), in.Words, in.Order, in.Tags, in.Key); got != `a.b.cabcd{"k":"v"}[wwww]desc[tagg]kkkk` {
		t.Errorf("bound values share the engine's buffers: %s", got)
	}
}

func TestPlanRefuses(t *testing.T) {
	for name, in := range map[string]any{
		"a bad default": struct {
			A int `query:"a" default:"x"`
		}{},
		"a default outside its bounds": struct {
			A int `query:"a" default:"9" maximum:"5"`
		}{},
		"two members of one name": struct {
			A int `json:"a" aliases:"b"`
			B int `json:"b"`
		}{},
		"an object in a query": struct {
			A toyKey `query:"a"`
		}{},
		"an object in a form": struct {
			_ struct{} `form:"true"`
			A toyKey   `json:"a"`
		}{},
		"a number that is none": struct {
			A string `json:"a" maxLength:"x"`
		}{},
		"a channel": struct {
			A chan int `json:"a"`
		}{},
		"what is no struct": 5,
	} {
		if _, err := newPlan(reflect.TypeOf(in), "Svc"); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

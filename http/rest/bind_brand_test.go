package rest

import (
	"strings"
	"testing"
)

// toyExtension has a number and a map of texts.
type toyExtension struct {
	Percent *float64          `json:"percent" minimum:"0" maximum:"100"`
	Schemas map[string]string `json:"schemas" maxItems:"2" minLength:"1" maxLength:"4"`
	Flat    float64           `json:"flat"`
}

// toyBranded has a member with the name of the brand.
type toyBranded struct {
	Name      string        `json:"name" required:"true"`
	Extension *toyExtension `json:"svc" brand:"true"`
}

func (in *toyBranded) Check() []FieldError {
	if in.Extension != nil && len(in.Extension.Schemas) == 1 {
		return []FieldError{{Loc: []any{"body", "svc", "schemas"}, Msg: "Value error, one", Type: FaultValue}}
	}
	return nil
}

// toyTaken has a member whose name is a brand.
type toyTaken struct {
	Name      string   `json:"acme"`
	Extension struct{} `json:"svc" brand:"true"`
}

func TestBindNumbersAndMaps(t *testing.T) {
	for body, want := range map[string]string{
		`{"percent":0}`:                               "",
		`{"percent":99.95}`:                           "",
		`{"percent":1e2}`:                             "",
		`{"percent":null}`:                            "",
		`{"percent":100.5}`:                           `["body","acme","percent"] less_than_equal: Input should be less than or equal to 100`,
		`{"percent":-0.1}`:                            `["body","acme","percent"] greater_than_equal: Input should be greater than or equal to 0`,
		`{"percent":"9"}`:                             `["body","acme","percent"] float_parsing: Input should be a valid number, unable to parse string as a number`,
		`{"percent":true}`:                            `["body","acme","percent"] float_type: Input should be a valid number`,
		`{"percent":[]}`:                              `["body","acme","percent"] float_type: Input should be a valid number`,
		`{"percent":1e999}`:                           `["body","acme","percent"] finite_number: Input should be a finite number`,
		`{"schemas":{}}`:                              "",
		`{"schemas":{"a":"b","c":"d"}}`:               "",
		`{"schemas":{"a":"b"}}`:                       `["body","acme","schemas"] value_error: Value error, one`,
		`{"schemas":{"a":"b","c":7}}`:                 `["body","acme","schemas","c"] string_type: Input should be a valid string`,
		`{"schemas":{"a":"b","c":null}}`:              `["body","acme","schemas","c"] string_type: Input should be a valid string`,
		`{"schemas":{"a":"b","c":{"d":[1]}}}`:         `["body","acme","schemas","c"] string_type: Input should be a valid string`,
		`{"schemas":{"a":"abcde","\u0062":""}}`:       `["body","acme","schemas","a"] string_too_long: String should have at most 4 characters` + "\n" + `["body","acme","schemas","b"] string_too_short: String should have at least 1 character`,
		`{"schemas":{"a":"b","c":"d","e":"f","g":7}}`: `["body","acme","schemas"] too_long: Dictionary should have at most 2 items after validation, not 4`,
		`{"schemas":{"a":"b","a":"c"}}`:               `["body"] json_invalid: Invalid JSON: a member name occurs twice`,
		`{"schemas":["a"]}`:                           `["body","acme","schemas"] dict_type: Input should be a valid dictionary`,
		`{"schemas":"a"}`:                             `["body","acme","schemas"] dict_type: Input should be a valid dictionary`,
		`{"schemas":{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}`: `["body"] json_invalid: Invalid JSON: nested deeper than 32 levels`,
		`{"flat":2.5}`: "",
	} {
		in, err := bindOnce[toyBranded](t, nil, "", `{"name":"n","acme":`+body+`,"svc":{"percent":"ignored"}}`, nil)
		if got := faultsOf(t, err); got != want {
			t.Errorf("%s:\n got %s\nwant %s", body, got, want)
		}
		if body == `{"percent":99.95}` && (in.Extension == nil || *in.Extension.Percent != 99.95) || body == `{"flat":2.5}` && in.Extension.Flat != 2.5 {
			t.Errorf("%s was read as %+v", body, in.Extension)
		}
		if body == `{"schemas":{"a":"b","c":"d"}}` && (len(in.Extension.Schemas) != 2 || in.Extension.Schemas["c"] != "d") {
			t.Errorf("%s was read as %v", body, in.Extension.Schemas)
		}
	}
	if in, err := bindOnce[toyBranded](t, nil, "", `{"name":"n","acme":null}`, nil); err != nil || in.Extension != nil {
		t.Errorf("null was read as %v, %v", in.Extension, err)
	}
}

// TestBrandInDocument checks that the document describes a branded member under the
// placeholder of the brand, in requests and in answers.
func TestBrandInDocument(t *testing.T) {
	document := documentOf(t, []Route{Typed("PUT", "/x", Public, 200, "Put.", func(*Call, *toyBranded) (toyBranded, error) { return toyBranded{}, nil })})
	for _, schema := range []string{"ToyBranded", "ToyBrandedInput"} {
		properties := at(t, document, "components", "schemas", schema, "properties").(map[string]any)
		if properties[brandWord] == nil || properties["svc"] != nil {
			t.Errorf("%s has the properties %v", schema, properties)
		}
	}
	extension := at(t, document, "components", "schemas", "ToyExtensionInput", "properties")
	if at(t, extension, "schemas", "maxProperties") != 2.0 || at(t, extension, "schemas", "additionalProperties", "maxLength") != 4.0 || at(t, extension, "percent", "maximum") != 100.0 {
		t.Errorf("the extension has the properties %v", extension)
	}
	taken := Typed("PUT", "/x", Public, 200, "Put.", func(*Call, *toyTaken) (NoContent, error) { return NoContent{}, nil })
	if err := taken.Prepare("Acme"); err == nil || !strings.Contains(err.Error(), "name of another member") {
		t.Errorf("a brand that is another member's name: %v", err)
	}
}

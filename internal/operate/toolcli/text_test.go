package toolcli

import (
	"encoding/json"
	"strings"
	"testing"

	"lilac/internal/serve/toolwire"
)

// The fields are those of a tool of a server in Python: with references, and alternatives that may be
// null.
func TestHelpShowsTheFieldsOfObjects(t *testing.T) {
	input := `{"$defs":{"Opt":{"type":"object","properties":{
		"level":{"enum":["low","high"],"type":"string"},"extra":{"anyOf":[{"additionalProperties":true,"type":"object"},{"type":"null"}]}},"required":["level"]}},
		"type":"object","properties":{"options":{"anyOf":[{"$ref":"#/$defs/Opt"},{"type":"null"}],"description":"How\nto keep it."},"any":{"title":"Any"},
		"many":{"type":"array","items":{"$ref":"#/$defs/Opt"}},"tags":{"type":["array","null"],"items":{"type":"string"}},"maxSize":{"type":["integer","null"]}},"required":["tags"]}`
	want := `
Fields:
  --any (any)
  --many (array of object)
      extra (object)
      level (string: low, high; needed)
  --max-size (integer)
  --options (object)  How to keep it.
      extra (object)
      level (string: low, high; needed)
  --tags (array of string; needed)
`
	if got := helpText(toolwire.Help{Input: json.RawMessage(input)}); !strings.Contains(got, want) {
		t.Errorf("the help is %s\nwant %s", got, want)
	}
}

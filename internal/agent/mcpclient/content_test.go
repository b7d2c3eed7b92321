package mcpclient

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The forms are those of the SDKs for TypeScript and Python.
func TestAResultIsNotSaidTwice(t *testing.T) {
	picture := &mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"}
	said := func(texts ...string) (out []mcp.Content) {
		for _, text := range texts {
			out = append(out, &mcp.TextContent{Text: text})
		}
		return out
	}
	for name, c := range map[string]struct {
		content    []mcp.Content
		structured string
		texts      int
		kept       string
	}{
		"a text alone":                {said("a"), ``, 1, ``},
		"an object and its JSON":      {said(`{"n": 1}`), `{"n":1}`, 0, `{"n":1}`},
		"an object and another text":  {said("one"), `{"n":1}`, 1, `{"n":1}`},
		"a wrapped text":              {said("a\nb"), `{"result":"a\nb"}`, 1, ``},
		"a text of a file":            {said("hey"), `{"content":"hey"}`, 1, ``},
		"a wrapped number":            {said("5"), `{"result":5}`, 0, `{"result":5}`},
		"a wrapped list of texts":     {said("a", "b"), `{"result":["a","b"]}`, 0, `{"result":["a","b"]}`},
		"a wrapped list of objects":   {said(`{"n":1}`, `{"n": 2}`), `{"result":[{"n":1},{"n":2}]}`, 0, `{"result":[{"n":1},{"n":2}]}`},
		"a wrapped list, differently": {said("a", "c"), `{"result":["a","b"]}`, 2, `{"result":["a","b"]}`},
		"an empty list":               {nil, `{"result":[]}`, 0, `{"result":[]}`},
		"more than a wrapped text":    {said("a"), `{"more":1,"result":"a"}`, 1, `{"more":1,"result":"a"}`},
		"a picture":                   {append(said("a"), picture), `{"result":"a"}`, 2, `{"result":"a"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := &mcp.CallToolResult{Content: c.content}
			if c.structured != "" {
				r.StructuredContent = json.RawMessage(c.structured)
			}
			got, err := readResult("s", r)
			if err != nil || len(got.Content) != c.texts {
				t.Errorf("%d parts stay, want %d: %+v, %v", len(got.Content), c.texts, got.Content, err)
			}
			if diff := cmp.Diff(c.kept, string(got.Structured)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Servers put the details of an error into the structured result, and only a summary into the text.
func TestAnErrorKeepsItsStructuredResult(t *testing.T) {
	failed := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "compile error"}}, StructuredContent: map[string]any{"line": 121}}
	if _, err := readResult("s", failed); err == nil || !strings.HasSuffix(err.Error(), "compile error\n{\"line\":121}") {
		t.Errorf("the error is %v", err)
	}
}

// The official SDK for TypeScript refuses a whole list because of one of these schemas.
func TestEverySchemaOfAnInputIsOneOfAnObject(t *testing.T) {
	for given, want := range map[string]string{
		`null`: `{"type":"object"}`, `true`: `{"type":"object"}`, `{}`: `{"type":"object"}`, `{"type":["object","null"]}`: `{"type":"object"}`,
		`{"type":"object","properties":[],"required":null}`:                      `{"type":"object"}`,
		`{"type":"object","properties":null,"required":["a",1]}`:                 `{"type":"object"}`,
		`{"properties":{"a":true,"b":{"type":"string"}},"required":["b"]}`:       `{"properties":{"a":{},"b":{"type":"string"}},"required":["b"],"type":"object"}`,
		`{"anyOf":[{"type":"object"},{"type":"null"}],"$defs":{"x":{"type":1}}}`: `{"$defs":{"x":{"type":1}},"anyOf":[{"type":"object"},{"type":"null"}],"type":"object"}`,
	} {
		var schema any
		if err := json.Unmarshal([]byte(given), &schema); err != nil {
			t.Fatal(err)
		}
		got, err := readTool(&mcp.Tool{Name: "x", InputSchema: schema})
		if err != nil || string(got.Schema) != want {
			t.Errorf("%s: %s, %v, want %s", given, got.Schema, err, want)
		}
	}
}

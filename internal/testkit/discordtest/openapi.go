package discordtest

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compressedDescription is Discord's OpenAPI description; see testdata/README.md.
//
//go:embed testdata/discord-openapi.json.gz
var compressedDescription []byte

// undocumented lists the operations that the description does not contain.
var undocumented = map[string]bool{"POST /attachments/refresh-urls": true}

// apiDescription validates calls and responses against Discord's OpenAPI description. It
// compiles each schema on first use.
type apiDescription struct {
	paths map[string]map[string]operation

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// operation is the part of an OpenAPI operation that the fake checks.
type operation struct {
	Parameters []struct {
		Name     string `json:"name"`
		In       string `json:"in"`
		Required bool   `json:"required"`
	} `json:"parameters"`
	RequestBody *struct {
		Content  map[string]json.RawMessage `json:"content"`
		Required bool                       `json:"required"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]json.RawMessage `json:"content"`
		Ref     string                     `json:"$ref"`
	} `json:"responses"`
}

// discordAPI loads the description once per process.
var discordAPI = sync.OnceValue(func() *apiDescription {
	d, err := loadDescription(compressedDescription)
	if err != nil {
		panic("discordtest: load the OpenAPI description: " + err.Error()) // the description is embedded, so it always loads
	}
	return d
})

const descriptionURL = "discord.json"

func loadDescription(compressed []byte) (*apiDescription, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(unzipped)
	if err != nil {
		return nil, err
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	d := &apiDescription{paths: map[string]map[string]operation{}, compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	for path, operations := range document.Paths {
		d.paths[path] = map[string]operation{}
		for method, raw := range operations {
			var o operation
			if method == "parameters" {
				continue
			}
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			d.paths[path][method] = o
		}
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	return d, d.compiler.AddResource(descriptionURL, whole)
}

// find returns the operation for a method and path. Literal segments take precedence over
// parameters.
func (d *apiDescription) find(method, path string) (template string, o operation, found bool) {
	segments, best := strings.Split(path, "/"), -1
	for candidate, operations := range d.paths {
		parts := strings.Split(candidate, "/")
		at, ok := operations[strings.ToLower(method)]
		if !ok || len(parts) != len(segments) {
			continue
		}
		literal := 0
		for i, part := range parts {
			switch {
			case part == segments[i]:
				literal++
			case !strings.HasPrefix(part, "{"):
				literal = -len(parts)
			}
		}
		if literal > best {
			template, o, found, best = candidate, at, true, literal
		}
	}
	return template, o, found
}

// checkRequest returns an error that says how a call differs from the description.
func (d *apiDescription) checkRequest(method, path string, query url.Values, contentType string, body []byte) error {
	template, o, found := d.find(method, path)
	if !found {
		return fmt.Errorf("the description has no such operation")
	}
	known := map[string]bool{}
	for _, p := range o.Parameters {
		known[p.Name] = true
		if p.In == "query" && p.Required && !query.Has(p.Name) {
			return fmt.Errorf("the query parameter %q is missing", p.Name)
		}
	}
	for name := range query {
		if !known[name] {
			return fmt.Errorf("the query parameter %q is unknown", name)
		}
	}
	if o.RequestBody == nil || len(body) == 0 {
		if o.RequestBody != nil && o.RequestBody.Required {
			return fmt.Errorf("the body is missing")
		}
		return nil
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	if _, ok := o.RequestBody.Content[kind]; !ok {
		return fmt.Errorf("the content type %q is not accepted", contentType)
	}
	// The payload_json field of a form has the schema of a JSON body.
	return d.validate(pointer("paths", template, strings.ToLower(method), "requestBody", "content", "application/json", "schema"), body)
}

// checkResponse returns an error that says how a response differs from the description.
func (d *apiDescription) checkResponse(method, path string, status int, body any) error {
	template, o, found := d.find(method, path)
	if !found {
		return nil // checkRequest reports it
	}
	key := strconv.Itoa(status)
	if _, ok := o.Responses[key]; !ok {
		key = key[:1] + "XX"
	}
	response, ok := o.Responses[key]
	if !ok {
		if status >= 500 {
			return nil // the description does not cover outages
		}
		return fmt.Errorf("the status %d is not described", status)
	}
	if refused, ok := body.(object); ok && refused["code"] == OldEdits.Code && response.Ref != "" {
		// This 429 is not a rate limit and has no retry_after.
		response = o.Responses["4XX"]
	}
	if refused, ok := body.(object); ok && status >= 400 {
		// The description types the codes of nested errors as integers. Discord sends
		// strings, as its documentation shows ("API Reference", error messages).
		refused = maps.Clone(refused)
		delete(refused, "errors")
		body = refused
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	// The description lacks the type of a forward (Message Resource, "Message Reference
	// Types").
	data = forwardType.ReplaceAll(data, []byte(`${1}0}`))
	if response.Ref != "" {
		return d.validate(response.Ref+"/content/application~1json/schema", data)
	}
	if _, ok := response.Content["application/json"]; !ok {
		if body != nil {
			return fmt.Errorf("the status %d has no body", status)
		}
		return nil
	}
	return d.validate(pointer("paths", template, strings.ToLower(method), "responses", key, "content", "application/json", "schema"), data)
}

// forwardType matches the end of the reference of a forward.
var forwardType = regexp.MustCompile(`("message_reference":\{[^{}]*"type":)1\}`)

// validate checks JSON against the schema at a JSON pointer.
func (d *apiDescription) validate(at string, data []byte) error {
	d.mu.Lock()
	schema, ok := d.compiled[at]
	if !ok {
		var err error
		if schema, err = d.compiler.Compile(descriptionURL + at); err != nil {
			d.mu.Unlock()
			return err
		}
		d.compiled[at] = schema
	}
	d.mu.Unlock()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// pointer joins parts into a JSON pointer in fragment form.
func pointer(parts ...string) string {
	var b strings.Builder
	b.WriteString("#")
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(strings.ReplaceAll(strings.ReplaceAll(p, "~", "~0"), "/", "~1")))
	}
	return b.String()
}

// checkCall says how a call differs from the description, whatever comes of it; "" if it does
// not.
func (c *call) checkCall() string {
	if undocumented[c.route] {
		return ""
	}
	contentType, body := c.r.Header.Get("Content-Type"), c.body
	if kind, params, _ := mime.ParseMediaType(contentType); kind == "multipart/form-data" {
		body, _, _ = readForm(c.body, params["boundary"]) // a form that cannot be read has no body
	}
	if err := discordAPI().checkRequest(c.r.Method, strings.TrimPrefix(c.r.URL.Path, apiPrefix), c.query(), contentType, body); err != nil {
		return fmt.Sprintf("%s: the call does not match Discord's OpenAPI description: %v\n%s", c.route, err, body)
	}
	return ""
}

// checkAnswer says how an answer of the fake differs from the description.
func (c *call) checkAnswer(a answer) string {
	if undocumented[c.route] {
		return ""
	}
	if err := discordAPI().checkResponse(c.r.Method, strings.TrimPrefix(c.r.URL.Path, apiPrefix), a.status, a.body); err != nil {
		return fmt.Sprintf("%s: the fake's response %d does not match Discord's OpenAPI description: %v", c.route, a.status, err)
	}
	return ""
}

package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/health"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
)

// object is a JSON object of the document.
type object = map[string]any

// components are the types that the document describes once, under these names.
var components = map[string]reflect.Type{
	"Accepted":   reflect.TypeFor[accepted](),
	"Attachment": reflect.TypeFor[promptAttachment](),
	"BusEvent":   reflect.TypeFor[busEvent](),
	"DeadLetter": reflect.TypeFor[bus.DeadLetter](),
	"EnvEvent":   reflect.TypeFor[event.EnvEvent](),
	"Error":      reflect.TypeFor[errorBody](),
	"Event":      reflect.TypeFor[event.Event](),
	"File":       reflect.TypeFor[sessionFile](),
	"Group":      reflect.TypeFor[group](),
	"NewEvent":   reflect.TypeFor[newEvent](),
	"HealthPart": reflect.TypeFor[health.Part](),
	"Pause":      reflect.TypeFor[session.Pause](),
	"Prompt":     reflect.TypeFor[promptBody](),
	"Request":    reflect.TypeFor[listedRequest](),
	"Rule":       reflect.TypeFor[ruleStatus](),
	"Session":    reflect.TypeFor[session.Session](),
	"Story":      reflect.TypeFor[session.Story](),
	"Task":       reflect.TypeFor[task.Task](),
	"Usage":      reflect.TypeFor[chat.Usage](),
	"Workflow":   reflect.TypeFor[dueWorkflow](),
}

// requests are the components that clients send; unknown fields are refused.
var requestComponents = []string{"Attachment", "NewEvent", "Prompt"}

// special are the schemas of types that encode themselves as JSON, and of strings
// with a fixed set of values.
var special = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage]():     {Description: "Any JSON value."},
	reflect.TypeFor[event.EnvMetadata]():   {Type: "object"},
	reflect.TypeFor[event.Queue]():         enum("prompt", "steer", "followUp", "interrupt"),
	reflect.TypeFor[event.RequestState]():  enum("queued", "running", "streaming", "done", "failed", "cancelled", "damaged"),
	reflect.TypeFor[session.Answer]():      enum("continue", "stop", "once", "always", "no", "reply"),
	reflect.TypeFor[health.Status]():       enum("ok", "warning", "failed"),
	reflect.TypeFor[task.State]():          enum("running", "completed", "failed", "timeout", "stopped", "damaged"),
	reflect.TypeFor[task.Kind]():           enum("command", "agent"),
	reflect.TypeFor[task.Actor]():          enum("agent", "person"),
	reflect.TypeFor[workflow.Completion](): enum("all", "any"),
	reflect.TypeFor[bus.Mode]():            enum("work", "fanout"),
	reflect.TypeFor[fault.Kind]():          {Type: "string"},
}

func enum(values ...any) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Enum: values} }

// describe generates the OpenAPI document of the routes. The types of the
// endpoints give the schemas; notes add what a Go type cannot say.
func describe(routes []route) ([]byte, error) {
	paths := object{}
	for _, r := range routes {
		operation, err := describeRoute(r)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", r.pattern(), err)
		}
		methods, _ := paths[r.path].(object)
		if methods == nil {
			methods = object{}
			paths[r.path] = methods
		}
		methods[strings.ToLower(r.method)] = operation
	}
	schemas := object{"Message": json.RawMessage(messageSchema)}
	for name, t := range components {
		schema, err := schemaOf(t, slices.Contains(requestComponents, name))
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		if err := annotate(name, schema); err != nil {
			return nil, err
		}
		schemas[name] = schema
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Lilac", "version": "1",
			"description": "Conversations, the event stream, and operations. Times are Unix milliseconds.",
		},
		"security": []object{{"bearer": []string{}}, {"cookie": []string{}}},
		"paths":    paths,
		"components": object{
			"schemas": schemas,
			"responses": object{
				"Error": object{"description": "The error.", "content": jsonContent(ref("Error"))},
			},
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer"},
				"cookie": object{
					"type": "apiKey", "in": "cookie", "name": "lilac_token_00000000",
					"description": "The page's cookie. The last part of its name depends on the token.",
				},
			},
		},
	}, "", " ")
}

func describeRoute(r route) (object, error) {
	success := object{"description": r.result}
	switch {
	case r.media != "":
		success["content"] = object{r.media: object{"schema": object{"type": "string"}}}
	case r.response != nil:
		schema, err := schemaOf(r.response, false)
		if err != nil {
			return nil, err
		}
		if err := annotate(r.response.Name(), schema); err != nil {
			return nil, err
		}
		success["content"] = jsonContent(schema)
	}
	responses := object{fmt.Sprint(r.status): success, "default": object{"$ref": "#/components/responses/Error"}}
	for _, other := range r.others {
		schema, err := schemaOf(other.body, false)
		if err != nil {
			return nil, err
		}
		responses[fmt.Sprint(other.status)] = object{"description": other.result, "content": jsonContent(schema)}
	}
	operation := object{"summary": r.summary, "responses": responses}
	if r.description != "" {
		operation["description"] = r.description
	}
	if r.class == public || r.class == signed || r.class == loginLink {
		operation["security"] = []object{}
	}
	if params := describeParams(r); len(params) > 0 {
		operation["parameters"] = params
	}
	if r.request != nil {
		schema, err := schemaOf(r.request, true)
		if err != nil {
			return nil, err
		}
		if err := annotate(r.request.Name(), schema); err != nil {
			return nil, err
		}
		operation["requestBody"] = object{"required": !r.optionalBody, "content": jsonContent(schema)}
	}
	return operation, nil
}

// describeParams lists the path segments in braces and the declared parameters.
func describeParams(r route) (out []object) {
	for segment := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			out = append(out, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	for _, p := range r.params {
		in := p.in
		if in == "" {
			in = "query"
		}
		one := object{"name": p.name, "in": in, "description": p.doc, "schema": json.RawMessage(p.schema)}
		if p.required {
			one["required"] = true
		}
		out = append(out, one)
	}
	return out
}

func jsonContent(schema any) object { return object{"application/json": object{"schema": schema}} }

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// schemaOf generates the schema of a type. Components within it are references.
// Clients must ignore fields of responses that they do not know, so only request
// bodies (strict) refuse additional properties.
func schemaOf(t reflect.Type, strict bool) (object, error) {
	known := maps.Clone(special)
	for name, component := range components {
		if component == t {
			continue
		}
		known[component] = &jsonschema.Schema{Ref: "#/components/schemas/" + name}
	}
	// A field list that embeds another type is flat, as in JSON.
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			if f := t.Field(i); f.Anonymous {
				delete(known, f.Type)
			}
		}
	}
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	out := object{}
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	normalize(out, strict)
	return out, nil
}

// normalize removes what holds for a Go type but not for the API: responses may
// get new fields, and lists and optional values are absent or empty, never null.
func normalize(schema object, strict bool) {
	if closed, ok := schema["additionalProperties"].(bool); ok && !closed && !strict {
		delete(schema, "additionalProperties")
	}
	if types, ok := schema["type"].([]any); ok {
		types = slices.DeleteFunc(types, func(t any) bool { return t == "null" })
		if len(types) == 1 {
			schema["type"] = types[0]
		}
	}
	if _, isRef := schema["$ref"]; isRef {
		delete(schema, "type")
	}
	for _, v := range schema {
		switch v := v.(type) {
		case object:
			normalize(v, strict)
		case []any:
			for _, one := range v {
				if o, ok := one.(object); ok {
					normalize(o, strict)
				}
			}
		}
	}
}

// annotate adds the notes about a type to its schema.
func annotate(name string, schema object) error {
	properties, _ := schema["properties"].(object)
	for property, note := range notes[name] {
		target := schema
		if property != "" {
			target, _ = properties[property].(object)
		}
		if target == nil {
			return fmt.Errorf("note about %s.%s: there is no such property", name, property)
		}
		if err := json.Unmarshal([]byte("{"+note+"}"), &target); err != nil { // merges
			return fmt.Errorf("note about %s.%s: %w", name, property, err)
		}
	}
	return nil
}

// Document returns the OpenAPI document of all routes, for generators of documentation. A
// server returns it at GET /openapi.json.
func Document() ([]byte, error) {
	var o Options
	o.setDefaults()
	return describe(newAPI(o).routes())
}

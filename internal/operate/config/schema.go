package config

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON Schema of the configuration file, including defaults.
func Schema() (*jsonschema.Schema, error) {
	text := func(pattern string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Pattern: pattern}
	}
	schema, err := jsonschema.For[Config](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Duration](): text(`^([0-9.]+(ns|us|ms|s|m|h))+$|^0$`),
		reflect.TypeFor[Secret]():   text(""),
		reflect.TypeFor[Size]():     text(`^[0-9]+(KiB|MiB|GiB)?$`),
		reflect.TypeFor[BusURL]():   text(""),
		reflect.TypeFor[EventTypes](): {
			OneOf: []*jsonschema.Schema{text(""), {Type: "array", Items: text("")}},
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("infer schema: %w", err)
	}
	schema.Schema = "https://json-schema.org/draft/2020-12/schema"
	schema.Title = "Lilac configuration"
	d := Default()
	for _, f := range []struct {
		path  []string
		value any
		enum  []any
	}{
		{[]string{"addr"}, d.Addr, nil},
		{[]string{"dataDir"}, d.DataDir, nil},
		{[]string{"workspace"}, d.Workspace, nil},
		{[]string{"bus", "url"}, d.Bus.URL, nil},
		{[]string{"bus", "prefix"}, d.Bus.Prefix, nil},
		{[]string{"limits", "request", "steps"}, d.Limits.Request.Steps, nil},
		{[]string{"limits", "request", "tokens"}, d.Limits.Request.Tokens, nil},
		{[]string{"limits", "request", "time"}, d.Limits.Request.Time, nil},
		{[]string{"limits", "day", "tokens"}, d.Limits.Day.Tokens, nil},
		{[]string{"limits", "timeZone"}, d.Limits.TimeZone, nil},
		{[]string{"limits", "wait"}, d.Limits.Wait, nil},
		{[]string{"limits", "tool"}, d.Limits.Tool, nil},
		{[]string{"limits", "answer", "text"}, d.Limits.Answer.Text, nil},
		{[]string{"limits", "answer", "thinking"}, d.Limits.Answer.Thinking, nil},
		{[]string{"limits", "answer", "arguments"}, d.Limits.Answer.Arguments, nil},
		{[]string{"limits", "repeats"}, d.Limits.Repeats, nil},
		{[]string{"compactAt"}, d.CompactAt, nil},
		{[]string{"sandbox", "mode"}, d.Sandbox.Mode, []any{SandboxAuto, SandboxBubblewrap, SandboxNamespaces, SandboxOff}},
		{[]string{"sandbox", "network", "connections"}, d.Sandbox.Network.Connections, nil},
		{[]string{"sandbox", "network", "bytes"}, d.Sandbox.Network.Bytes, nil},
		{[]string{"sandbox", "limits", "memory"}, d.Sandbox.Limits.Memory, nil},
		{[]string{"sandbox", "limits", "processes"}, d.Sandbox.Limits.Processes, nil},
		{[]string{"sandbox", "limits", "disk"}, d.Sandbox.Limits.Disk, nil},
		{[]string{"sandbox", "limits", "tmp"}, d.Sandbox.Limits.Tmp, nil},
		{[]string{"sandbox", "limits", "output"}, d.Sandbox.Limits.Output, nil},
		{[]string{"sandbox", "limits", "time"}, d.Sandbox.Limits.Time, nil},
		{[]string{"tasks", "perSession"}, d.Tasks.PerSession, nil},
		{[]string{"tasks", "total"}, d.Tasks.Total, nil},
		{[]string{"tasks", "time"}, d.Tasks.Time, nil},
		{[]string{"tasks", "maxTime"}, d.Tasks.MaxTime, nil},
		{[]string{"tasks", "output"}, d.Tasks.Output, nil},
		{[]string{"tasks", "keep"}, d.Tasks.Keep, nil},
		{[]string{"surface", "discord", "apiURL"}, d.Surface.Discord.APIURL, nil},
		{[]string{"surface", "discord", "mode"}, d.Surface.Discord.Mode, []any{ModeMention, ModeActive}},
		{[]string{"surface", "discord", "backfill", "age"}, d.Surface.Discord.Backfill.Age, nil},
		{[]string{"surface", "discord", "backfill", "messages"}, d.Surface.Discord.Backfill.Messages, nil},
		{[]string{"surface", "discord", "attachments", "maxBytes"}, d.Surface.Discord.Attachments.MaxBytes, nil},
		{[]string{"surface", "discord", "attachments", "hosts"}, d.Surface.Discord.Attachments.Hosts, nil},
		{[]string{"surface", "discord", "cache", "age"}, d.Surface.Discord.Cache.Age, nil},
		{[]string{"surface", "discord", "cache", "messages"}, d.Surface.Discord.Cache.Messages, nil},
		{[]string{"attachments", "maxBytes"}, d.Attachments.MaxBytes, nil},
		{[]string{"attachments", "maxTotal"}, d.Attachments.MaxTotal, nil},
		{[]string{"attachments", "keep"}, d.Attachments.Keep, nil},
		{[]string{"router", "debounce", "wait"}, d.Router.Debounce.Wait, nil},
		{[]string{"router", "debounce", "max"}, d.Router.Debounce.Max, nil},
		{[]string{"log", "level"}, d.Log.Level, []any{"debug", "info", "warn", "error"}},
		{[]string{"log", "format"}, d.Log.Format, []any{"auto", "json", "text"}},
	} {
		at := schema
		for _, name := range f.path {
			at = at.Properties[name]
		}
		if at.Default, err = json.Marshal(f.value); err != nil {
			return nil, fmt.Errorf("encode default of %v: %w", f.path, err)
		}
		at.Enum = f.enum
	}
	provider := schema.Properties["providers"].AdditionalProperties
	provider.Properties["api"].Enum = []any{string(APIResponses), string(APIChat)}
	model := schema.Properties["models"].AdditionalProperties
	model.Properties["effort"].Enum = anyOf(efforts)
	provider.Properties["type"].Enum = []any{string(Anthropic), string(OpenAI), string(Demo)}
	return schema, nil
}

func anyOf(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

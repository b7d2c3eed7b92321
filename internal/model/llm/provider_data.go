package llm

import (
	"encoding/json"
	"slices"

	"lilac/internal/foundation/chat"
)

// lilacData is the key of Lilac's own fields in provider options.
const lilacData = "lilac"

// WithSource records the source of a message's provider data (see [Options.Source]) and, if
// its signatures are valid only behind the same conversation, the hash of that conversation.
func WithSource(m chat.Message, source, prefix string) chat.Message {
	fields := map[string]json.RawMessage{}
	fields["source"], _ = json.Marshal(source) // strings always marshal
	if prefix != "" {
		fields["prefix"], _ = json.Marshal(prefix)
	}
	m.ProviderOptions = AddProviderData(m.ProviderOptions, lilacData, fields)
	return m
}

// FollowsPrefix reports whether a message may be sent with its signatures behind a
// conversation with this hash. Without a recorded hash it may.
func FollowsPrefix(m chat.Message, prefix string) bool {
	made := text(ProviderData(m.ProviderOptions, lilacData)["prefix"])
	return made == "" || made == prefix
}

// FromSource reports whether the provider data of a message may be sent to a source.
// Messages that earlier versions stored have no source; they may be sent anywhere.
func FromSource(m chat.Message, source string) bool {
	made := text(ProviderData(m.ProviderOptions, lilacData)["source"])
	return made == "" || made == source
}

// ProviderData returns the fields of one provider in options.
func ProviderData(options json.RawMessage, provider string) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	var fields map[string]json.RawMessage
	if json.Unmarshal(options, &all) != nil || json.Unmarshal(all[provider], &fields) != nil {
		return nil
	}
	return fields
}

// ProviderOptions returns options that hold the fields of one provider, or nil if
// there are none.
func ProviderOptions(provider string, fields map[string]json.RawMessage) json.RawMessage {
	if len(fields) == 0 {
		return nil
	}
	out, err := json.Marshal(map[string]map[string]json.RawMessage{provider: fields})
	if err != nil {
		return nil // cannot happen: the fields were decoded from JSON
	}
	return out
}

// AddProviderData returns options with the fields of one provider added.
func AddProviderData(options json.RawMessage, provider string, fields map[string]json.RawMessage) json.RawMessage {
	if len(fields) == 0 {
		return options
	}
	all := map[string]json.RawMessage{}
	if len(options) > 0 && json.Unmarshal(options, &all) != nil {
		return options
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return options // cannot happen: the fields were decoded from JSON
	}
	all[provider] = data
	out, err := json.Marshal(all)
	if err != nil {
		return options
	}
	return out
}

// messageThinking lists the fields of a message in which OpenAI-compatible providers keep
// their thinking.
var messageThinking = []string{"reasoning_details", "reasoning_opaque", "reasoning_text", "thinking_blocks"}

// DropThinking returns an answer without its thinking. It does not modify m.
func DropThinking(m chat.Message) chat.Message {
	if m.Role != chat.Assistant {
		return m
	}
	if slices.ContainsFunc(m.Parts, isReasoning) {
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), isReasoning)
	}
	var all map[string]map[string]json.RawMessage
	if json.Unmarshal(m.ProviderOptions, &all) != nil {
		return m
	}
	changed := false
	for _, fields := range all {
		for _, name := range messageThinking {
			if _, ok := fields[name]; ok {
				delete(fields, name)
				changed = true
			}
		}
	}
	if changed {
		m.ProviderOptions, _ = json.Marshal(all) // decoded JSON always marshals
	}
	return m
}

func isReasoning(p chat.Part) bool { return p.Type == chat.TypeReasoning }

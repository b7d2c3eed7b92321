package llm

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"lilac/internal/foundation/chat"
)

// Media is the payload of an image or file part, ready for a provider: either
// a URL or base64, or neither when the part holds something else (a reference
// that nobody resolved).
type Media struct {
	Type     string
	URL      string
	Base64   string
	Filename string
}

// MediaOf reads the payload of an image or file part: a URL, a data URL or
// base64. A missing media type is guessed from the bytes.
func MediaOf(p chat.Part) Media {
	m := Media{Type: p.MediaType, Filename: p.Filename}
	var s string
	if json.Unmarshal(p.Data, &s) != nil || s == "" {
		return m
	}
	switch scheme, rest, ok := strings.Cut(s, ":"); {
	case ok && (scheme == "http" || scheme == "https"):
		m.URL = s
	case ok && scheme == "data":
		head, data, _ := strings.Cut(rest, ",")
		kind, isBase64 := strings.CutSuffix(head, ";base64")
		if !isBase64 {
			return m
		}
		m.Base64 = data
		if kind, _, _ = strings.Cut(kind, ";"); kind != "" {
			m.Type = kind
		}
	case !ok:
		m.Base64 = s
	}
	m.Type = m.kind()
	if m.Type == "" && p.Type == chat.TypeImage {
		m.Type = "image/png"
	}
	return m
}

// pictures are the types that every provider with eyes takes. It refuses any
// other, and a picture that is not of the type which it is said to have.
var pictures = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

const typePDF = "application/pdf"

// kind is the type of the media. What senders and platforms say of pictures and
// documents is a guess from a name: the bytes know better.
func (m Media) kind() string {
	isPicture := m.Type == "" || strings.HasPrefix(m.Type, "image")
	if m.Base64 == "" || !isPicture && m.Type != typePDF {
		return m.Type
	}
	// The first bytes say it; a cut at a multiple of four stays valid base64.
	start, _ := base64.StdEncoding.DecodeString(m.Base64[:min(len(m.Base64)/4*4, 684)])
	kind := http.DetectContentType(start)
	if pictures[kind] || pictures[m.Type] || strings.HasPrefix(kind, "text/") || !strings.Contains(m.Type, "/") || m.Type == "image/*" || m.Type == typePDF {
		return kind
	}
	return m.Type // of what the bytes do not tell
}

// IsPicture says that the media is a picture that models with eyes are shown.
func (m Media) IsPicture() bool {
	return pictures[m.Type] || m.URL != "" && (m.Type == "image" || m.Type == "image/*")
}

// Text returns the content of a text file that came as base64.
func (m Media) Text() (string, bool) {
	kind, _, _ := strings.Cut(m.Type, ";")
	switch {
	case strings.HasPrefix(kind, "text/"), kind == "application/json", kind == "application/yaml", kind == "application/xml":
	default:
		return "", false
	}
	data, err := base64.StdEncoding.DecodeString(m.Base64)
	if err != nil || m.Base64 == "" {
		return "", false
	}
	name := m.Filename
	if name == "" {
		name = "attachment"
	}
	return "[File " + name + "]\n" + strings.ToValidUTF8(string(data), "\uFFFD"), true
}

// DataURL returns the base64 payload as a data URL.
func (m Media) DataURL() string { return "data:" + m.Type + ";base64," + m.Base64 }

// Placeholder is what a model is told of a file that it cannot be shown.
func (m Media) Placeholder() string {
	name, kind := m.Filename, m.Type
	if name == "" {
		name = "without a name"
	}
	if kind == "" {
		kind = "unknown type"
	}
	return "[A file that you cannot see here: " + name + " (" + kind + ")]"
}

// ProviderData returns the fields that options hold for one provider.
func ProviderData(options json.RawMessage, provider string) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	var fields map[string]json.RawMessage
	if json.Unmarshal(options, &all) != nil || json.Unmarshal(all[provider], &fields) != nil {
		return nil
	}
	return fields
}

// ProviderOptions returns options that hold fields for one provider; nil when
// there are none.
func ProviderOptions(provider string, fields map[string]json.RawMessage) json.RawMessage {
	if len(fields) == 0 {
		return nil
	}
	out, err := json.Marshal(map[string]map[string]json.RawMessage{provider: fields})
	if err != nil {
		return nil // the fields came out of a decoder, so they are JSON
	}
	return out
}

// FinishToolCall returns the tool-call part for the input that a model has
// streamed. An empty input stands for no arguments; one that is no JSON object
// becomes {} and is kept beside it, as [Chunk] says.
func FinishToolCall(id, name, input string) chat.Part {
	var object map[string]json.RawMessage
	if strings.TrimSpace(input) == "" {
		return chat.ToolCall(id, name, json.RawMessage(`{}`))
	}
	if json.Unmarshal([]byte(input), &object) == nil && object != nil {
		return chat.ToolCall(id, name, json.RawMessage(input))
	}
	part := chat.ToolCall(id, name, json.RawMessage(`{}`))
	said, _ := json.Marshal(input) // strings always marshal
	part.ProviderOptions = ProviderOptions("lilac", map[string]json.RawMessage{"invalidInput": said})
	return part
}

// AddProviderData returns options with fields for one provider beside what
// they hold already.
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
		return options // the fields came out of a decoder, so they are JSON
	}
	all[provider] = data
	out, err := json.Marshal(all)
	if err != nil {
		return options
	}
	return out
}

// ResultMedia reads a part of a tool result of type "content": the AI SDK's
// media, image-data, image-url, file-data and file-url parts.
func ResultMedia(p chat.Part) Media {
	str := func(name string) (s string) {
		_ = json.Unmarshal(p.Extra[name], &s) // what is no string is not there
		return s
	}
	switch p.Type {
	case chat.TypeImage, chat.TypeFile:
		return MediaOf(p)
	}
	m := Media{Type: str("mediaType"), Filename: str("filename"), Base64: str("data"), URL: str("url")}
	m.Type = m.kind()
	if m.Type == "" && strings.HasPrefix(string(p.Type), "image") {
		m.Type = "image/png"
	}
	return m
}

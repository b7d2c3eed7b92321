package llm

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"lilac/internal/foundation/chat"
)

// Media is the payload of an image or file part: either a URL or base64, or neither
// if the part holds an unresolved reference.
type Media struct {
	Type     string
	URL      string
	Base64   string
	Filename string
}

// ParseMedia reads the payload of an image or file part: a URL, a data URL, or
// base64. It detects a missing media type from the bytes.
func ParseMedia(p chat.Part) Media {
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
	m.Type = m.detectType()
	if m.Type == "" && p.Type == chat.TypeImage {
		m.Type = "image/png"
	}
	return m
}

// imageTypes lists the image types that every multimodal provider accepts. Providers
// refuse other types, and images whose bytes don't match their declared type.
var imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

const typePDF = "application/pdf"

// detectType returns the type of the media. Senders derive the declared type of images
// and documents from the file name, so the bytes decide.
func (m Media) detectType() string {
	isImage := m.Type == "" || strings.HasPrefix(m.Type, "image")
	if m.Base64 == "" || !isImage && m.Type != typePDF {
		return m.Type
	}
	// The type is in the first bytes. A cut at a multiple of four stays valid base64.
	start, _ := base64.StdEncoding.DecodeString(m.Base64[:min(len(m.Base64)/4*4, 684)])
	kind := http.DetectContentType(start)
	if imageTypes[kind] || imageTypes[m.Type] || strings.HasPrefix(kind, "text/") || !strings.Contains(m.Type, "/") || m.Type == "image/*" || m.Type == typePDF {
		return kind
	}
	return m.Type // the bytes don't identify it
}

// IsImage reports whether multimodal models can see the media as an image.
func (m Media) IsImage() bool {
	return imageTypes[m.Type] || m.URL != "" && (m.Type == "image" || m.Type == "image/*")
}

// AudioFormat returns the name by which OpenAI's protocol calls the format of a recording that
// its models accept, or "".
func (m Media) AudioFormat() string {
	kind, _, _ := strings.Cut(m.Type, ";")
	switch kind {
	case "audio/wav", "audio/x-wav", "audio/wave":
		return "wav"
	case "audio/mpeg", "audio/mp3":
		return "mp3"
	}
	return ""
}

// Text returns the content of a base64-encoded text file, below its name.
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

// Placeholder returns a note for the model that stands for a file it cannot see.
func (m Media) Placeholder() string {
	name, kind := m.Filename, m.Type
	if name == "" {
		name = "unnamed"
	}
	if kind == "" {
		kind = "unknown type"
	}
	return "[A file that you cannot see here: " + name + " (" + kind + ")]"
}

// ParseResultMedia reads the media in a part of a tool result of type "content": the
// AI SDK's media, image-data, image-url, file-data, and file-url parts.
func ParseResultMedia(p chat.Part) Media {
	str := func(name string) (s string) {
		_ = json.Unmarshal(p.Extra[name], &s) // empty if it is not a string
		return s
	}
	switch p.Type {
	case chat.TypeImage, chat.TypeFile:
		return ParseMedia(p)
	}
	m := Media{Type: str("mediaType"), Filename: str("filename"), Base64: str("data"), URL: str("url")}
	m.Type = m.detectType()
	if m.Type == "" && strings.HasPrefix(string(p.Type), "image") {
		m.Type = "image/png"
	}
	return m
}

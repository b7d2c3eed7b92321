package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// Blobs stores the bytes of attachments.
type Blobs interface {
	Put(ctx context.Context, data []byte) (ref string, err error)
	Get(ctx context.Context, ref string) ([]byte, error)
}

// attachments stores the files of prompts.
type attachments struct {
	blobs     Blobs // nil on a server that takes no attachments
	fileBytes int   // limit of one file
	allBytes  int   // limit of the files of one prompt
}

type promptAttachment struct {
	Filename   string  `json:"filename"`
	MimeType   string  `json:"mimeType,omitempty"`
	DataBase64 *string `json:"dataBase64,omitempty"`
	Text       *string `json:"text,omitempty"`
}

// smaller returns allowed, or possible if allowed is zero or larger.
func smaller(allowed int64, possible int) int {
	if allowed > 0 && allowed < int64(possible) {
		return int(allowed)
	}
	return possible
}

// store writes the attachments and returns them as file parts.
func (a *attachments) store(ctx context.Context, in []promptAttachment) ([]chat.Part, error) {
	var parts []chat.Part
	total := 0
	for i, f := range in {
		field := fmt.Sprintf("attachments[%d]", i)
		data, err := f.bytes(field, a.fileBytes)
		if err != nil {
			return nil, err
		}
		if total += len(data); total > a.allBytes {
			return nil, &fault.Error{Kind: fault.TooLarge, Field: "attachments", Message: fmt.Sprintf("The attachments of a prompt have at most %d bytes together.", a.allBytes)}
		}
		if a.blobs == nil {
			return nil, fault.New(fault.Unavailable, "This server does not take attachments.")
		}
		ref, err := a.blobs.Put(ctx, data)
		if err != nil {
			return nil, fmt.Errorf("store attachment: %w", err)
		}
		quoted, err := json.Marshal(ref)
		if err != nil {
			return nil, fmt.Errorf("encode attachment: %w", err)
		}
		parts = append(parts, chat.Part{Type: chat.TypeFile, Data: quoted, MediaType: f.mediaType(data), Filename: f.Filename})
	}
	return parts, nil
}

// bytes decodes and checks an attachment of at most limit bytes. Errors name
// field.
func (f promptAttachment) bytes(field string, limit int) ([]byte, error) {
	switch {
	case f.Filename == "" || len(f.Filename) > maxFilename || !utf8.ValidString(f.Filename) ||
		strings.ContainsAny(f.Filename, "/\\\x00\r\n") || f.Filename == "." || f.Filename == "..":
		return nil, fault.InvalidField(field+".filename", "An attachment needs a file name of at most %d bytes, without a path.", maxFilename)
	case (f.Text == nil) == (f.DataBase64 == nil):
		return nil, fault.InvalidField(field, "An attachment has either text or dataBase64.")
	}
	if f.MimeType != "" {
		if _, _, err := mime.ParseMediaType(f.MimeType); err != nil || !strings.Contains(f.MimeType, "/") {
			return nil, fault.InvalidField(field+".mimeType", "%q is not a media type.", f.MimeType)
		}
	}
	name, data := "text", []byte(nil)
	if f.Text != nil {
		data = []byte(*f.Text)
	} else {
		var err error
		name = "dataBase64"
		if data, err = base64.StdEncoding.DecodeString(*f.DataBase64); err != nil {
			return nil, fault.InvalidField(field+".dataBase64", "The data is not valid base64.")
		}
	}
	if len(data) > limit {
		return nil, &fault.Error{Kind: fault.TooLarge, Field: field + "." + name, Message: fmt.Sprintf("An attachment has at most %d bytes.", limit)}
	}
	return data, nil
}

func (f promptAttachment) mediaType(data []byte) string {
	if f.MimeType != "" {
		return f.MimeType
	}
	if f.Text != nil {
		return "text/plain"
	}
	t := mime.TypeByExtension(strings.ToLower(filepath.Ext(f.Filename)))
	if t == "" {
		t = http.DetectContentType(data)
	}
	t, _, _ = strings.Cut(t, ";")
	return t
}

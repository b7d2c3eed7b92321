package session

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/text"
)

const blobPrefix = "blob:sha256:"

// inlineBlobs returns the message with the contents of its blobs instead of their
// references; the history keeps the references. If a blob is gone, the model gets
// a note.
func (s *Service) inlineBlobs(m chat.Message) chat.Message {
	cloned := false
	for i, p := range m.Parts {
		var ref string
		if p.Type != chat.TypeFile && p.Type != chat.TypeImage || json.Unmarshal(p.Data, &ref) != nil || !strings.HasPrefix(ref, blobPrefix) {
			continue
		}
		if !cloned {
			m.Parts, cloned = slices.Clone(m.Parts), true
		}
		m.Parts[i] = s.inlineBlob(p, ref)
	}
	return m
}

func (s *Service) inlineBlob(p chat.Part, ref string) chat.Part {
	gone := chat.TextPart("(The attachment " + p.Filename + " is no longer available.)")
	if s.opt.Blobs == nil {
		return gone
	}
	data, err := s.opt.Blobs.Get(context.Background(), ref)
	if err != nil {
		s.opt.Logger.Warn("cannot read an attachment", "blob", ref, "error", err)
		return gone
	}
	p.Data, _ = json.Marshal(base64.StdEncoding.EncodeToString(data)) // strings always marshal
	return p
}

func preview(s string) string { return text.TruncateWith(s, maxPreview, "…") }

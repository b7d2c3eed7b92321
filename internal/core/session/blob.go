package session

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/model/llm"
)

const blobPrefix = "blob:sha256:"

// inlineBlobs returns the message with the contents of its blobs instead of their
// references; the history keeps the references. If a blob is gone, the model gets
// a note. Recordings of a new message become text if the model cannot hear them, or
// not in their format (Discord's voice messages are Ogg).
func (r *run) inlineBlobs(ctx context.Context, m chat.Message, isNew bool) chat.Message {
	cloned := false
	for i, p := range m.Parts {
		if content, ok := p.Content(); ok {
			if !cloned {
				m.Parts, cloned = slices.Clone(m.Parts), true
			}
			m.Parts[i] = p.WithContent(r.inlinePictures(ctx, content))
			continue
		}
		var ref string
		if p.Type != chat.TypeFile && p.Type != chat.TypeImage || json.Unmarshal(p.Data, &ref) != nil || !strings.HasPrefix(ref, blobPrefix) {
			continue
		}
		if !cloned {
			m.Parts, cloned = slices.Clone(m.Parts), true
		}
		m.Parts[i] = r.inlineBlob(ctx, p, ref, isNew)
	}
	return m
}

// inlinePictures returns the content of a tool's result with the data of its pictures.
func (r *run) inlinePictures(ctx context.Context, content []chat.Part) []chat.Part {
	for i, p := range content {
		ref, _, ok := p.ResultData()
		if !ok || !strings.HasPrefix(ref, blobPrefix) {
			continue
		}
		content[i] = chat.TextPart("(The picture is no longer available.)")
		if r.svc.opt.Blobs == nil {
			continue
		}
		data, err := r.svc.opt.Blobs.Get(context.WithoutCancel(ctx), ref)
		if err != nil {
			r.svc.opt.Logger.Warn("cannot read a picture of a tool", "blob", ref, "error", err)
			continue
		}
		content[i] = p.WithResultData(base64.StdEncoding.EncodeToString(data))
	}
	return content
}

func (r *run) inlineBlob(ctx context.Context, p chat.Part, ref string, isNew bool) chat.Part {
	if text, ok := r.sent.Transcripts[ref]; ok {
		return chat.TextPart(text)
	}
	gone := chat.TextPart("(The attachment " + p.Filename + " is no longer available.)")
	if r.svc.opt.Blobs == nil {
		return gone
	}
	data, err := r.svc.opt.Blobs.Get(context.WithoutCancel(ctx), ref)
	if err != nil {
		r.svc.opt.Logger.Warn("cannot read an attachment", "blob", ref, "error", err)
		return gone
	}
	heard := r.hears && llm.Media{Type: p.MediaType}.AudioFormat() != ""
	if isNew && !heard && strings.HasPrefix(p.MediaType, "audio/") && r.svc.opt.Transcriber != nil {
		if text, ok := r.transcript(ctx, p, data); ok {
			r.sent.Transcripts = maps.Clone(r.sent.Transcripts)
			if r.sent.Transcripts == nil {
				r.sent.Transcripts = map[string]string{}
			}
			r.sent.Transcripts[ref], r.sent.unsaved = text, true
			return chat.TextPart(text)
		}
	}
	p.Data, _ = json.Marshal(base64.StdEncoding.EncodeToString(data)) // strings always marshal
	return p
}

// transcript returns the text that the model gets instead of a recording. It is marked, because a
// transcript may have errors. ok is false if no endpoint is configured.
func (r *run) transcript(ctx context.Context, p chat.Part, recording []byte) (text string, ok bool) {
	text, ok, err := r.svc.opt.Transcriber.Transcribe(ctx, p.Filename, p.MediaType, recording)
	switch {
	case !ok:
		return "", false
	case err != nil && ctx.Err() != nil:
		return "", false
	case err != nil:
		r.svc.opt.Logger.Warn("cannot transcribe a recording", "request_id", r.requestID, "error", err)
		return "(The recording " + p.Filename + " could not be transcribed: " + fault.ToWire(err).Message + ")", true
	case text == "":
		return "(The recording " + p.Filename + " has no words.)", true
	}
	return "[Transcript of the recording " + p.Filename + "; it may contain errors]\n" + text, true
}

// isUnanswered reports whether no answer of the model follows message i.
func isUnanswered(messages []chat.Message, i int) bool {
	return !slices.ContainsFunc(messages[i:], func(m chat.Message) bool { return m.Role == chat.Assistant })
}

func preview(s string) string { return text.TruncateWith(s, maxPreview, "…") }

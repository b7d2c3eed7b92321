package app

import (
	"cmp"
	"context"

	"lilac/internal/model/transcribe"
)

// defaultTranscriptionModel is OpenAI's model, whose name other servers accept as well.
const defaultTranscriptionModel = "whisper-1"

// transcriber implements [session.Transcriber] with the endpoint of the configuration in force.
type transcriber struct{ *base }

func (t transcriber) Transcribe(ctx context.Context, filename, mediaType string, recording []byte) (text string, configured bool, err error) {
	c := t.now.Load().config.Transcription
	if c.URL == "" {
		return "", false, nil
	}
	client := transcribe.Client{BaseURL: c.URL, Key: c.APIKey.Reveal(), Model: cmp.Or(c.Model, defaultTranscriptionModel)}
	text, err = client.Transcribe(ctx, filename, mediaType, recording)
	return text, true, err
}

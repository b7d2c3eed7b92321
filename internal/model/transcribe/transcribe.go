package transcribe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

const (
	// MaxBytes bounds a recording: OpenAI refuses larger ones.
	MaxBytes = 25 << 20
	// maxText bounds a transcript, in bytes.
	maxText = 1 << 20
	// timeLimit bounds one call.
	timeLimit = 2 * time.Minute
)

// Client calls one endpoint. It is safe for concurrent use.
type Client struct {
	// BaseURL may end in the version or be complete.
	BaseURL string
	// Key may be empty for a server on this machine.
	Key   string
	Model string
	// HTTP makes the calls; nil means the default client.
	HTTP *http.Client
}

// Transcribe returns the text of a recording. Its error is a sentence for people.
func (c Client) Transcribe(ctx context.Context, filename, mediaType string, recording []byte) (string, error) {
	if len(recording) > MaxBytes {
		return "", fault.New(fault.TooLarge, "The recording has more than %d MiB.", MaxBytes>>20)
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	body, contentType, err := form(c.Model, filename, mediaType, recording)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "The recording cannot be sent.")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url(), bytes.NewReader(body))
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "The address of the transcription endpoint is not a URL.")
	}
	req.Header.Set("Content-Type", contentType)
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	res, err := c.client().Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL
		}
		if known := fault.OfTransport(err, "the transcription endpoint"); known != nil {
			return "", known
		}
		return "", fault.Wrap(fault.Unavailable, err, "The transcription endpoint %s cannot be reached.", req.URL.Host)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxText))
	switch {
	case err != nil:
		return "", fault.Wrap(fault.Unavailable, err, "The transcription endpoint broke off its answer.")
	case res.StatusCode == http.StatusNotFound:
		return "", fault.New(fault.NotFound, "The transcription endpoint %s does not know %s, or not the model %s. Check transcription.url and transcription.model.", req.URL.Host, req.URL.Path, c.Model)
	case res.StatusCode != http.StatusOK:
		return "", fault.New(fault.Unavailable, "The transcription endpoint %s refuses the recording with status %d.", req.URL.Host, res.StatusCode)
	}
	return textOf(answer)
}

// textOf decodes an answer: JSON with the text, or the text alone.
func textOf(answer []byte) (string, error) {
	var decoded struct{ Text *string }
	switch err := json.Unmarshal(answer, &decoded); {
	case err == nil && decoded.Text != nil:
		return strings.ToValidUTF8(strings.TrimSpace(*decoded.Text), "\uFFFD"), nil
	case err == nil, bytes.HasPrefix(bytes.TrimSpace(answer), []byte("<")):
		return "", fault.New(fault.Unavailable, "The transcription endpoint sent no transcript.")
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(answer)), "\uFFFD"), nil
}

func form(model, filename, mediaType string, recording []byte) (body []byte, contentType string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	header := textproto.MIMEHeader{}
	header.Set("Content-Disposition", mime.FormatMediaType("form-data", map[string]string{"name": "file", "filename": safeName(filename, mediaType)}))
	header.Set("Content-Type", mediaType)
	part, err := w.CreatePart(header)
	if err == nil {
		_, err = part.Write(recording)
	}
	err = errors.Join(err, w.WriteField("model", model), w.WriteField("response_format", "json"), w.Close())
	return b.Bytes(), w.FormDataContentType(), err
}

// extensions are those by which the endpoints recognize formats.
var extensions = map[string]string{
	"audio/ogg": ".ogg", "audio/opus": ".ogg", "audio/mpeg": ".mp3", "audio/mp3": ".mp3", "audio/mp4": ".m4a", "audio/x-m4a": ".m4a",
	"audio/aac": ".m4a", "audio/wav": ".wav", "audio/x-wav": ".wav", "audio/webm": ".webm", "audio/flac": ".flac",
}

// safeName returns a file name with the extension of the format.
func safeName(filename, mediaType string) string {
	kind, _, _ := strings.Cut(mediaType, ";")
	if ext := extensions[kind]; ext != "" {
		return "recording" + ext
	}
	return "recording" + strings.Map(func(r rune) rune {
		if r == '.' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(filepath.Ext(filename)))
}

func (c Client) url() string {
	base := strings.TrimRight(strings.TrimSpace(c.BaseURL), "/")
	if strings.HasSuffix(base, "/audio/transcriptions") {
		return base
	}
	if u, err := url.Parse(base); err == nil && u.Path == "" {
		base += "/v1"
	}
	return base + "/audio/transcriptions"
}

func (c Client) client() *http.Client {
	client := http.Client{}
	if c.HTTP != nil {
		client = *c.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

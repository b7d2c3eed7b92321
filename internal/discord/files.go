package discord

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"lilac/internal/fault"
	"lilac/internal/surface"
)

const (
	// fileLimit bounds the fetching of one message's files.
	fileLimit = 20 * time.Second
	// maxKept is how many files of a message are kept; Discord allows ten.
	maxKept = 10
)

// keepFiles fetches the files of a message into the blob store: their
// addresses expire. What cannot be had keeps its address only.
func (a *Adapter) keepFiles(ctx context.Context, m surface.Message) []surface.Attachment {
	ctx, cancel := context.WithTimeout(ctx, fileLimit)
	defer cancel()
	out := slices.Clone(m.Attachments)
	for i := range out {
		if i >= maxKept || m.FromSelf {
			break
		}
		ref, err := a.keepFile(ctx, out[i])
		if err != nil {
			a.o.Logger.WarnContext(ctx, "a file that somebody sent is not kept", "channel_id", m.ChannelID, "message_id", m.ID, "file", out[i].Filename, "error", err)
			continue
		}
		out[i].Blob = ref
	}
	return out
}

func (a *Adapter) keepFile(ctx context.Context, f surface.Attachment) (ref string, err error) {
	if a.o.Blobs == nil || a.o.AttachmentBytes <= 0 {
		return "", fault.New(fault.Denied, "files are not kept")
	}
	if f.Size > a.o.AttachmentBytes {
		return "", fault.New(fault.TooLarge, "it has %d bytes, and at most %d are kept", f.Size, a.o.AttachmentBytes)
	}
	u, err := url.Parse(f.URL)
	if err != nil || !a.fileHost(u) {
		return "", fault.New(fault.Denied, "it is on a host that files are not fetched from")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return "", fmt.Errorf("ask for a file: %w", err)
	}
	client := *a.o.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("fetch a file: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("fetch a file: status %d", response.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, a.o.AttachmentBytes+1))
	if err != nil {
		return "", fmt.Errorf("read a file: %w", err)
	}
	if int64(len(data)) > a.o.AttachmentBytes {
		return "", fault.New(fault.TooLarge, "it has more than %d bytes", a.o.AttachmentBytes)
	}
	return a.o.Blobs.Put(ctx, data)
}

// fileHost reports whether files are fetched from there: a host that the
// configuration names, over TLS unless it is named with its port.
func (a *Adapter) fileHost(u *url.URL) bool {
	if u.User != nil {
		return false
	}
	if u.Scheme == "https" && slices.Contains(a.o.AttachmentHosts, u.Hostname()) && u.Port() == "" {
		return true
	}
	return u.Port() != "" && (u.Scheme == "http" || u.Scheme == "https") && slices.Contains(a.o.AttachmentHosts, u.Host)
}

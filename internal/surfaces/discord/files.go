package discord

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/disgoorg/disgo/rest"

	"lilac/internal/agent/egress"
	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
)

const (
	// fileWait is how long a message waits for its files, and those of what it
	// replies to: all that is said after it waits, too.
	fileWait = 5 * time.Second
	// maxKept is how many files of a message are kept: as many as one may have
	// ("Opcodes and Status Codes", JSON error code 30015).
	maxKept = 10
)

// refreshURLs gives the addresses of files a new term. That they end is
// documented ("API Reference", signed attachment CDN URLs); this way to renew
// them is not, but it is the one that Discord's own client takes.
var refreshURLs = rest.NewEndpoint(http.MethodPost, "/attachments/refresh-urls")

var _ surface.FileSource = (*Adapter)(nil)

// FetchFile implements [surface.FileSource]. An address that has expired is
// renewed once.
func (a *Adapter) FetchFile(ctx context.Context, f surface.Attachment, most int64) (surface.Fetched, error) {
	got, err := a.fetcher.Fetch(ctx, f.URL, most)
	if fault.KindOf(err) == fault.NotFound {
		var renewed string
		if renewed, err = a.renewed(ctx, f.URL); err == nil {
			got, err = a.fetcher.Fetch(ctx, renewed, most)
		}
	}
	return surface.Fetched(got), err
}

// renewed is an address of a file that works for a while again.
func (a *Adapter) renewed(ctx context.Context, address string) (string, error) {
	var out struct {
		Refreshed []struct {
			Original string `json:"original"`
			New      string `json:"refreshed"`
		} `json:"refreshed_urls"`
	}
	err := a.api.do(ctx, refreshURLs.Compile(nil), map[string][]string{"attachment_urls": {address}}, &out)
	if err != nil {
		return "", err
	}
	for _, r := range out.Refreshed {
		if r.Original == address && r.New != "" {
			return r.New, nil
		}
	}
	return "", &fault.Error{Kind: fault.NotFound, Code: egress.CodeGone, Message: "Discord does not have the file any more."}
}

// keepFiles fetches the files of a message that was heard some time ago into the
// blob store: their addresses expire. What cannot be had soon keeps its address
// only, under which [Adapter.FetchFile] finds it later.
func (a *Adapter) keepFiles(ctx context.Context, m surface.Message, heard time.Time) []surface.Attachment {
	ctx, cancel := context.WithDeadline(ctx, heard.Add(fileWait))
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
	got, err := a.FetchFile(ctx, f, a.o.AttachmentBytes)
	if err != nil {
		return "", err
	}
	return a.o.Blobs.Put(ctx, got.Data)
}

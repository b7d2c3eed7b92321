package discord

import (
	"context"
	"slices"
	"time"

	"lilac/internal/agent/egress"
	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
)

const (
	// downloadTimeout bounds how long a message waits for its attachments and
	// those of its reply chain, because later messages wait behind it.
	downloadTimeout = 5 * time.Second
	// maxDownloads is how many attachments of a message are kept, which is also
	// Discord's maximum ("Opcodes and Status Codes", JSON error code 30015).
	maxDownloads = 10
)

// attachments downloads the files of messages.
type attachments struct {
	o       Options
	client  *client
	fetcher *egress.Fetcher
}

func newAttachments(o Options, c *client) *attachments {
	return &attachments{o: o, client: c, fetcher: egress.NewFetcher(egress.FetchOptions{Hosts: o.AttachmentHosts, Dial: o.Dial})}
}

func (a *attachments) fetch(ctx context.Context, f surface.Attachment, most int64) (surface.Fetched, error) {
	got, err := a.fetcher.Fetch(ctx, f.URL, most)
	if fault.KindOf(err) == fault.NotFound {
		var renewed string
		if renewed, err = a.renewURL(ctx, f.URL); err == nil {
			got, err = a.fetcher.Fetch(ctx, renewed, most)
		}
	}
	return surface.Fetched{Data: got.Data, MimeType: got.MimeType}, err
}

// renewURL returns a URL of the file that has not expired.
func (a *attachments) renewURL(ctx context.Context, address string) (string, error) {
	var out struct {
		Refreshed []struct {
			Original string `json:"original"`
			New      string `json:"refreshed"`
		} `json:"refreshed_urls"`
	}
	err := a.client.do(ctx, refreshURLs.with(), map[string][]string{"attachment_urls": {address}}, nil, &out)
	if err != nil {
		return "", err
	}
	for _, r := range out.Refreshed {
		if r.Original == address && r.New != "" {
			return r.New, nil
		}
	}
	return "", &fault.Error{Kind: fault.NotFound, Code: egress.CodeGone, Message: "Discord no longer has the file."}
}

// download copies the attachments of a message into the blob store, because
// their URLs expire. The time limit starts when the message was received. An
// attachment that cannot be downloaded keeps only its URL, with which fetch
// finds it later.
func (a *attachments) download(ctx context.Context, m surface.Message, received time.Time) []surface.Attachment {
	ctx, cancel := context.WithDeadline(ctx, received.Add(downloadTimeout))
	defer cancel()
	out := slices.Clone(m.Attachments)
	for i := range out {
		if i >= maxDownloads || m.FromSelf {
			break
		}
		ref, err := a.downloadOne(ctx, out[i])
		if err != nil {
			a.o.Logger.WarnContext(ctx, "cannot keep an attachment", "channel_id", m.ChannelID, "message_id", m.ID, "file", out[i].Filename, "error", err)
			continue
		}
		out[i].Blob = ref
	}
	return out
}

func (a *attachments) downloadOne(ctx context.Context, f surface.Attachment) (ref string, err error) {
	if a.o.Blobs == nil || a.o.AttachmentBytes <= 0 {
		return "", fault.New(fault.Denied, "the configuration keeps no attachments")
	}
	if f.Size > a.o.AttachmentBytes {
		return "", fault.New(fault.TooLarge, "the file has %d bytes, and at most %d are kept", f.Size, a.o.AttachmentBytes)
	}
	got, err := a.fetch(ctx, f, a.o.AttachmentBytes)
	if err != nil {
		return "", err
	}
	return a.o.Blobs.Put(ctx, got.Data)
}

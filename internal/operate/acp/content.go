package acp

import (
	"fmt"
	"mime"
	"net/url"
	"path"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"lilac/internal/foundation/event"
	"lilac/internal/operate/client"
)

// messageOf turns the content of a prompt into a message: texts and references in the order
// in which the editor has them, and pictures and files as attachments.
func messageOf(blocks []sdk.ContentBlock) (client.Message, error) {
	m := client.Message{Queue: event.Prompt}
	var parts []string
	for i, b := range blocks {
		switch {
		case b.Text != nil:
			parts = append(parts, b.Text.Text)
		case b.ResourceLink != nil:
			parts = append(parts, fmt.Sprintf("[%s](%s)", b.ResourceLink.Name, b.ResourceLink.Uri))
		case b.Image != nil:
			m.Attachments = append(m.Attachments, client.Attachment{Filename: named(b.Image.Uri, i, b.Image.MimeType), DataBase64: b.Image.Data})
		case b.Audio != nil:
			m.Attachments = append(m.Attachments, client.Attachment{Filename: named(nil, i, b.Audio.MimeType), DataBase64: b.Audio.Data})
		case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
			r := b.Resource.Resource.TextResourceContents
			parts = append(parts, quoted(r.Uri, r.Text))
		case b.Resource != nil && b.Resource.Resource.BlobResourceContents != nil:
			r := b.Resource.Resource.BlobResourceContents
			kind := ""
			if r.MimeType != nil {
				kind = *r.MimeType
			}
			m.Attachments = append(m.Attachments, client.Attachment{Filename: named(&r.Uri, i, kind), DataBase64: r.Blob})
		default:
			return m, sdk.NewInvalidParams(map[string]any{"error": fmt.Sprintf("prompt[%d] has no content that Lilac knows", i)})
		}
	}
	m.Content = strings.Join(parts, "\n\n")
	return m, nil
}

// quoted returns a file of the editor as the message contains it. Its fence is longer than
// every one inside.
func quoted(uri, content string) string {
	fence := "```"
	for strings.Contains(content, fence) {
		fence += "`"
	}
	return fmt.Sprintf("%s\n%s\n%s\n%s", uri, fence, strings.TrimSuffix(content, "\n"), fence)
}

// named returns a filename for an attachment: that of its address, or one of its type.
func named(uri *string, i int, mediaType string) string {
	if uri != nil {
		if u, err := url.Parse(*uri); err == nil && path.Base(u.Path) != "/" && path.Base(u.Path) != "." {
			return path.Base(u.Path)
		}
	}
	ending := ""
	switch endings, err := mime.ExtensionsByType(mediaType); {
	case mediaType == "image/jpeg":
		ending = ".jpg" // the first that the system knows can be .jfif
	case err == nil && len(endings) > 0:
		ending = endings[0]
	}
	return fmt.Sprintf("attachment-%d%s", i+1, ending)
}

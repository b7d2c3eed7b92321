package compose

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/chat"
)

const (
	opening = "[[lilac.attachments]]"
	closing = "[[/lilac.attachments]]"
)

// attribution returns the line that names the author of a message.
func attribution(platform string, m surface.Message) string {
	return chat.AttributionLine(platform, m.AuthorID, m.AuthorName, m.ID)
}

// item is one attachment in the block.
type item struct {
	URL      string `json:"url"`
	Filename string `json:"filename,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Blob     string `json:"blob,omitempty"`
}

func block(attachments []surface.Attachment) string {
	items := make([]item, 0, len(attachments))
	for _, a := range attachments {
		items = append(items, item{a.URL, a.Filename, a.MimeType, a.Size, a.Blob})
	}
	data, _ := json.Marshal(map[string][]item{"items": items}) // strings and numbers always marshal
	// In this JSON, two consecutive brackets occur only inside strings.
	return opening + strings.ReplaceAll(string(data), "[[", `[\u005b`) + closing
}

// Attachments reads the attachments block of a composed user message; nil if it has
// none.
func Attachments(m chat.Message) []surface.Attachment {
	text := m.Text()
	if m.Role != chat.User || !strings.HasSuffix(text, closing) {
		return nil
	}
	start := strings.LastIndex(text, opening)
	if start < 0 {
		return nil
	}
	var content struct{ Items []item }
	if json.Unmarshal([]byte(text[start+len(opening):len(text)-len(closing)]), &content) != nil {
		return nil
	}
	var out []surface.Attachment
	for _, i := range content.Items {
		out = append(out, surface.Attachment{URL: i.URL, Filename: i.Filename, MimeType: i.MimeType, Size: i.Size, Blob: i.Blob})
	}
	return out
}

// attributionLine matches the attribution line. Compose alters other text that
// begins like it.
var attributionLine = regexp.MustCompile(`^\[\S+ user_id=\S+ user_name=\S+ message_id=([^\s\]]+)\]\n`)

// MessageID returns the id of the platform's message in a composed user message,
// the newest one of a group, or "" for other messages.
func MessageID(m chat.Message) string {
	if found := attributionLine.FindStringSubmatch(m.Text()); m.Role == chat.User && found != nil {
		return found[1]
	}
	return ""
}

// invisible matches invisible characters between two letters.
const invisible = `[\s\p{Cf}\p{Mn}\p{Cc}]*`

// markLike matches text that looks like a mark of an attachments block. Compiling it at the
// start would take a millisecond.
var markLike = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)[\[［]` + invisible + `[\[［]` + invisible + `(/?)` + chat.SpreadPattern("lilac") + `[.．]` + chat.SpreadPattern("attachments"))
})

// neutralize visibly alters text that looks like an attribution line or an
// attachments block. Applying it again changes nothing.
func neutralize(text string) string {
	return chat.NeutralizeAttribution(markLike().ReplaceAllString(text, "⟦${1}lilac.attachments"))
}

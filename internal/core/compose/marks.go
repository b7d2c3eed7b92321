package compose

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/chat"
)

const (
	opening = "[[lilac.attachments]]"
	closing = "[[/lilac.attachments]]"
	// maxName bounds a name in the attribution line, in characters.
	maxName = 64
)

// attribution returns the line that names the author of a message. Its values
// contain no space, bracket, equals sign, or invisible character, so they cannot
// end it.
func attribution(platform string, m surface.Message) string {
	return fmt.Sprintf("[%s user_id=%s user_name=%s message_id=%s]", value(platform), value(m.AuthorID), value(m.AuthorName), value(m.ID))
}

func value(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		switch {
		case n == maxName:
			return b.String()
		case unicode.IsSpace(r):
			r = '_'
		case strings.ContainsRune("[]=", r) || r == utf8.RuneError || !unicode.IsGraphic(r):
			continue
		}
		b.WriteRune(r)
		n++
	}
	if n == 0 {
		return "unknown"
	}
	return b.String()
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

// spread matches a word with any invisible characters between its letters.
func spread(word string) string {
	var parts []string
	for _, r := range word {
		parts = append(parts, regexp.QuoteMeta(string(r)))
	}
	return strings.Join(parts, invisible)
}

// Compiling these expressions at the start would take a millisecond.
var (
	markLike = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)[\[［]` + invisible + `[\[［]` + invisible + `(/?)` + invisible + spread("lilac") + invisible + `[.．]` + invisible + spread("attachments"))
	})
	lineLike = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)[\[［](` + invisible + `[\p{L}\p{N}]+(?:` + invisible + `[\p{L}\p{N}]+)*?` + invisible + spread("user_id") + invisible + `[=＝])`)
	})
)

// neutralize visibly alters text that looks like an attribution line or an
// attachments block. Applying it again changes nothing.
func neutralize(text string) string {
	text = markLike().ReplaceAllString(text, "⟦${1}lilac.attachments")
	return lineLike().ReplaceAllString(text, "⟦$1")
}

package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// authorField is the field of a user message of a person with an account.
const authorField = "author"

// maxAuthorName bounds a name in an attribution line, in characters.
const maxAuthorName = 64

// Author is the person who wrote a message.
type Author struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	MessageID string `json:"messageId,omitempty"`
}

// WithAuthor returns the message with its author, whom people see beside it. The model learns
// of the author by [Message.Attributed].
func (m Message) WithAuthor(a Author) Message {
	raw, err := json.Marshal(a)
	if err != nil {
		return m // strings always marshal
	}
	m.Extra = maps.Clone(m.Extra)
	if m.Extra == nil {
		m.Extra = map[string]json.RawMessage{}
	}
	m.Extra[authorField] = raw
	return m
}

// Author returns the author, if the message has one.
func (m Message) Author() (a Author, known bool) {
	raw, ok := m.Extra[authorField]
	return a, ok && m.Role == User && json.Unmarshal(raw, &a) == nil
}

// Attributed returns the message as the model gets it: one with an author begins with an
// attribution line. It is the same for the same message, so that a conversation only grows at its
// end.
func (m Message) Attributed() Message {
	a, known := m.Author()
	if !known {
		return m
	}
	line := AttributionLine("account", a.ID, a.Name, a.MessageID) + "\n"
	parts := make([]Part, 0, len(m.Parts)+1)
	for _, p := range m.Parts {
		if p.Type == TypeText {
			p.Text = line + NeutralizeAttribution(p.Text)
			line = ""
		}
		parts = append(parts, p)
	}
	if line != "" {
		parts = append([]Part{TextPart(strings.TrimSuffix(line, "\n"))}, parts...)
		m.IsString = false
	}
	m.Parts = parts
	return m
}

// AttributionLine returns the line that names the author of a message. Its values contain no
// space, bracket, equals sign, or invisible character, so they cannot end it.
func AttributionLine(platform, userID, userName, messageID string) string {
	return fmt.Sprintf("[%s user_id=%s user_name=%s message_id=%s]", AttributionValue(platform), AttributionValue(userID), AttributionValue(userName), AttributionValue(messageID))
}

// AttributionValue returns a text as a value of an attribution line.
func AttributionValue(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		switch {
		case n == maxAuthorName:
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

// invisible matches invisible characters between two letters.
const invisible = `[\s\p{Cf}\p{Mn}\p{Cc}]*`

// SpreadPattern returns a regular expression for a word with any invisible characters between
// its letters, and around it.
func SpreadPattern(word string) string {
	parts := []string{""}
	for _, r := range word {
		parts = append(parts, regexp.QuoteMeta(string(r)))
	}
	return strings.Join(append(parts, ""), invisible)
}

// attributionLike matches text that looks like an attribution line. Compiling it at the start
// would take a millisecond.
var attributionLike = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)[\[［](` + invisible + `[\p{L}\p{N}]+(?:` + invisible + `[\p{L}\p{N}]+)*?` + SpreadPattern("user_id") + `[=＝])`)
})

// NeutralizeAttribution visibly alters text that looks like an attribution line. Applying it
// again changes nothing.
func NeutralizeAttribution(text string) string {
	return attributionLike().ReplaceAllString(text, "⟦$1")
}

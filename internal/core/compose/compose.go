package compose

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/text"
)

const (
	// MaxDepth bounds a reply chain.
	MaxDepth = 20
	// mergeWindow is the longest time between two messages of one author that a
	// platform shows as one (Discord: seven minutes).
	mergeWindow = 7 * time.Minute
	// maxShown bounds the attachments of one message that the model gets. The
	// attachments block lists all of them.
	maxShown = 10
	// maxQuote bounds the quote of an earlier message, in characters.
	maxQuote = 200
)

// Snapshot has all facts that a composition depends on.
type Snapshot struct {
	// Platform is the word in the attribution line ("discord").
	Platform string
	// Messages are the reply chain or the burst, oldest first. The last one caused
	// the request.
	Messages []surface.Message
	// SelfID is our own user id there.
	SelfID string
	// Names replaces mentions with names; nil leaves them.
	Names func(text string) string
	// InHistory reports whether the session's history contains a message; nil means
	// no.
	InHistory func(messageID string) bool
	// Shows reports whether the model gets attachments of a media type as parts; nil means
	// none.
	Shows func(mediaType string) bool
	// Starter is the id of the message that started the thread, "" for none.
	Starter string
	// Joins is the request that the messages are for. A reply to its own answer does
	// not quote that, because it comes directly after the answer.
	Joins string
	// Edited reports that the last message is an edit of one in the history.
	Edited bool
	// Command is a word for the router, which is removed from the last message; see
	// [Addressed].
	Command string
}

// Compose returns the model's messages, oldest first.
func Compose(s Snapshot) []chat.Message {
	var out []chat.Message
	for _, group := range s.groups(s.newMessages()) {
		first := group[0]
		if IsPlace(first.ID) {
			out = append(out, chat.Text(chat.User, first.Text))
			continue
		}
		if !first.FromSelf {
			out = append(out, s.user(group))
			continue
		}
		if text := s.joined(group); text != "" {
			out = append(out, chat.Text(chat.Assistant, text))
		}
	}
	return out
}

// newMessages returns the messages that are neither deleted nor in the history,
// and always the last one.
func (s Snapshot) newMessages() []surface.Message {
	var out []surface.Message
	for i, m := range s.Messages {
		last := i == len(s.Messages)-1
		if last || m.DeletedAt == 0 && (s.InHistory == nil || !s.InHistory(m.ID)) {
			out = append(out, m)
		}
	}
	return out
}

// groups groups consecutive messages of one author.
func (s Snapshot) groups(messages []surface.Message) [][]surface.Message {
	var out [][]surface.Message
	for _, m := range messages {
		if n := len(out); n > 0 && s.together(out[n-1][len(out[n-1])-1], m) {
			out[n-1] = append(out[n-1], m)
			continue
		}
		out = append(out, []surface.Message{m})
	}
	return out
}

func (s Snapshot) together(a, b surface.Message) bool {
	switch {
	case IsPlace(a.ID) || IsPlace(b.ID) || s.Starter != "" && a.ID == s.Starter:
		return false
	case a.AuthorID != b.AuthorID || len(a.Attachments) > 0 || len(b.Attachments) > 0:
		return false
	case a.FromSelf:
		return a.RequestID == b.RequestID
	}
	return time.Duration(b.CreatedAt-a.CreatedAt)*time.Millisecond <= mergeWindow
}

func (s Snapshot) user(group []surface.Message) chat.Message {
	newest := group[len(group)-1]
	var text strings.Builder
	text.WriteString(attribution(s.Platform, newest))
	text.WriteByte('\n')
	if s.Edited && newest.ID == s.Messages[len(s.Messages)-1].ID {
		text.WriteString("(this message was edited, and counts as it is now)\n")
	}
	if s.Starter != "" && newest.ID == s.Starter {
		text.WriteString("(this message started the thread)\n")
	}
	if answered, ok := s.answered(newest); ok {
		text.WriteString(s.quote(answered))
		text.WriteByte('\n')
	}
	text.WriteString(s.joined(group))
	if len(newest.Attachments) == 0 {
		return chat.Text(chat.User, text.String())
	}
	text.WriteByte('\n')
	text.WriteString(block(newest.Attachments))
	parts := []chat.Part{chat.TextPart(text.String())}
	if s.Shows != nil {
		parts = append(parts, s.shown(newest.Attachments)...)
	}
	if len(parts) == 1 {
		return chat.Text(chat.User, text.String())
	}
	return chat.Message{Role: chat.User, Parts: parts}
}

// answered returns the message that m replies to, if that is in the history, where
// other messages may follow it.
func (s Snapshot) answered(m surface.Message) (surface.Message, bool) {
	for _, a := range s.Messages {
		if m.ReplyTo != "" && a.ID == m.ReplyTo {
			own := a.FromSelf && a.RequestID != "" && a.RequestID == s.Joins
			return a, !own && a.DeletedAt == 0 && s.InHistory != nil && s.InHistory(a.ID)
		}
	}
	return surface.Message{}, false
}

// quote quotes a message in one line.
func (s Snapshot) quote(m surface.Message) string {
	content := m.Text
	if s.Names != nil {
		content = s.Names(content)
	}
	content = text.TruncateRunes(strings.Join(strings.Fields(neutralize(content)), " "), maxQuote)
	return "(in reply to " + chat.AttributionValue(m.AuthorName) + ": " + strconv.Quote(content) + ")"
}

// shown returns the attachments in the blob store that the model gets as parts. A URL may have
// expired when the model reads it.
func (s Snapshot) shown(attachments []surface.Attachment) []chat.Part {
	var parts []chat.Part
	for _, a := range attachments {
		if len(parts) == maxShown {
			break
		}
		if a.Blob == "" || !s.Shows(a.MimeType) {
			continue
		}
		data, _ := json.Marshal(a.Blob) // strings always marshal
		part := chat.Part{Type: chat.TypeImage, Data: data, MediaType: a.MimeType}
		if !strings.HasPrefix(a.MimeType, "image/") {
			part.Type, part.Filename = chat.TypeFile, a.Filename
		}
		parts = append(parts, part)
	}
	return parts
}

// joined returns the text of a group, with names instead of mentions.
func (s Snapshot) joined(group []surface.Message) string {
	var texts []string
	for _, m := range group {
		text := m.Text
		if !m.FromSelf {
			command := ""
			if m.ID == s.Messages[len(s.Messages)-1].ID {
				command = s.Command
			}
			text, _ = Addressed(text, s.SelfID, command)
		}
		if s.Names != nil {
			text = s.Names(text)
		}
		if !m.FromSelf {
			text = neutralize(text)
		}
		if text = strings.TrimSpace(text); text != "" {
			texts = append(texts, text)
		}
		if line := reactions(m.Reactions); line != "" && !m.FromSelf {
			texts = append(texts, line)
		}
	}
	return strings.Join(texts, "\n")
}

// reactions returns a line with the reactions of others, "" if there are none.
func reactions(all []surface.Reaction) string {
	var out []string
	for _, r := range all {
		if r.Mine {
			r.Count-- // an acknowledgment of ours
		}
		if r.Count > 0 {
			out = append(out, chat.AttributionValue(r.Emoji)+" "+strconv.Itoa(r.Count))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "(reactions: " + strings.Join(out, ", ") + ")"
}

// separators may follow a mention or a command.
const separators = " \t\r\n,:"

// Addressed removes a mention of us from the start of a text, and then the command.
// It reports whether there was a command.
func Addressed(text, selfID, command string) (rest string, commanded bool) {
	rest = strings.TrimSpace(text)
	for _, mention := range []string{"<@" + selfID + ">", "<@!" + selfID + ">"} {
		if after, ok := strings.CutPrefix(rest, mention); ok && selfID != "" {
			rest = strings.TrimLeft(after, separators)
			break
		}
	}
	after, ok := strings.CutPrefix(rest, command)
	about := strings.TrimLeft(after, separators)
	if ok && command != "" && (after == "" || about != after) {
		return about, true
	}
	return rest, false
}

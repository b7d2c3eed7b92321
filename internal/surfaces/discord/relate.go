package discord

import (
	"strings"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

const (
	// commentWithin is the longest time between a message and the comment on it: Discord shows
	// messages of one person within seven minutes as one. copyWithin is that between a person's
	// message and the copy of it. Both are in milliseconds.
	commentWithin = 7 * 60_000
	copyWithin    = 15_000
	// maxBetween is how many earlier messages are compared, and maxDeleted how many that were
	// deleted are kept for that.
	maxBetween = 5
	maxDeleted = 20
	// maxMarks is the length of the marks before and behind a text by which a program recognizes what it copies.
	maxMarks = 100
)

// relate finds an earlier message that belongs to a message, although Discord does not say so. If
// its author has just sent something without words, the message is a comment on it, and becomes a
// reply to it: Discord's client sends a forward and its comment as two messages, and files, polls,
// and voice messages often come alone. If a program has posted what a person wrote, in another
// name, the message is a copy: such a program (PluralKit, Tupperbox) then deletes the original.
func (r *recorder) relate(tx *db.Tx, in *incoming) error {
	if in.m.FromSelf || in.m.ReplyTo != "" {
		return nil
	}
	before, err := r.o.Tables.Messages.Messages(tx, Platform, in.m.ChannelID, in.m.ID, maxBetween)
	if in.copied != "" {
		before = append(before, r.deleted...)
	}
	for i := range before {
		b := &before[i]
		switch age := in.m.CreatedAt - b.CreatedAt; {
		case in.facts.CopyOf == "" && b.ChannelID == in.m.ChannelID && !b.AuthorBot && age <= copyWithin && isCopy(in.copied, b.Text):
			in.replace(*b)
		case i == 0 && b.AuthorID == in.m.AuthorID && age <= commentWithin && isWordless(b.Text):
			in.m.ReplyTo, in.facts.ReplyToMessageID = b.ID, b.ID
		}
	}
	return err
}

// replace makes the message a copy of a person's message. What that replies to or mentions is
// lost: a webhook cannot reply, and its mentions may be switched off.
func (in *incoming) replace(original surface.Message) {
	facts, _ := surface.FactsOf(Platform, original.Raw)
	in.facts.CopyOf, in.m.ReplyTo = original.ID, original.ReplyTo
	in.facts.ReplyToMessageID, in.facts.ReplyToBot = original.ReplyTo, facts.ReplyToBot
	in.facts.MentionsBot = in.facts.MentionsBot || facts.MentionsBot
}

// isWordless reports whether a message has only files or what [wireMessage.text] puts in brackets.
func isWordless(text string) bool { return text == "" || text[0] == '[' }

// isCopy reports whether a text is another one without the marks around it. A mention in front stays there.
func isCopy(text, original string) bool {
	if mention, rest, _ := strings.Cut(text, ">"); rest != "" && strings.HasPrefix(mention, "<@") && strings.HasPrefix(original, mention+">") {
		text, original = strings.TrimSpace(rest), strings.TrimSpace(original[len(mention)+1:])
	}
	before, behind, ok := strings.Cut(original, text)
	return ok && text != "" && isMark(before) && isMark(behind)
}

// isMark reports whether a text may be a mark. It has one word at most: otherwise, what a monitor says would be a
// copy of a question in which its words are.
func isMark(text string) bool { return len(text) <= maxMarks && len(strings.Fields(text)) <= 1 }

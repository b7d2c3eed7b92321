package surface

import "encoding/json"

// Facts are a platform's facts about a message beyond its text. Events carry them
// in their raw field under the platform's name ("raw.discord.…" in the
// request-router specification).
type Facts struct {
	IsDMBased bool `json:"isDMBased"`
	// MentionsBot reports that the message's own content mentions the bot by its id
	// or by its role. The notification of a reply does not count.
	MentionsBot bool `json:"mentionsBot"`
	// MentionAdded reports that an edit added the mention.
	MentionAdded     bool   `json:"mentionAdded,omitempty"`
	ReplyToBot       bool   `json:"replyToBot"`
	ReplyToMessageID string `json:"replyToMessageId,omitempty"`
	GuildID          string `json:"guildId,omitempty"`
	ParentChannelID  string `json:"parentChannelId,omitempty"`
	// CopyOf is the message of a person that a program has posted again as this one, to delete
	// the original.
	CopyOf string `json:"copyOf,omitempty"`
	// ForwardOnly reports that the message forwards another one and has no words of its own, which
	// often follow in a second message.
	ForwardOnly bool `json:"forwardOnly,omitempty"`
	// AuthorIsBot reports that a program wrote it, AuthorIsSelf that we did.
	AuthorIsBot  bool         `json:"authorIsBot,omitempty"`
	AuthorIsSelf bool         `json:"authorIsSelf,omitempty"`
	Attachments  []Attachment `json:"attachments,omitempty"`
	// Content is the text as the platform delivered it, with its syntax of mentions. The text
	// of an event has names instead.
	Content string `json:"content,omitempty"`
}

// Raw returns the facts in the form that events carry.
func (f Facts) Raw(platform string) json.RawMessage {
	data, _ := json.Marshal(map[string]Facts{platform: f}) // strings, numbers and flags always marshal
	return data
}

// FactsOf reads the facts of an event. It returns false if they are missing.
func FactsOf(platform string, raw json.RawMessage) (Facts, bool) {
	var all map[string]*Facts
	if json.Unmarshal(raw, &all) != nil || all[platform] == nil {
		return Facts{}, false
	}
	return *all[platform], true
}

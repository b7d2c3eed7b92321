package surface

import "encoding/json"

// Facts are what a platform says of a message beyond its text; they travel in
// the raw field of its event under the platform's name ("raw.discord.…" in the
// request-router specification).
type Facts struct {
	IsDMBased bool `json:"isDMBased"`
	// MentionsBot says that our literal id is in the text; a reply that
	// notifies us is none.
	MentionsBot      bool   `json:"mentionsBot"`
	ReplyToBot       bool   `json:"replyToBot"`
	ReplyToMessageID string `json:"replyToMessageId,omitempty"`
	GuildID          string `json:"guildId,omitempty"`
	ParentChannelID  string `json:"parentChannelId,omitempty"`
	// AuthorIsBot says that a program wrote it, AuthorIsSelf that we did.
	AuthorIsBot  bool         `json:"authorIsBot,omitempty"`
	AuthorIsSelf bool         `json:"authorIsSelf,omitempty"`
	Attachments  []Attachment `json:"attachments,omitempty"`
}

// Raw is the facts as an event carries them.
func (f Facts) Raw(platform string) json.RawMessage {
	data, _ := json.Marshal(map[string]Facts{platform: f}) // strings, numbers and flags always marshal
	return data
}

// FactsOf reads the facts of an event; false when they are missing.
func FactsOf(platform string, raw json.RawMessage) (Facts, bool) {
	var all map[string]*Facts
	if json.Unmarshal(raw, &all) != nil || all[platform] == nil {
		return Facts{}, false
	}
	return *all[platform], true
}

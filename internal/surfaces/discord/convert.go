package discord

import "lilac/internal/core/surface"

// converter turns Discord's messages into the messages of the cores.
type converter struct{ status *status }

func (c converter) message(m wireMessage) surface.Message {
	self := c.status.selfID()
	if m.Type == messageThreadStarter && m.Referenced != nil {
		// It only stands for the message that started the thread.
		m.Author, m.Member, m.WebhookID, m.Content = m.Referenced.Author, m.Referenced.Member, m.Referenced.WebhookID, m.Referenced.text()
		m.Attachments, m.Mentions, m.Reference = m.Referenced.Attachments, m.Referenced.Mentions, nil
	}
	if m.Author.ID == self {
		m.Embeds, m.Components = nil, nil // our buttons are no part of what we say
	}
	out := surface.Message{
		Platform: Platform, ChannelID: m.ChannelID, ID: m.ID,
		AuthorID: m.Author.ID, AuthorName: m.Author.name(m.Member),
		AuthorBot: m.Author.Bot || m.WebhookID != "", FromSelf: m.Author.ID == self && self != "",
		Text: m.text(), CreatedAt: millis(m.Timestamp), EditedAt: millis(m.Edited),
	}
	if m.Member != nil {
		out.AuthorRoles = m.Member.Roles
	}
	if out.CreatedAt == 0 {
		out.CreatedAt = createdAt(m.ID)
	}
	if m.Type == messageReply && m.Reference != nil && m.Reference.Type == referenceDefault &&
		(m.Reference.ChannelID == "" || m.Reference.ChannelID == m.ChannelID) {
		out.ReplyTo = m.Reference.MessageID
	}
	for _, r := range m.Reactions {
		out.Reactions = append(out.Reactions, surface.Reaction{Emoji: r.Emoji.shown(), Count: r.Count, Mine: r.Me})
	}
	attachments, mentions := m.Attachments, m.Mentions
	for _, s := range m.Snapshots {
		attachments, mentions = append(attachments, s.Message.Attachments...), append(mentions, s.Message.Mentions...)
	}
	for _, f := range attachments {
		out.Attachments = append(out.Attachments, surface.Attachment{ID: f.ID, URL: f.URL, Filename: f.name(), MimeType: f.ContentType, Size: f.Size})
	}
	for _, u := range mentions {
		out.Mentions = append(out.Mentions, surface.User{ID: u.ID, Name: u.name(u.Member), Bot: u.Bot})
	}
	return out
}

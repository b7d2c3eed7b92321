package discordtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// need finds the channel of a call and checks the bot's permissions there. Without
// VIEW_CHANNEL the call fails with Missing Access; without another permission, with
// Missing Permissions (Permissions).
func (c *call) need(p Permission) (*channel, answer, bool) {
	id := c.path("channel")
	if _, fine := snowflake(id); !fine {
		return nil, invalid("channel_id", "NUMBER_TYPE_COERCE", "Value \""+id+"\" is not snowflake."), false
	}
	ch := c.s.world.channels[id]
	if ch == nil || ch.deleted {
		return nil, unknownChannel, false
	}
	has := c.s.world.permissions(ch, c.s.world.bot.ID)
	if has&ViewChannel == 0 {
		return nil, missingAccess, false
	}
	if ch.thread() && p&SendMessages != 0 {
		p = p&^SendMessages | SendInThreads
	}
	if has&p != p {
		return nil, missingPermissions, false
	}
	return ch, answer{}, true
}

// needMessage is like need, but also finds the message that the path names.
func (c *call) needMessage(p Permission) (*channel, *message, answer, bool) {
	ch, a, fine := c.need(p)
	if !fine {
		return nil, nil, a, false
	}
	if _, fine := snowflake(c.path("message")); !fine {
		return nil, nil, invalid("message_id", "NUMBER_TYPE_COERCE", "Value \""+c.path("message")+"\" is not snowflake."), false
	}
	m := ch.find(c.path("message"))
	if m == nil {
		return nil, nil, unknownMessage, false
	}
	return ch, m, answer{}, true
}

// lockedOut reports whether the bot may not write in a thread because that is locked.
func (c *call) lockedOut(ch *channel) bool {
	return ch.locked && c.s.world.permissions(ch, c.s.world.bot.ID)&ManageThreads == 0
}

// createMessage implements Message, "Create Message". By its limitations, a reply needs
// READ_MESSAGE_HISTORY.
func createMessage(c *call) answer {
	var p payload
	if a, fine := c.readPayload(&p); !fine {
		return a
	}
	need := SendMessages
	if len(p.files) > 0 {
		need |= AttachFiles
	}
	ch, a, fine := c.need(need)
	switch {
	case !fine:
		return a
	case ch.kind == typeForum:
		return notThere
	case c.lockedOut(ch):
		return threadLocked
	case p.Reference != nil && p.Reference.MessageID != "" && c.s.world.permissions(ch, c.s.world.bot.ID)&ReadMessageHistory == 0:
		return noHistory
	}
	c.safeLocked(&p)
	now := c.s.o.Now()
	if p.EnforceNonce && p.nonce != "" {
		if m := c.s.withNonce(ch, p.nonce, now); m != nil {
			c.touched = m
			return ok(c.s.wireCreated(ch, m))
		}
	}
	replied, a, fine := p.replied(ch)
	if !fine {
		return a
	}
	m := c.s.fromPayload(ch, &p, replied)
	if m.empty() {
		return emptyMessage
	}
	c.touched = m
	c.s.addLocked(ch, m)
	return ok(c.s.wireCreated(ch, m))
}

// wireCreated encodes a message with its nonce. Only the response to Create Message and
// the MESSAGE_CREATE event contain the nonce.
func (s *core) wireCreated(ch *channel, m *message) object {
	o := s.wireMessage(ch, m, true, true)
	if m.Nonce != "" {
		o["nonce"] = m.Nonce
	}
	return o
}

// withNonce returns the message that the bot created with a nonce within the nonce
// window, or nil.
func (s *core) withNonce(ch *channel, nonce string, now time.Time) *message {
	for _, m := range slices.Backward(ch.messages) {
		if now.Sub(m.Created) >= s.o.NonceWindow {
			return nil // all earlier messages are older still
		}
		if m.Author == s.world.bot && m.Nonce == nonce {
			return m
		}
	}
	return nil
}

// replied returns the message that a payload replies to, or nil if there is none.
func (p *payload) replied(ch *channel) (*message, answer, bool) {
	r := p.Reference
	if r == nil || r.MessageID == "" {
		return nil, answer{}, true
	}
	if _, fine := snowflake(r.MessageID); !fine {
		return nil, invalid("message_reference.message_id", "NUMBER_TYPE_COERCE", "Value is not snowflake."), false
	}
	if r.ChannelID != "" && r.ChannelID != ch.id {
		return nil, invalid("message_reference.channel_id", "MESSAGE_REFERENCE_CHANNEL_ID", "Cannot reply to a message in a different channel"), false
	}
	if m := ch.find(r.MessageID); m != nil {
		if m.rich.System != 0 {
			return nil, invalid("message_reference", "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE", "Cannot reply to a system message"), false
		}
		return m, answer{}, true
	}
	if r.FailIfNotExists == nil || *r.FailIfNotExists { // the documented default is true
		return nil, invalid("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message"), false
	}
	return nil, answer{}, true
}

func (s *core) fromPayload(ch *channel, p *payload, replied *message) *message {
	m := &message{Message: Message{
		ID: s.mintLocked(), ChannelID: ch.id, Author: s.world.bot, Nonce: p.nonce, Created: s.o.Now(), Buttons: p.buttons,
	}}
	if p.Content != nil {
		m.Content = strings.TrimSpace(*p.Content)
	}
	if p.Components != nil {
		m.components = *p.Components
	}
	if p.Flags != nil {
		m.flags = *p.Flags
	}
	if replied != nil {
		m.ReplyTo, m.kind = replied.ID, messageReply
		m.repliedPing = p.AllowedMentions == nil || p.AllowedMentions.RepliedUser
	}
	for _, f := range p.files {
		m.Attachments = append(m.Attachments, s.storeLocked(ch.id, f.name, f.contentType, f.data))
	}
	m.Pings, m.mentionEveryone = s.world.pings(p, m.Content, replied)
	return m
}

func (m *message) empty() bool {
	return m.Content == "" && len(m.Attachments) == 0 && len(m.Buttons) == 0
}

// addLocked appends a message to a channel and dispatches MESSAGE_CREATE.
func (s *core) addLocked(ch *channel, m *message) {
	if ch.archived { // a new message unarchives the thread
		s.archiveLocked(ch, false)
	}
	ch.messages = append(ch.messages, m)
	ch.last = m.ID
	s.dispatchLocked("MESSAGE_CREATE", ch, intentGuildMessages, intentDirectMessages, func(ss *session) object {
		return s.wireEvent(ch, m, ss, true)
	})
}

// wireEvent encodes a message for a gateway event (Gateway Events, "Message Create").
func (s *core) wireEvent(ch *channel, m *message, ss *session, nonce bool) object {
	o := s.wireMessage(ch, m, ss.intents&intentMessageContent != 0, true)
	if nonce && m.Nonce != "" {
		o["nonce"] = m.Nonce
	}
	if ch.guild != "" {
		o["guild_id"] = ch.guild
		if mem := s.world.guilds[ch.guild].members[m.Author.ID]; mem != nil {
			o["member"] = mem.wirePartial()
		}
	}
	return o
}

// editMessage implements Message, "Edit Message".
func editMessage(c *call) answer {
	var p payload
	if a, fine := c.readPayload(&p); !fine {
		return a
	}
	ch, m, a, fine := c.needMessage(0)
	if !fine {
		return a
	}
	switch {
	case ch.archived:
		return threadArchived
	case m.Author != c.s.world.bot:
		return notAuthor
	}
	c.safeLocked(&p)
	return c.edit(ch, m, &p)
}

// oldAge and oldEdits bound the edits of old messages (Opcodes and Status Codes, JSON
// error code 30046). Discord does not document the number of edits that it allows.
const (
	oldAge   = time.Hour
	oldEdits = 3
)

func (c *call) edit(ch *channel, m *message, p *payload) answer {
	now := c.s.o.Now()
	if now.Sub(m.Created) > oldAge {
		m.oldEdits = slices.DeleteFunc(m.oldEdits, func(at time.Time) bool { return now.Sub(at) >= oldAge })
		if len(m.oldEdits) >= oldEdits {
			return refusal(http.StatusTooManyRequests, OldEdits.Code, OldEdits.Message)
		}
		m.oldEdits = append(m.oldEdits, now)
	}
	changed := *m
	if p.Content != nil {
		changed.Content = strings.TrimSpace(*p.Content)
	}
	if p.Components != nil {
		changed.components, changed.Buttons = *p.Components, p.buttons
	}
	if p.Flags != nil {
		changed.flags = *p.Flags
	}
	if p.Attachments != nil {
		changed.Attachments = keep(m.Attachments, p)
	}
	if len(changed.Attachments)+len(p.files) > maxFiles {
		return refusal(http.StatusBadRequest, 30015, "Maximum number of attachments in a message reached (10)")
	}
	if changed.empty() && len(p.files) == 0 {
		return emptyMessage
	}
	for _, f := range p.files {
		changed.Attachments = append(slices.Clip(changed.Attachments), c.s.storeLocked(ch.id, f.name, f.contentType, f.data))
	}
	changed.History = append(slices.Clip(m.History), m.Content)
	changed.Edits, changed.Edited = m.Edits+1, now
	*m = changed
	c.touched = m
	c.s.tellEditLocked(ch, m)
	return ok(c.s.wireMessage(ch, m, true, true))
}

// keep returns the attachments that an edit lists. The edit removes all others.
func keep(old []Attachment, p *payload) (kept []Attachment) {
	for _, a := range old {
		for _, named := range *p.Attachments {
			var id string
			if json.Unmarshal(named.ID, &id) == nil && id == a.ID {
				kept = append(kept, a)
			}
		}
	}
	return kept
}

func (s *core) tellEditLocked(ch *channel, m *message) {
	s.dispatchLocked("MESSAGE_UPDATE", ch, intentGuildMessages, intentDirectMessages, func(ss *session) object {
		return s.wireEvent(ch, m, ss, false)
	})
}

// deleteMessage implements Message, "Delete Message". The bot needs MANAGE_MESSAGES to
// delete messages of other users.
func deleteMessage(c *call) answer {
	ch, m, a, fine := c.needMessage(0)
	if !fine {
		return a
	}
	if m.Author != c.s.world.bot && c.s.world.permissions(ch, c.s.world.bot.ID)&ManageMessages == 0 {
		return missingPermissions
	}
	c.touched = m
	c.s.deleteLocked(ch, m)
	return done
}

func (s *core) deleteLocked(ch *channel, m *message) {
	m.Deleted = true
	s.dispatchLocked("MESSAGE_DELETE", ch, intentGuildMessages, intentDirectMessages, func(*session) object {
		return ch.refer(object{"id": m.ID})
	})
}

// refer adds the IDs of the channel and its guild to an object.
func (c *channel) refer(o object) object {
	o["channel_id"] = c.id
	if c.guild != "" {
		o["guild_id"] = c.guild
	}
	return o
}

// bulkDelete implements Message Resource, "Bulk Delete Messages": 2 to 100 messages,
// without duplicates, none older than two weeks.
func bulkDelete(c *call) answer {
	ch, a, fine := c.need(ManageMessages)
	if !fine {
		return a
	}
	var in struct {
		Messages []string `json:"messages"`
	}
	if json.Unmarshal(c.body, &in) != nil {
		return bodyNotJSON
	}
	if len(in.Messages) < 2 || len(in.Messages) > 100 {
		return invalid("messages", "BASE_TYPE_BAD_LENGTH", "Must be between 2 and 100 in length.")
	}
	limit := IDAt(c.s.o.Now().Add(-14 * 24 * time.Hour))
	for i, id := range in.Messages {
		if slices.Contains(in.Messages[:i], id) {
			return invalid("messages", "LIST_ITEM_VALUE_REQUIRED", "Message ids must be unique.")
		}
		if older(id, limit) {
			return refusal(http.StatusBadRequest, 50034, "You can only bulk delete messages that are under 14 days old.")
		}
	}
	c.s.bulkDeleteLocked(ch, in.Messages)
	return done
}

func (s *core) bulkDeleteLocked(ch *channel, ids []string) {
	for _, id := range ids {
		if m := ch.find(id); m != nil {
			m.Deleted = true
		}
	}
	s.dispatchLocked("MESSAGE_DELETE_BULK", ch, intentGuildMessages, 0, func(*session) object {
		return ch.refer(object{"ids": ids})
	})
}

func getMessage(c *call) answer {
	ch, m, a, fine := c.needMessage(ReadMessageHistory)
	if !fine {
		return a
	}
	return ok(c.s.wireMessage(ch, m, c.contentAllowed(), true))
}

// contentAllowed reports whether the developer portal grants message content. REST calls
// do not declare intents, so this setting alone decides.
func (c *call) contentAllowed() bool { return !c.s.o.WithoutMessageContent }

// listMessages implements Message, "Get Channel Messages". It lists messages newest first
// and, with after or before, those that are closest to that ID.
func listMessages(c *call) answer {
	ch, a, fine := c.need(0)
	switch {
	case !fine:
		return a
	case ch.kind == typeForum:
		return notThere
	}
	q := c.query()
	limit := 50
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return invalid("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
		}
		limit = n
	}
	bounds := 0
	for _, name := range []string{"around", "before", "after"} {
		if id := q.Get(name); id != "" && id != "0" {
			bounds++
			if _, fine := snowflake(id); !fine {
				return invalid(name, "NUMBER_TYPE_COERCE", "Value \""+id+"\" is not snowflake.")
			}
		}
	}
	if bounds > 1 {
		return invalid("before", "BASE_TYPE_EXCLUSIVE", "before, after and around are mutually exclusive.")
	}
	list := []object{}
	// Without READ_MESSAGE_HISTORY, Discord returns an empty list and no error.
	if c.s.world.permissions(ch, c.s.world.bot.ID)&ReadMessageHistory != 0 {
		for _, m := range ch.slice(q.Get("before"), q.Get("after"), q.Get("around"), limit) {
			list = append(list, c.s.wireMessage(ch, m, c.contentAllowed(), true))
		}
	}
	return ok(list)
}

// slice returns one page of the messages that still exist, newest first.
func (c *channel) slice(before, after, around string, limit int) []*message {
	var there []*message
	for _, m := range c.messages {
		if !m.Deleted {
			there = append(there, m)
		}
	}
	at := func(id string) int {
		i, _ := slices.BinarySearchFunc(there, id, func(m *message, id string) int { return compareIDs(m.ID, id) })
		return i
	}
	from, to := max(0, len(there)-limit), len(there)
	switch {
	case before != "":
		to = at(before)
		from = max(0, to-limit)
	case after != "":
		if from = at(after); from < len(there) && there[from].ID == after {
			from++
		}
		to = min(len(there), from+limit)
	case around != "":
		from = max(0, at(around)-limit/2)
		to = min(len(there), from+limit)
	}
	part := slices.Clone(there[from:to])
	slices.Reverse(part)
	return part
}

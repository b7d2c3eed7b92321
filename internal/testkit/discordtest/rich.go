package discordtest

import (
	"encoding/json"
	"time"
)

// Rich is the content of a message beside its text and files.
type Rich struct {
	// Webhook makes the author a webhook, which is in no guild.
	Webhook bool
	// Proxy makes the webhook one of a program that posts messages of people again.
	Proxy bool
	// Embeds and Components are JSON lists (Message Resource, "Embed Object" and Component
	// Reference). A component of version 2 sets the flag IS_COMPONENTS_V2.
	Embeds, Components json.RawMessage
	Poll               *Poll
	// Stickers are names.
	Stickers []string
	// Forward is the message that this one forwards.
	Forward *Message
	// Voice makes the only file a voice message.
	Voice bool
	// System is the type of a system message, such as 6 for a pin and 7 for a new member (Message
	// Resource, "Message Types"); 0 is none.
	System int
}

// Poll is a poll with the number of votes for each answer.
type Poll struct {
	Question string
	Answers  []string
	Votes    []int
}

// Message flags (Message Resource, "Message Flags").
const (
	flagVoice        = 1 << 13
	flagHasSnapshot  = 1 << 14
	flagComponentsV2 = 1 << 15
)

// rich is the server's record of a [Rich].
type rich struct {
	Rich
	forwarded *message
}

// enrichLocked sets the flags that a content needs.
func (s Script) enrichLocked(m *message, r Rich) rich {
	out := rich{Rich: r}
	if r.Components != nil {
		m.components = r.Components
		var list []struct{ Type int }
		if err := json.Unmarshal(r.Components, &list); err != nil {
			panic("discordtest: components: " + err.Error())
		}
		for _, c := range list {
			if c.Type > 8 {
				m.flags |= flagComponentsV2
			}
		}
	}
	if r.Voice {
		m.flags |= flagVoice
	}
	if r.System != 0 {
		m.kind = r.System
	}
	if r.Forward != nil {
		out.forwarded = s.world.in(r.Forward.ChannelID).mustFind(r.Forward.ID)
		m.flags |= flagHasSnapshot
	}
	return out
}

// wireRich adds the content to a message of the API.
func (s *core) wireRich(o object, m *message) {
	r := m.rich
	if r.Embeds != nil {
		o["embeds"] = r.Embeds
	}
	if r.Poll != nil {
		o["poll"] = r.Poll.wire(m.Created)
	}
	if len(r.Stickers) > 0 {
		list := []object{}
		for i, name := range r.Stickers {
			list = append(list, object{"id": IDAt(m.Created.Add(time.Duration(i) * time.Millisecond)), "name": name, "format_type": 1})
		}
		o["sticker_items"] = list
	}
	if r.Voice {
		files := []object{}
		for _, a := range m.Attachments {
			file := s.wireAttachment(a)
			file["duration_secs"], file["waveform"] = 12.4, "AAECAwQ="
			files = append(files, file)
		}
		o["attachments"] = files
	}
	if f := r.forwarded; f != nil {
		in := s.world.in(f.ChannelID)
		whole := s.wireMessage(in, f, true, false)
		snapshot := object{}
		for _, key := range []string{"content", "timestamp", "edited_timestamp", "flags", "mentions", "mention_roles", "attachments", "embeds", "type", "components", "sticker_items"} {
			if v, ok := whole[key]; ok {
				snapshot[key] = v
			}
		}
		o["message_snapshots"] = []object{{"message": snapshot}}
		ref := object{"type": 1, "channel_id": f.ChannelID, "message_id": f.ID}
		if in.guild != "" {
			ref["guild_id"] = in.guild
		}
		o["message_reference"] = ref
	}
}

// wire encodes a poll (Poll Resource, "Poll Object").
func (p *Poll) wire(created time.Time) object {
	answers, counts := []object{}, []object{}
	for i, text := range p.Answers {
		answers = append(answers, object{"answer_id": i + 1, "poll_media": object{"text": text}})
		if i < len(p.Votes) && p.Votes[i] > 0 {
			counts = append(counts, object{"id": i + 1, "count": p.Votes[i], "me_voted": false})
		}
	}
	return object{
		"question": object{"text": p.Question}, "answers": answers, "expiry": stamp(created.Add(24 * time.Hour)), "allow_multiselect": false, "layout_type": 1,
		"results": object{"answer_counts": counts, "is_finalized": false},
	}
}

// Bot creates the account of another bot in a guild.
func (s World) Bot(guildID, name string) User {
	s.mu.Lock()
	u := s.user(name, true)
	s.mu.Unlock()
	s.Join(guildID, u, "")
	return u
}

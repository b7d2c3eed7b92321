package discord

import "strings"

// wireEmbed is a box that a program wrote, or Discord for a link ("Message
// Resource", embed object).
type wireEmbed struct {
	Title       string `json:"title"`
	Description string `json:"description"`
	Fields      []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"fields"`
}

// wirePoll is a poll ("Poll Resource", poll object).
type wirePoll struct {
	Question struct {
		Text string `json:"text"`
	} `json:"question"`
	Answers []struct {
		Media struct {
			Text string `json:"text"`
		} `json:"poll_media"`
	} `json:"answers"`
}

// text is what a message says: its own words, what it forwards, stickers by their
// names, and polls.
func (m wireMessage) text() string {
	parts := words(nil, m.Content, m.Embeds)
	for _, s := range m.Snapshots {
		parts = words(parts, s.Message.Content, s.Message.Embeds)
	}
	for _, s := range m.Stickers {
		parts = append(parts, "[sticker: "+s.Name+"]")
	}
	if m.Poll != nil {
		answers := make([]string, len(m.Poll.Answers))
		for i, a := range m.Poll.Answers {
			answers[i] = a.Media.Text
		}
		parts = append(parts, "[poll: "+m.Poll.Question.Text+" ("+strings.Join(answers, " / ")+")]")
	}
	return strings.Join(parts, "\n")
}

// words adds what stands in a message. Its boxes count if there is nothing else, as
// in those of many programs; beside words they are previews of links.
func words(parts []string, content string, embeds []wireEmbed) []string {
	if content != "" {
		return append(parts, content)
	}
	for _, e := range embeds {
		for _, text := range []string{e.Title, e.Description} {
			if text != "" {
				parts = append(parts, text)
			}
		}
		for _, f := range e.Fields {
			parts = append(parts, f.Name+": "+f.Value)
		}
	}
	return parts
}

package discord

import "strings"

// wireEmbed is a rich embed of a program, or Discord's preview of a link
// ("Message Resource", embed object).
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

// text returns the readable content of a message: its own text, forwarded
// messages, the names of stickers, and polls.
func (m wireMessage) text() string {
	parts := appendContent(nil, m.Content, m.Embeds)
	for _, s := range m.Snapshots {
		parts = appendContent(parts, s.Message.Content, s.Message.Embeds)
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

// appendContent adds the content or, if there is none, the embeds, as in the
// messages of many programs. Embeds next to content are previews of links.
func appendContent(parts []string, content string, embeds []wireEmbed) []string {
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

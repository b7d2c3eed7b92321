package discord

import (
	"fmt"
	"strings"
)

const (
	// maxNested bounds how deep components are read: a container holds sections,
	// and sections hold texts.
	maxNested = 5
	// maxShown bounds the readable content of a message in bytes. Ten embeds of
	// 6,000 characters fit.
	maxShown = 64 << 10
)

// wireEmbed is a rich embed of a program, or Discord's preview of a link
// ("Message Resource", embed object).
type wireEmbed struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	URL         string `json:"url"`
	Description string `json:"description"`
	Author      struct {
		Name string `json:"name"`
	} `json:"author"`
	Fields []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"fields"`
	Footer struct {
		Text string `json:"text"`
	} `json:"footer"`
	Image struct {
		URL string `json:"url"`
	} `json:"image"`
}

// wirePoll is a poll ("Poll Resource", poll object).
type wirePoll struct {
	Question struct {
		Text string `json:"text"`
	} `json:"question"`
	Answers []struct {
		ID    int `json:"answer_id"`
		Media struct {
			Text  string    `json:"text"`
			Emoji wireEmoji `json:"emoji"`
		} `json:"poll_media"`
	} `json:"answers"`
	Results *struct {
		Counts []struct {
			ID    int `json:"id"`
			Count int `json:"count"`
		} `json:"answer_counts"`
	} `json:"results"`
}

// wireComponent is a component of a message ("Component Reference"). Each type uses
// some of the fields.
type wireComponent struct {
	Type        int             `json:"type"`
	Components  []wireComponent `json:"components"`
	Accessory   *wireComponent  `json:"accessory"`
	Component   *wireComponent  `json:"component"`
	Content     string          `json:"content"`
	Label       string          `json:"label"`
	URL         string          `json:"url"`
	Placeholder string          `json:"placeholder"`
	Description string          `json:"description"`
	Options     []struct {
		Label string `json:"label"`
	} `json:"options"`
	Items []struct {
		Description string    `json:"description"`
		Media       wireMedia `json:"media"`
	} `json:"items"`
	Media wireMedia `json:"media"`
	File  wireMedia `json:"file"`
	Name  string    `json:"name"`
}

type wireMedia struct {
	URL string `json:"url"`
}

// wireContent is what a message and a forwarded message have in common.
type wireContent struct {
	Content     string           `json:"content"`
	Flags       int              `json:"flags"`
	Attachments []wireAttachment `json:"attachments"`
	Embeds      []wireEmbed      `json:"embeds"`
	Components  []wireComponent  `json:"components"`
	Stickers    []struct {
		Name string `json:"name"`
	} `json:"sticker_items"`
	Poll     *wirePoll     `json:"poll"`
	Mentions []wireMention `json:"mentions"`
}

// text returns the readable content of a message: its own text, embeds and
// components of programs, forwarded messages, the names of stickers, and polls.
func (m wireMessage) text() string {
	var t readable
	t.content(m.wireContent, m.isProgram())
	for _, s := range m.Snapshots {
		if m.Reference != nil && m.Reference.Type == referenceForward {
			t.add("[forwarded message]")
		}
		t.content(s.Message, true) // whoever wrote it: previews of links have other types
	}
	return strings.Join(t.lines, "\n")
}

// isProgram reports whether a program other than Lilac may have written the
// message. Its embeds are then part of what it says; those of people are previews
// of links.
func (m wireMessage) isProgram() bool { return m.Author.Bot || m.WebhookID != "" || m.Content == "" }

// readable collects the lines of a text.
type readable struct {
	lines []string
	size  int
}

func (t *readable) add(line string) {
	if line = strings.TrimSpace(line); line == "" || t.size+len(line) > maxShown {
		return
	}
	t.lines, t.size = append(t.lines, line), t.size+len(line)
}

func (t *readable) content(c wireContent, program bool) {
	t.add(c.Content)
	if c.Flags&flagVoice != 0 {
		for _, a := range c.Attachments {
			t.add(fmt.Sprintf("[voice message, %.0f seconds]", a.Duration))
		}
	}
	for _, a := range c.Attachments {
		if a.Description != "" {
			t.add("[description of " + a.name() + ": " + a.Description + "]")
		}
	}
	for _, e := range c.Embeds {
		if program && (e.Type == "" || e.Type == "rich" || c.Content == "") {
			t.embed(e)
		}
	}
	if program {
		t.components(c.Components, 0)
	}
	for _, s := range c.Stickers {
		t.add("[sticker: " + s.Name + "]")
	}
	if c.Poll != nil && (c.Poll.Question.Text != "" || len(c.Poll.Answers) > 0) {
		t.add(c.Poll.text())
	}
}

func (t *readable) embed(e wireEmbed) {
	t.add(e.Author.Name)
	switch {
	case e.Title != "" && e.URL != "":
		t.add(e.Title + " (" + e.URL + ")")
	default:
		t.add(e.Title)
	}
	t.add(e.Description)
	for _, f := range e.Fields {
		if f.Name != "" || f.Value != "" {
			t.add(f.Name + ": " + f.Value)
		}
	}
	if e.Image.URL != "" {
		t.add("[image: " + e.Image.URL + "]")
	}
	t.add(e.Footer.Text)
}

// Component types ("Component Reference", component types), beside those of the
// writer.
const (
	componentSection   = 9
	componentText      = 10
	componentThumbnail = 11
	componentGallery   = 12
	componentFile      = 13
	componentContainer = 17
	componentLabel     = 18
)

func (t *readable) components(components []wireComponent, depth int) {
	if depth == maxNested {
		return
	}
	for _, c := range components {
		switch c.Type {
		case componentButton:
			label := c.Label
			if c.URL != "" {
				label = strings.TrimSpace(label + " (" + c.URL + ")")
			}
			if label != "" {
				t.add("[button: " + label + "]")
			}
		case componentText:
			t.add(c.Content)
		case componentThumbnail:
			t.add(media("image", c.Description, c.Media.URL))
		case componentGallery:
			for _, i := range c.Items {
				t.add(media("image", i.Description, i.Media.URL))
			}
		case componentFile:
			t.add(media("file", c.Name, c.File.URL))
		case componentRow, componentSection, componentContainer, componentLabel:
			t.add(c.Label)
			t.components(c.Components, depth+1)
			for _, inner := range []*wireComponent{c.Accessory, c.Component} {
				if inner != nil {
					t.components([]wireComponent{*inner}, depth+1)
				}
			}
		default: // a select menu, a separator, or a type that Discord adds
			labels := make([]string, len(c.Options))
			for i, o := range c.Options {
				labels[i] = o.Label
			}
			if what := strings.TrimSpace(c.Placeholder + " " + strings.Join(labels, " / ")); what != "" {
				t.add("[menu: " + what + "]")
			}
			t.add(c.Content)
		}
	}
}

func media(kind, description, address string) string {
	if what := strings.TrimSpace(description + " " + address); what != "" {
		return "[" + kind + ": " + what + "]"
	}
	return ""
}

// text returns a poll with its answers and, once people have voted, their numbers.
func (p wirePoll) text() string {
	answers := make([]string, len(p.Answers))
	for i, a := range p.Answers {
		answers[i] = strings.TrimSpace(a.Media.Emoji.shown() + " " + a.Media.Text)
		if p.Results == nil {
			continue
		}
		count := 0
		for _, c := range p.Results.Counts {
			if c.ID == a.ID {
				count = c.Count
			}
		}
		answers[i] += fmt.Sprintf(": %d", count)
	}
	return "[poll: " + p.Question.Text + " (" + strings.Join(answers, " / ") + ")]"
}

// shown returns the emoji as people write it.
func (e wireEmoji) shown() string {
	if e.ID == "" {
		return e.Name
	}
	return ":" + e.Name + ":"
}

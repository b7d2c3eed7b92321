package openaiapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// message is a message of a client, of both APIs.
type message struct {
	Type    string  `json:"type"`
	ID      string  `json:"id"`
	Role    string  `json:"role"`
	Content content `json:"content"`
	// Output is the result of a tool call, of responses.
	Output content `json:"output"`
}

// content is a text or a list of parts.
type content []part

// part is a part of a message, of both APIs.
type part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text"`
	Refusal  string    `json:"refusal"`
	ImageURL *imageURL `json:"image_url"`
	File     *fileData `json:"file"`
	fileData
	InputAudio *struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
}

type fileData struct {
	Data     string `json:"file_data"`
	Filename string `json:"filename"`
}

// imageURL is an object in chat completions and a text in responses.
type imageURL struct{ URL string }

// UnmarshalJSON implements [json.Unmarshaler].
func (u *imageURL) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		return json.Unmarshal(data, &u.URL)
	}
	var object struct {
		URL string `json:"url"`
	}
	err := json.Unmarshal(data, &object)
	u.URL = object.URL
	return err
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *content) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("null")):
		*c = nil
		return nil
	case bytes.HasPrefix(data, []byte(`"`)):
		var text string
		err := json.Unmarshal(data, &text)
		*c = content{{Type: "text", Text: text}}
		return err
	}
	return json.Unmarshal(data, (*[]part)(c))
}

// text returns the texts of a content.
func (c content) text() string {
	var out []string
	for _, p := range c {
		if t := p.Text + p.Refusal; t != "" {
			out = append(out, t)
		}
	}
	return strings.Join(out, "\n")
}

// file is a file of a message.
type file struct {
	name, mediaType string
	data            []byte
}

// files returns the files of a content.
func (c content) files(field string) (out []file, err error) {
	for i, p := range c {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch p.Type {
		case "text", "input_text", "output_text", "refusal", "":
		case "image_url", "input_image":
			if p.ImageURL == nil {
				return nil, fault.InvalidField(at, "The picture has no image_url. Files that were uploaded before are not supported.")
			}
			f, err := fromDataURL(at+".image_url", p.ImageURL.URL, fmt.Sprintf("picture-%d", i+1))
			if err != nil {
				return nil, err
			}
			out = append(out, f)
		case "file", "input_file":
			from := p.fileData
			if p.File != nil {
				from = *p.File
			}
			if from.Data == "" {
				return nil, fault.InvalidField(at, "The file has no file_data. Files that were uploaded before are not supported.")
			}
			f, err := fromDataURL(at+".file_data", from.Data, from.Filename)
			if err != nil {
				return nil, err
			}
			out = append(out, f)
		case "input_audio":
			if p.InputAudio == nil {
				return nil, fault.InvalidField(at, "The recording is missing.")
			}
			data, err := base64.StdEncoding.DecodeString(p.InputAudio.Data)
			if err != nil {
				return nil, fault.InvalidField(at+".input_audio.data", "The recording is not valid base64.")
			}
			out = append(out, file{"recording." + cleanName(p.InputAudio.Format), "audio/" + cleanName(p.InputAudio.Format), data})
		default:
			return nil, fault.InvalidField(at+".type", "Parts of the type %q are not supported.", p.Type)
		}
	}
	return out, nil
}

// fromDataURL reads a file from a data URL. Other addresses are not fetched: a client could
// make Lilac reach what the client cannot.
func fromDataURL(field, raw, name string) (file, error) {
	rest, isData := strings.CutPrefix(raw, "data:")
	head, body, found := strings.Cut(rest, ",")
	if !isData || !found {
		return file{}, fault.InvalidField(field, "Only data URLs are supported (data:image/png;base64,…).")
	}
	head, encoded := strings.CutSuffix(head, ";base64")
	data := []byte(body)
	if encoded {
		var err error
		if data, err = base64.StdEncoding.DecodeString(body); err != nil {
			return file{}, fault.InvalidField(field, "The data is not valid base64.")
		}
	}
	mediaType, _, err := mime.ParseMediaType(head)
	if err != nil {
		return file{}, fault.InvalidField(field, "%q is not a media type.", head)
	}
	if name = cleanName(name); !strings.Contains(name, ".") {
		_, kind, _ := strings.Cut(mediaType, "/")
		name += "." + cleanName(kind)
	}
	return file{name, mediaType, data}, nil
}

// cleanName returns a name without a path.
func cleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\`, r) || r < ' ' {
			return '-'
		}
		return r
	}, name)
	if name == "" || strings.Trim(name, ".") == "" {
		return "file"
	}
	return name[:min(len(name), 200)]
}

// conversation has the parts of a client's messages that Lilac tells apart.
type conversation struct {
	// instructions are those of the client for a conversation that begins.
	instructions string
	// said has all messages without instructions.
	said []*message
	// earlier has the messages before, for a conversation that begins in the middle.
	earlier []*message
	prompt  string
	files   []file
	// reference is the last item of an answer that the client names instead of repeating it.
	reference string
}

// divide separates the instructions and the newest words of the user from what was said
// before.
func (c *conversation) divide(client Client, q *question) error {
	ignored, err := q.ignore(client)
	if err != nil {
		return err
	}
	var system []string
	if q.instructions != "" {
		system = append(system, q.instructions)
	}
	field, messages := q.field, q.messages
	var said []*message
	for i := range messages {
		m := &messages[i]
		if m.Role == "system" && i > 0 && i == len(messages)-1 { // NextChat asks for a summary in this way
			m.Role = "user"
		}
		switch {
		case m.Type == "item_reference":
			c.reference = m.ID
			said = append(said, &message{Role: "assistant"}) // the messages before it are not new
		case m.Type == "reasoning", m.Type == "function_call": // of another model: it has no words for this one
		case m.Type == "function_call_output":
			said = append(said, &message{Role: "tool", Content: m.Output})
		case m.Type != "" && m.Type != "message":
			return fault.InvalidField(fmt.Sprintf("%s[%d].type", field, i), "Entries of the type %q are not supported: Lilac's tools are its own.", m.Type)
		case m.Role == "system" || m.Role == "developer":
			system = append(system, m.Content.text())
		case m.Role == "user" || m.Role == "assistant" || m.Role == "tool":
			said = append(said, m)
		default:
			return fault.InvalidField(fmt.Sprintf("%s[%d].role", field, i), "The role %q is not supported.", m.Role)
		}
	}
	if ignored {
		system = append(system, toolsNote)
	}
	first := len(said)
	for first > 0 && said[first-1].Role == "user" {
		first--
	}
	c.said, c.earlier = said, said[:first]
	var texts []string
	for i, m := range said[first:] {
		if text := m.Content.text(); text != "" {
			texts = append(texts, text)
		}
		files, err := m.Content.files(fmt.Sprintf("%s[%d].content", field, len(messages)-len(said)+first+i))
		if err != nil {
			return err
		}
		c.files = append(c.files, files...)
	}
	if strings.TrimSpace(strings.Join(texts, "")) == "" { // programs let people send a picture alone
		texts = nil
		for _, f := range c.files {
			texts = append(texts, f.name)
		}
	}
	c.prompt, c.instructions = strings.Join(texts, "\n\n"), strings.Join(system, "\n\n")
	switch {
	case c.prompt == "":
		return fault.InvalidField(field, "The last message must be one of the user, with a text or a file.")
	case len(c.prompt) > maxPrompt:
		return fault.InvalidField(field, "The newest message has more than %d bytes.", maxPrompt)
	case len(c.instructions) > session.MaxInstructions:
		return fault.InvalidField(field, "The instructions have more than %d bytes.", session.MaxInstructions)
	case len(c.files) > maxFiles:
		return fault.InvalidField(field, "There are more than %d files.", maxFiles)
	}
	return nil
}

const (
	// maxPrompt bounds the text of a prompt, in bytes, and maxFiles its files. All files
	// have at most maxBody.
	maxPrompt = 1 << 20
	maxFiles  = 20
	// maxEarlier bounds what was said before in a new conversation, in bytes; the oldest
	// part is left out.
	maxEarlier = 512 << 10
)

// opening returns the prompt of a new conversation: if it begins in the middle, the client's
// record of what was said before comes first.
func (c *conversation) opening() string {
	if len(c.earlier) == 0 {
		return c.prompt
	}
	var b strings.Builder
	for _, m := range c.earlier {
		if text := m.Content.text(); text != "" { // a call of a tool has none
			fmt.Fprintf(&b, "%s: %s\n\n", m.Role, text)
		}
	}
	before := b.String()
	if len(before) > maxEarlier {
		before = "…" + strings.ToValidUTF8(before[len(before)-maxEarlier:], "")
	}
	return "This conversation began elsewhere. What was said before, as the client sent it:\n\n" + before + "---\n\nThe new message:\n\n" + c.prompt
}

// keep stores files and returns their parts.
func (h *Handler) keep(ctx context.Context, files []file) (parts []chat.Part, err error) {
	for _, f := range files {
		ref, err := h.o.Blobs.Put(ctx, f.data)
		if err != nil {
			return nil, fmt.Errorf("store a file of a client: %w", err)
		}
		quoted, err := json.Marshal(ref)
		if err != nil {
			return nil, fmt.Errorf("encode a file of a client: %w", err)
		}
		parts = append(parts, chat.Part{Type: chat.TypeFile, Data: quoted, MediaType: f.mediaType, Filename: f.name})
	}
	return parts, nil
}

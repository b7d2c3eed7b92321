package discordtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Limits of a message.
const (
	maxContent     = 2000     // Message Resource, "Create Message"; we count UTF-16 code units, the strictest reading
	maxFiles       = 10       // Opcodes and Status Codes, JSON error code 30015
	maxRequestSize = 25 << 20 // Message Resource, "Create Message", Limitations
	maxFileSize    = 10 << 20 // API Reference, "Uploading Files"
	maxNonce       = 25       // Message Resource, "Create Message"
	maxMentions    = 100      // Message Resource, "Allowed Mentions Object"

	// settable is the set of flags that a new message may have: SUPPRESS_EMBEDS,
	// SUPPRESS_NOTIFICATIONS, IS_VOICE_MESSAGE and IS_COMPONENTS_V2 ("Create Message"),
	// and EPHEMERAL in a response to an interaction.
	settable = 1<<2 | 1<<12 | 1<<13 | 1<<15 | flagEphemeral
)

type allowedMentions struct {
	Parse       *[]string `json:"parse"`
	Roles       []string  `json:"roles"`
	Users       []string  `json:"users"`
	RepliedUser bool      `json:"replied_user"`
}

type reference struct {
	Type            int    `json:"type"`
	MessageID       string `json:"message_id"`
	ChannelID       string `json:"channel_id"`
	GuildID         string `json:"guild_id"`
	FailIfNotExists *bool  `json:"fail_if_not_exists"`
}

// payload is a message that the bot sends. A nil pointer means that the field is absent.
type payload struct {
	Content         *string            `json:"content"`
	Nonce           json.RawMessage    `json:"nonce"`
	EnforceNonce    bool               `json:"enforce_nonce"`
	TTS             bool               `json:"tts"`
	Embeds          *[]json.RawMessage `json:"embeds"`
	AllowedMentions *allowedMentions   `json:"allowed_mentions"`
	Reference       *reference         `json:"message_reference"`
	Components      *json.RawMessage   `json:"components"`
	Attachments     *[]struct {
		ID       json.RawMessage `json:"id"`
		Filename string          `json:"filename"`
	} `json:"attachments"`
	Flags      *int     `json:"flags"`
	StickerIDs []string `json:"sticker_ids"`

	files []upload
	// nonce is the decoded Nonce.
	nonce   string
	buttons []Button
}

type upload struct {
	name, contentType string
	data              []byte
}

// readPayload decodes a JSON body, or a form with payload_json and files[n] (Reference,
// "Uploading Files"). It returns Discord's error for payloads that Discord rejects.
func (c *call) readPayload(into *payload) (answer, bool) {
	if len(c.body) > maxRequestSize {
		return tooLarge, false
	}
	kind, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil {
		return bodyNotJSON, false
	}
	data := c.body
	if kind == "multipart/form-data" {
		if data, into.files, err = readForm(c.body, params["boundary"]); err != nil {
			return refusal(http.StatusBadRequest, 50035, "Invalid Form Body"), false
		}
	} else if kind != "application/json" {
		return refusal(http.StatusBadRequest, 50035, "Expected \"Content-Type\" header to be one of {'application/json'}."), false
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, into); err != nil {
			return bodyNotJSON, false
		}
	}
	return c.validate(into)
}

func readForm(body []byte, boundary string) (payloadJSON []byte, files []upload, err error) {
	form := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return payloadJSON, files, nil
		}
		if err != nil {
			return nil, nil, err
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case part.FormName() == "payload_json":
			payloadJSON = data
		case strings.HasPrefix(part.FormName(), "files["):
			files = append(files, upload{name: part.FileName(), contentType: part.Header.Get("Content-Type"), data: data})
		}
	}
}

func (c *call) validate(p *payload) (answer, bool) {
	if p.Content != nil && units(*p.Content) > maxContent {
		return invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length."), false
	}
	if len(p.files) > maxFiles {
		return refusal(http.StatusBadRequest, 30015, "Maximum number of attachments in a message reached (10)"), false
	}
	for _, f := range p.files {
		if len(f.data) > c.maxFileSize() {
			return tooLarge, false
		}
		if f.name == "" {
			return invalid("attachments", "BASE_TYPE_REQUIRED", "This field is required"), false
		}
	}
	if a, fine := p.readNonce(); !fine {
		return a, false
	}
	if m := p.AllowedMentions; m != nil {
		if a, fine := m.validate(); !fine {
			return a, false
		}
	}
	if p.Components != nil {
		if a, fine := p.readComponents(); !fine {
			return a, false
		}
	}
	return answer{}, true
}

// maxFileSize returns the limit of one file: servers with many boosts have a higher one.
func (c *call) maxFileSize() int {
	if ch := c.s.world.channels[c.path("channel")]; ch != nil && ch.guild != "" {
		switch c.s.world.guilds[ch.guild].tier {
		case 2:
			return 50 << 20
		case 3:
			return 100 << 20
		}
	}
	return maxFileSize
}

// units returns the length in UTF-16 code units, which is what Discord clients count.
func units(text string) int { return len(utf16.Encode([]rune(text))) }

func (p *payload) readNonce() (answer, bool) {
	if len(p.Nonce) == 0 || string(p.Nonce) == "null" {
		return answer{}, true
	}
	if json.Unmarshal(p.Nonce, &p.nonce) != nil {
		n, err := strconv.ParseInt(string(p.Nonce), 10, 64)
		if err != nil {
			return invalid("nonce", "NONCE_TYPE_INVALID", "Nonce must be a string or an integer."), false
		}
		p.nonce = strconv.FormatInt(n, 10)
	}
	if len(p.nonce) > maxNonce {
		return invalid("nonce", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length."), false
	}
	return answer{}, true
}

// validate implements Message, "Allowed Mentions Reference".
func (m *allowedMentions) validate() (answer, bool) {
	parse := []string{}
	if m.Parse != nil {
		parse = *m.Parse
	}
	for _, kind := range parse {
		if !slices.Contains([]string{"roles", "users", "everyone"}, kind) {
			return invalid("allowed_mentions.parse", "BASE_TYPE_CHOICES", "Value must be one of {'roles', 'users', 'everyone'}."), false
		}
	}
	for kind, ids := range map[string][]string{"users": m.Users, "roles": m.Roles} {
		if len(ids) > maxMentions {
			return invalid("allowed_mentions."+kind, "BASE_TYPE_MAX_LENGTH", "Must be 100 or fewer in length."), false
		}
		if len(ids) > 0 && slices.Contains(parse, kind) {
			return invalid("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", "parse:[\""+kind+"\"] and "+kind+": [ids...] are mutually exclusive."), false
		}
		for _, id := range ids {
			if _, fine := snowflake(id); !fine {
				return invalid("allowed_mentions."+kind, "NUMBER_TYPE_COERCE", "Value \""+id+"\" is not snowflake."), false
			}
		}
	}
	return answer{}, true
}

// safeLocked records a violation if a message does not restrict its mentions. Lilac's
// messages always contain parse: [], because a model could otherwise ping everyone.
func (c *call) safeLocked(p *payload) {
	if p.Flags != nil && *p.Flags&^settable != 0 {
		c.s.violateLocked("%s: flags %b, of which some cannot be set", c.route, *p.Flags)
	}
	if c.s.o.AllowUnsafeMentions {
		return
	}
	switch m := p.AllowedMentions; {
	case m == nil:
		c.s.violateLocked("%s: no allowed_mentions: the text may ping everyone", c.route)
	case m.Parse == nil || len(*m.Parse) > 0:
		c.s.violateLocked("%s: allowed_mentions without parse: []", c.route)
	case len(m.Roles) > 0:
		c.s.violateLocked("%s: allowed_mentions names roles", c.route)
	}
}

var everyone = regexp.MustCompile(`@(everyone|here)`)

// pings returns the IDs of the users that a message notifies, and whether it notifies
// everyone.
func (w *world) pings(p *payload, content string, replied *message) (users []string, all bool) {
	named := w.mentioned(content)
	m := p.AllowedMentions
	for _, u := range named {
		if m == nil || m.Parse != nil && slices.Contains(*m.Parse, "users") || slices.Contains(m.Users, u.ID) {
			users = append(users, u.ID)
		}
	}
	// Without allowed_mentions, a reply pings the author of the original message.
	if replied != nil && (m == nil || m.RepliedUser) && !slices.Contains(users, replied.Author.ID) {
		users = append(users, replied.Author.ID)
	}
	all = everyone.MatchString(content) && (m == nil || m.Parse != nil && slices.Contains(*m.Parse, "everyone"))
	return users, all
}

package discordtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Interaction types and callback types (Receiving and Responding, "Interaction Type",
// "Interaction Callback Type"), and a message flag (Message Resource, "Message Flags").
const (
	interactionCommand   = 2
	interactionComponent = 3
	interactionTyping    = 4 // autocomplete

	replyMessage        = 4
	replyDeferred       = 5
	replyDeferredUpdate = 6
	replyUpdate         = 7
	replyChoices        = 8

	flagEphemeral = 1 << 6
)

const (
	// answerWithin is the deadline for the first response to an interaction. tokenLife is
	// how long the interaction token is valid ("Interaction Callback").
	answerWithin = 3 * time.Second
	tokenLife    = 15 * time.Minute
)

// Interaction is a pressed button or an invoked command, with the bot's responses.
type Interaction struct {
	ID string
	At time.Time
	// Acked reports whether the bot responded in time. Kind is the callback type: 4
	// message, 5 deferred message, 6 deferred update, 7 update of the message, 8 choices.
	Acked bool
	Kind  int
	// Choices are the suggested values of an autocompletion.
	Choices []string
	// Messages are the responses in order. Ephemeral ones are visible only here.
	Messages []Message
	// Ephemeral reports whether only the invoking user can see the first response.
	Ephemeral bool
}

type interaction struct {
	Interaction
	token   string
	typing  bool // an autocompletion
	channel *channel
	on      *message // message whose button was pressed, or nil
	first   *message // the "@original" response
	later   []*message
}

func (i *interaction) copied() Interaction {
	c := i.Interaction
	c.Messages = nil
	if i.first != nil {
		c.Messages = append(c.Messages, i.first.copied())
	}
	for _, m := range i.later {
		c.Messages = append(c.Messages, m.copied())
	}
	return c
}

// interactLocked dispatches INTERACTION_CREATE, which needs no intent.
func (s *core) interactLocked(ch *channel, u User, kind int, data object, on *message) string {
	id := s.mintLocked()
	i := &interaction{Interaction: Interaction{ID: id, At: s.o.Now()}, token: "interaction-token-" + id, typing: kind == interactionTyping, channel: ch, on: on}
	s.world.interactions[i.token] = i
	o := ch.refer(object{
		"id": id, "application_id": s.world.applicationID, "type": kind, "token": i.token, "version": 1, "data": data,
		"channel": ch.wire(), "app_permissions": s.world.permissions(ch, s.world.bot.ID).String(), "locale": "en-US", "entitlements": []object{},
		"authorizing_integration_owners": object{"0": ch.guild}, "context": 0, "attachment_size_limit": maxFileSize,
	})
	if on != nil {
		o["message"] = s.wireMessage(ch, on, true, true)
	}
	if ch.kind == typeDM {
		o["user"], o["context"], o["authorizing_integration_owners"] = u.wire(), 1, object{"0": "0"}
	} else {
		m := s.world.guilds[ch.guild].members[u.ID].wire()
		m["permissions"] = s.world.permissions(ch, u.ID).String()
		o["member"], o["guild_locale"] = m, "en-US"
	}
	s.dispatchLocked("INTERACTION_CREATE", ch, 0, 0, func(*session) object { return maps.Clone(o) })
	return id
}

func interactionCallback(c *call) answer {
	i := c.s.world.interactions[c.path("token")]
	if i == nil || i.ID != c.path("interaction") || c.s.o.Now().Sub(i.At) > c.s.o.AnswerWithin {
		return unknownInteraction
	}
	if i.Acked {
		return acknowledged
	}
	var in struct {
		Type int             `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(c.body, &in) != nil {
		return bodyNotJSON
	}
	if i.typing != (in.Type == replyChoices) {
		return invalid("type", "INTERACTION_TYPE", "An autocompletion is answered with choices, and nothing else is.")
	}
	if i.typing {
		return c.suggest(i, in.Data)
	}
	var p payload
	if len(in.Data) > 0 {
		if json.Unmarshal(in.Data, &p) != nil {
			return bodyNotJSON
		}
		if a, fine := c.validate(&p); !fine {
			return a
		}
	}
	switch in.Type {
	case replyMessage:
		if a, fine := c.respond(i, &p); !fine {
			return a
		}
	case replyDeferred:
		if p.Flags != nil && *p.Flags&^flagEphemeral != 0 {
			c.s.violateLocked("%s: a deferred answer takes no flags but EPHEMERAL", c.route)
		}
		i.Ephemeral = p.Flags != nil && *p.Flags&flagEphemeral != 0
	case replyDeferredUpdate, replyUpdate:
		if i.on == nil { // "only valid for component-based interactions"
			return invalid("type", "INTERACTION_TYPE", "There is no message to update.")
		}
		if in.Type == replyDeferredUpdate {
			break
		}
		c.safeLocked(&p)
		if a := c.edit(i.channel, i.on, &p); a.status >= 400 {
			return a
		}
	default:
		return invalid("type", "BASE_TYPE_CHOICES", "Value must be one of {4, 5, 6, 7}.")
	}
	i.Acked, i.Kind = true, in.Type
	if c.query().Get("with_response") != "true" {
		return done
	}
	return ok(c.wireCallback(i))
}

// wireCallback encodes what a callback did ("Interaction Callback Response Object").
func (c *call) wireCallback(i *interaction) object {
	kind := interactionCommand
	if i.on != nil {
		kind = interactionComponent
	}
	o := object{"interaction": object{"id": i.ID, "type": kind}}
	m := i.first
	if i.Kind == replyUpdate {
		m = i.on
	}
	if m != nil {
		o["resource"] = object{"type": i.Kind, "message": c.s.wireMessage(i.channel, m, true, true)}
	}
	return o
}

// Limits of choices ("Application Command Object", option choice).
const (
	maxChoices = 25
	maxChoice  = 100
)

// suggest takes the choices of an autocompletion.
func (c *call) suggest(i *interaction, data json.RawMessage) answer {
	var in struct {
		Choices []struct{ Name, Value string } `json:"choices"`
	}
	if json.Unmarshal(data, &in) != nil {
		return bodyNotJSON
	}
	if len(in.Choices) > maxChoices {
		return invalid("data.choices", "BASE_TYPE_BAD_LENGTH", "Must be 25 or fewer in length.")
	}
	for _, choice := range in.Choices {
		if n := len([]rune(choice.Name)); n < 1 || n > maxChoice || len([]rune(choice.Value)) > maxChoice {
			return invalid("data.choices", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
		}
		i.Choices = append(i.Choices, choice.Value)
	}
	i.Acked, i.Kind = true, replyChoices
	return done
}

// respond creates the first response. An ephemeral response is not added to the channel.
func (c *call) respond(i *interaction, p *payload) (answer, bool) {
	c.safeLocked(p)
	m := c.s.fromPayload(i.channel, p, nil)
	m.kind = messageCommand
	if m.empty() {
		return emptyMessage, false
	}
	i.first = m
	i.Ephemeral = i.Ephemeral || m.flags&flagEphemeral != 0
	if !i.Ephemeral {
		c.touched = m
		c.s.addLocked(i.channel, m)
	}
	return answer{}, true
}

// webhook finds the interaction for the token in the path and reports whether the token
// is still valid.
func (c *call) webhook() (*interaction, bool) {
	i := c.s.world.interactions[c.path("token")]
	return i, i != nil && i.Acked && c.ownApplication() && c.s.o.Now().Sub(i.At) <= tokenLife
}

// followUp implements "Create Followup Message". After a deferred response, the first
// follow-up replaces the deferred message.
func followUp(c *call) answer {
	i, found := c.webhook()
	if !found {
		return unknownWebhook
	}
	var p payload
	if a, fine := c.readPayload(&p); !fine {
		return a
	}
	if i.Kind == replyDeferred && i.first == nil {
		if a, fine := c.respond(i, &p); !fine {
			return a
		}
		return ok(c.s.wireMessage(i.channel, i.first, true, true))
	}
	c.safeLocked(&p)
	m := c.s.fromPayload(i.channel, &p, nil)
	if m.empty() {
		return emptyMessage
	}
	i.later = append(i.later, m)
	if m.flags&flagEphemeral == 0 {
		c.s.addLocked(i.channel, m)
	}
	return ok(c.s.wireMessage(i.channel, m, true, true))
}

// response finds the interaction response that the path names.
func (c *call) response() (*interaction, *message, bool) {
	i, found := c.webhook()
	if !found {
		return nil, nil, false
	}
	id := c.path("message")
	if id == "@original" {
		if i.first == nil && (i.Kind == replyUpdate || i.Kind == replyDeferredUpdate) {
			return i, i.on, true
		}
		return i, i.first, true
	}
	for _, m := range append(i.later, i.first) {
		if m != nil && m.ID == id {
			return i, m, true
		}
	}
	return i, nil, true
}

func getResponse(c *call) answer {
	i, m, found := c.response()
	switch {
	case !found:
		return unknownWebhook
	case m == nil:
		return unknownMessage
	}
	return ok(c.s.wireMessage(i.channel, m, true, true))
}

func editResponse(c *call) answer {
	i, m, found := c.response()
	if !found {
		return unknownWebhook
	}
	var p payload
	if a, fine := c.readPayload(&p); !fine {
		return a
	}
	if m == nil && i.Kind == replyDeferred && c.path("message") == "@original" {
		if a, fine := c.respond(i, &p); !fine {
			return a
		}
		return ok(c.s.wireMessage(i.channel, i.first, true, true))
	}
	if m == nil {
		return unknownMessage
	}
	c.safeLocked(&p)
	return c.edit(i.channel, m, &p)
}

func deleteResponse(c *call) answer {
	i, m, found := c.response()
	switch {
	case !found:
		return unknownWebhook
	case m == nil:
		return unknownMessage
	}
	c.s.deleteLocked(i.channel, m)
	return done
}

// Press presses a button of a message, identified by its custom ID, and returns the ID of
// the interaction.
func (s Script) Press(channelID, messageID, userID, buttonID string) (interactionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.world.in(channelID)
	m := ch.find(messageID)
	if m == nil {
		panic("discordtest: no message " + messageID)
	}
	for _, b := range m.Buttons {
		if b.ID == buttonID && !b.Disabled {
			return s.interactLocked(ch, s.world.who(userID), interactionComponent, object{"component_type": componentButton, "custom_id": buttonID, "id": 1}, m)
		}
	}
	panic(fmt.Sprintf("discordtest: message %s has no button %q that can be pressed", messageID, buttonID))
}

// Slash invokes a slash command with string options and returns the ID of the
// interaction.
func (s Script) Slash(channelID, userID, name string, options map[string]string) (interactionID string) {
	command := s.command(name, commandSlash)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []object{}
	for key, value := range options {
		list = append(list, object{"name": key, "type": 3, "value": value})
	}
	data := object{"id": command, "name": name, "type": commandSlash, "options": list}
	return s.interactLocked(s.world.in(channelID), s.world.who(userID), interactionCommand, data, nil)
}

// Complete types the value of an option of a slash command and returns the ID of the
// interaction. The option must have been registered with autocompletion.
func (s Script) Complete(channelID, userID, name, option, value string) (interactionID string) {
	command := s.command(name, commandSlash)
	s.mu.Lock()
	defer s.mu.Unlock()
	data := object{
		"id": command, "name": name, "type": commandSlash,
		"options": []object{{"name": option, "type": 3, "value": value, "focused": true}},
	}
	return s.interactLocked(s.world.in(channelID), s.world.who(userID), interactionTyping, data, nil)
}

// Menu invokes a message command from the context menu and returns the ID of the
// interaction.
func (s Script) Menu(channelID, messageID, userID, name string) (interactionID string) {
	command := s.command(name, commandMessage)
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.world.in(channelID)
	m := ch.find(messageID)
	if m == nil {
		panic("discordtest: no message " + messageID)
	}
	data := object{
		"id": command, "name": name, "type": commandMessage, "target_id": messageID,
		"resolved": object{"messages": object{messageID: s.wireMessage(ch, m, true, true)}},
	}
	return s.interactLocked(ch, s.world.who(userID), interactionCommand, data, nil)
}

// command waits until the bot has registered a command, because users see only registered commands,
// and returns its ID. It panics after a minute.
func (s Script) command(name string, kind int) (id string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := Observer(s).Wait(ctx, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.IndexFunc(s.world.commands, func(cmd object) bool { return cmd["name"] == name && cmd["type"] == kind })
		if i >= 0 {
			id = s.world.commands[i]["id"].(string)
		}
		return i >= 0
	})
	if err != nil {
		panic(fmt.Sprintf("discordtest: no command %q was registered within %v", name, patience))
	}
	return id
}

// Interaction returns the interaction with an ID.
func (s Observer) Interaction(id string) Interaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.world.interactions {
		if i.ID == id {
			return i.copied()
		}
	}
	panic("discordtest: no interaction " + id)
}

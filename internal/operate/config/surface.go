package config

import (
	"errors"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/surfaces/discord"
)

// Surface configures the platforms on which people talk to the agent.
type Surface struct {
	Discord  discord.Settings `json:"discord,omitempty" jsonschema:"Discord. Without a token, it is off."`
	Web      LocalSurface     `json:"web,omitempty" jsonschema:"The web page and the API."`
	Terminal LocalSurface     `json:"terminal,omitempty" jsonschema:"Conversations of lilac chat, and of editors (lilac acp)."`
}

// A LocalSurface configures a surface of the server itself.
type LocalSurface struct {
	Tools grant.Config `json:"tools,omitempty" jsonschema:"What requests in its conversations may use."`
}

// Entity configures the names of people and conversations.
type Entity struct {
	Users    EntityNames `json:"users,omitempty" jsonschema:"People. In the agent's texts, @name mentions the person."`
	Roles    EntityNames `json:"roles,omitempty" jsonschema:"Roles of people, for policy."`
	Sessions EntityNames `json:"sessions,omitempty" jsonschema:"Conversations. In the agent's texts, #name links the conversation."`
}

// EntityNames holds names by platform.
type EntityNames struct {
	Discord map[string]string `json:"discord,omitempty" jsonschema:"Discord IDs by name."`
}

// checkSurface validates the settings of the platforms.
func (c checker) checkSurface() error {
	token := &c.Surface.Discord.Token
	*token = Secret(strings.TrimSpace(token.Reveal()))
	found := []error{c.Surface.Discord.Check(), c.Surface.Web.Tools.Check("surface.web.tools"), c.Surface.Terminal.Tools.Check("surface.terminal.tools")}
	for key, names := range map[string]map[string]string{"users": c.Entity.Users.Discord, "roles": c.Entity.Roles.Discord, "sessions": c.Entity.Sessions.Discord} {
		for name, id := range names {
			found = append(found, discord.CheckID("entity."+key+".discord."+name, id))
		}
	}
	return errors.Join(found...)
}

// minKeep is longer than the time for which a file can be stored before a table refers to it.
const minKeep = 48 * time.Hour

func (c checker) checkAttachments() error {
	var found []error
	a := c.Attachments
	if a.MaxBytes <= 0 {
		found = append(found, fault.InvalidField("attachments.maxBytes", "attachments.maxBytes has to be above zero."))
	}
	if a.MaxTotal < a.MaxBytes {
		found = append(found, fault.InvalidField("attachments.maxTotal", "attachments.maxTotal is less than attachments.maxBytes."))
	}
	if time.Duration(a.Keep) < minKeep {
		found = append(found, fault.InvalidField("attachments.keep", "attachments.keep is less than 48h."))
	}
	return errors.Join(found...)
}

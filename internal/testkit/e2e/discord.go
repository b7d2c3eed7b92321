package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
)

// Discord is a fake Discord with users, and the configuration that connects a server to it.
type Discord struct {
	*discordtest.Server
	t testing.TB
	// Ada and Bob are members of Guild. Its channel General is in mention mode, and Lounge is in
	// active mode. Moderator may manage messages.
	Ada, Bob, Moderator    discordtest.User
	Guild, General, Lounge string

	file string
	// router, surface, and rules are configuration lines below these keys.
	router, surface, rules []string
}

// NewDiscord starts a fake Discord. It adds the extra lines to surface.discord.
func NewDiscord(t testing.TB, o discordtest.Options, extra ...string) *Discord {
	t.Helper()
	// On a shared machine, the program may miss Discord's deadline of three seconds.
	o.AnswerWithin = cmp.Or(o.AnswerWithin, time.Minute)
	d := &Discord{Server: discordtest.New(t, o), t: t, file: filepath.Join(t.TempDir(), "config.yaml")}
	owner := d.User("owner")
	d.Ada, d.Bob, d.Moderator = d.User("ada"), d.User("bob"), d.User("mod")
	d.Guild = d.Server.Guild("Workshop", owner, d.Ada, d.Bob, d.Moderator)
	d.Role(d.Guild, discordtest.ManageMessages, d.Moderator.ID)
	d.General, d.Lounge = d.Channel(d.Guild, "general"), d.Channel(d.Guild, "lounge")
	d.surface = append([]string{
		"apiURL: " + d.APIURL,
		"gatewayURL: " + d.GatewayURL,
		fmt.Sprintf("allowedGuildIds: [%q]", d.Guild),
		"allowDMs: true",
		fmt.Sprintf("channels: {%q: {mode: active}}", d.Lounge),
		fmt.Sprintf("attachments: {hosts: [%q]}", strings.TrimPrefix(d.URL, "http://")),
	}, extra...)
	d.Debounce("300ms", "2s")
	return d
}

// Debounce writes the configuration with these debounce times.
func (d *Discord) Debounce(wait, most string) {
	d.t.Helper()
	d.router = slices.DeleteFunc(d.router, func(line string) bool { return strings.HasPrefix(line, "debounce:") })
	d.Router(fmt.Sprintf("debounce: {wait: %s, max: %s}", wait, most))
}

// Router writes the configuration with these lines below the key router.
func (d *Discord) Router(lines ...string) {
	d.t.Helper()
	d.router = append(d.router, lines...)
	d.write()
}

// Rules writes the configuration with these lines below the key rules.
func (d *Discord) Rules(lines ...string) {
	d.t.Helper()
	d.rules = append(d.rules, lines...)
	d.write()
}

// Set writes the configuration with a new value for a key of surface.discord.
func (d *Discord) Set(key, value string) {
	d.t.Helper()
	d.surface = append(slices.DeleteFunc(d.surface, func(line string) bool { return strings.HasPrefix(line, key+":") }), key+": "+value)
	d.write()
}

func (d *Discord) write() {
	d.t.Helper()
	text := "router:\n  " + strings.Join(d.router, "\n  ") + "\nsurface:\n  discord:\n    " + strings.Join(d.surface, "\n    ") + "\n"
	if len(d.rules) > 0 {
		text += "rules:\n  " + strings.Join(d.rules, "\n  ") + "\n"
	}
	// Replace the file atomically, as editors do: half of the file could be a valid configuration.
	next := d.file + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, d.file)); err != nil {
		d.t.Fatal(err)
	}
}

// Env returns the environment that connects a server to the fake Discord.
func (d *Discord) Env() []string {
	return []string{"LILAC_CONFIG=" + d.file, "DISCORD_TOKEN=" + discordtest.DefaultToken}
}

// Kill kills a connected server. It tells the fake Discord that the next process does not know the
// rate limits yet, so that its first 429 is not a violation.
func (d *Discord) Kill(s *Server) {
	s.Kill()
	d.Forgotten()
}

// MentionUs sends a user's message that starts with a mention of the bot.
func (d *Discord) MentionUs(channelID string, u discordtest.User, text string) (messageID string) {
	return d.Say(channelID, u, d.Self().Mention()+" "+text, discordtest.SayOptions{})
}

// RequestID returns the ID of the request that a message triggers.
func RequestID(channelID, messageID string) string {
	return event.RequestID{Surface: "discord", Session: channelID, Specific: messageID}.String()
}

// discordWithin bounds operations that need a few edits, on a busy machine.
const discordWithin = 60 * time.Second

// Shown waits until the channel has a message of the bot for which like returns true.
func (d *Discord) Shown(channelID, what string, like func(discordtest.Message) bool) (found discordtest.Message) {
	d.t.Helper()
	Eventually(d.t, discordWithin, what, func() bool {
		ours := d.Ours(channelID)
		i := slices.IndexFunc(ours, like)
		if i >= 0 {
			found = ours[i]
		}
		return i >= 0
	})
	return found
}

// Answered waits until an interaction has a response, and returns its text.
func (d *Discord) Answered(interactionID string) (text string) {
	d.t.Helper()
	Eventually(d.t, discordWithin, "the interaction is answered", func() bool {
		if i := d.Interaction(interactionID); len(i.Messages) > 0 {
			text = i.Messages[0].Content
		}
		return text != ""
	})
	return text
}

// Finished matches a complete message with the text: one without a Stop button.
func Finished(text string) func(discordtest.Message) bool {
	return func(m discordtest.Message) bool { return m.Content == text && len(m.Buttons) == 0 }
}

// Holds matches messages that contain a text.
func Holds(text string) func(discordtest.Message) bool {
	return func(m discordtest.Message) bool { return strings.Contains(m.Content, text) }
}

// Configure appends text to the configuration that [Discord.Env] refers to. Call it before the
// server starts.
func (d *Discord) Configure(text string) {
	d.t.Helper()
	f, err := os.OpenFile(d.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		d.t.Fatal(err)
	}
}

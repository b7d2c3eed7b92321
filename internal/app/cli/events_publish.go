package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// publishedEvent is the answer to POST /events.
type publishedEvent struct {
	ID        string `json:"id"`
	Duplicate bool   `json:"duplicate"`
}

// publishFlags are the flags of "lilac events publish". They change the event of a file.
type publishFlags struct {
	typ, id, session, payload, source, envName, agentID, agentName string
	metadata                                                       []string
}

// publishCommand returns the command "lilac events publish".
func publishCommand(c *cli) *cobra.Command {
	var f publishFlags
	cmd := c.withJSON(&cobra.Command{
		Use:   "publish [FILE]",
		Short: "Publish an environment event",
		Long: "The event is durable when the command returns. Publishing the same id again has no effect, so\n" +
			"you can repeat the command. The rules decide what the event triggers (see \"lilac rules test\").\n" +
			"FILE contains a whole event as JSON (- is standard input); flags replace its fields.",
		Example: "  lilac events publish --type deploy.done --payload '{\"version\":\"1.2\"}'\n  lilac events publish --type build.failed --session 01k2… --id build-4711\n  lilac events publish event.json --metadata attempt=2",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var e event.EnvEvent
			if len(args) > 0 {
				var err error
				if e, err = c.readEvent(args[0]); err != nil {
					return err
				}
			}
			if err := f.apply(&e); err != nil {
				return err
			}
			return c.sendEvent(cmd, "/events", e)
		},
	})
	cmd.Flags().StringVar(&f.typ, "type", "", "the event `type`: a-z, 0-9, _ and dots")
	cmd.Flags().StringVar(&f.id, "id", "", "the event `id` (default: a new one)")
	cmd.Flags().StringVar(&f.session, "session", "", "the session `id` that the event belongs to")
	cmd.Flags().StringVar(&f.payload, "payload", "", "the payload, as `JSON`")
	cmd.Flags().StringVar(&f.source, "source", "", "the `source`: tool, env, user, system or llm (default user)")
	cmd.Flags().StringVar(&f.envName, "env-name", "", "the `name` of the environment that the event is from")
	cmd.Flags().StringVar(&f.agentID, "agent-id", "", "the `id` of the agent that caused the event")
	cmd.Flags().StringVar(&f.agentName, "agent-name", "", "the `name` of the agent that caused the event")
	cmd.Flags().StringArrayVar(&f.metadata, "metadata", nil, "another field of the metadata, as `KEY=VALUE`, where VALUE is JSON or text; repeatable")
	return cmd
}

// apply puts the flags into an event.
func (f publishFlags) apply(e *event.EnvEvent) error {
	m := &e.Metadata
	for into, value := range map[*string]string{
		&e.ID: f.id, (*string)(&e.Type): f.typ, &m.TriggerSessionID: f.session, &m.Source: f.source,
		&m.EnvName: f.envName, &m.TriggerAgentID: f.agentID, &m.TriggerAgentName: f.agentName,
	} {
		if value != "" {
			*into = value
		}
	}
	if e.Type == "" {
		return fault.InvalidField("type", "The event has no type. Pass --type, or a FILE with the field type (see lilac events publish --help).")
	}
	if m.Source == "" {
		m.Source = "user"
	}
	if f.payload != "" {
		if !json.Valid([]byte(f.payload)) {
			return fault.InvalidField("payload", "--payload is not valid JSON.")
		}
		e.Payload = json.RawMessage(f.payload)
	}
	if len(e.Payload) == 0 {
		e.Payload = json.RawMessage("null")
	}
	for _, field := range f.metadata {
		key, value, ok := strings.Cut(field, "=")
		if !ok || key == "" {
			return fault.InvalidField("metadata", "--metadata %q is not of the form KEY=VALUE.", field)
		}
		raw := json.RawMessage(value)
		if !json.Valid(raw) {
			raw, _ = json.Marshal(value) // a string always encodes
		}
		if m.Extra == nil {
			m.Extra = map[string]json.RawMessage{}
		}
		m.Extra[key] = raw
	}
	return nil
}

// replayCommand returns the command "lilac events replay".
func replayCommand(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:   "replay ID",
		Short: "Run a handled event through the rules again",
		Long: "Publishes the event with this id again, as a new event whose metadata field replay_of names the\n" +
			"original. The rules that are in force now decide what it triggers. Messages from people, and events\n" +
			"that only Lilac publishes, can't be replayed.",
		Example: "  lilac events replay webhook:ci:72d3162e",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.sendEvent(cmd, "/events/"+url.PathEscape(args[0])+"/replay", nil)
		},
	})
}

// sendEvent publishes an event and prints its id.
func (c *cli) sendEvent(cmd *cobra.Command, path string, body any) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var answer publishedEvent
	if err := server.Call(cmd.Context(), "POST", path, body, &answer); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(answer)
	}
	note := ""
	if answer.Duplicate {
		note = "  (already published)"
	}
	_, err = fmt.Fprintf(c.out, "%s%s\n", text.Sanitize(answer.ID), note)
	return err
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
	"lilac/internal/operate/transcript"
)

func sessionsCommand(c *cli) *cobra.Command {
	var page client.Page
	list := withPage(c.withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List conversations, most recently used first",
		Example: "  lilac sessions list\n  lilac sessions list --limit 100 --json",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			sessions, next, err := server.Sessions(cmd.Context(), page)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(sessions)
			}
			rows := make([][]string, 0, len(sessions))
			for _, s := range sessions {
				rows = append(rows, []string{s.ID, s.Client, s.State, when(s.UpdatedAt), s.Title})
			}
			return c.page("ID CLIENT STATE UPDATED TITLE", rows, next)
		}),
	}), &page)

	var history client.Page
	show := withPage(c.withJSON(&cobra.Command{
		Use:     "show ID",
		Short:   "Show the messages of a conversation",
		Example: "  lilac sessions show 01k2…",
		Args:    cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			h, err := server.Messages(cmd.Context(), args[0], history)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(h.Messages)
			}
			for _, raw := range h.Messages {
				if err := c.printMessage(raw); err != nil {
					return err
				}
			}
			return nil
		}),
	}), &history)

	export := c.withJSON(&cobra.Command{
		Use:     "export ID",
		Short:   "Print a whole conversation as Markdown, or as JSON",
		Example: "  lilac sessions export 01k2… >conversation.md\n  lilac sessions export 01k2… --json >conversation.json",
		Args:    cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			return c.export(cmd.Context(), server, args[0])
		}),
	})

	remove := &cobra.Command{
		Use:     "delete ID",
		Short:   "Delete a conversation with its history and its files",
		Example: "  lilac sessions delete 01k2…",
		Args:    cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			return server.DeleteSession(cmd.Context(), args[0])
		}),
	}
	cmd := &cobra.Command{Use: "sessions", Short: "List, show, export and delete conversations", Example: "  lilac sessions list"}
	cmd.AddCommand(list, show, export, sessionEventsCommand(c), remove)
	return cmd
}

// export prints a whole conversation: as a document, or as an object with the conversation and
// its messages, oldest first.
func (c *cli) export(ctx context.Context, server *client.Client, id string) error {
	about, err := server.Session(ctx, id)
	if err != nil {
		return err
	}
	pages, err := transcript.Pages(func(before string, limit int) (client.History, error) {
		return server.Messages(ctx, id, client.Page{Limit: limit, Before: before})
	})
	if err != nil {
		return err
	}
	messages, entries := []json.RawMessage{}, []transcript.Entry{}
	for _, page := range pages {
		messages, entries = append(messages, page.Messages...), append(entries, transcript.Of(page, false)...)
	}
	if c.json {
		return c.printJSON(struct {
			Session  session.Session   `json:"session"`
			Messages []json.RawMessage `json:"messages"`
		}{about, messages})
	}
	if _, err := io.WriteString(c.out, text.Sanitize(transcript.Markdown(about.Title, entries))); err != nil {
		return fmt.Errorf("print conversation: %w", err)
	}
	return nil
}

// sessionEventsCommand returns the command "lilac sessions events".
func sessionEventsCommand(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:   "events ID",
		Short: "Print what happened in a conversation, oldest first",
		Long: "Prints the environment events of a conversation that have not expired: what people asked, requests,\n" +
			"tools, tasks, limits, and events for rules. With --json, each line is an event.",
		Example: "  lilac sessions events 01k2…\n  lilac sessions events 01k2… --json",
		Args:    cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			return eachSessionEvent(cmd.Context(), server, args[0], func(e event.EnvEvent) error {
				data, err := json.Marshal(e)
				if err != nil {
					return fmt.Errorf("encode event: %w", err)
				}
				if c.json {
					_, err = fmt.Fprintf(c.out, "%s\n", text.SanitizeJSON(data))
					return err
				}
				_, err = fmt.Fprintf(c.out, "%s  %-26s %s\n", when(e.Timestamp), oneLine(string(e.Type)), text.TruncateRunes(oneLine(string(e.Payload)), 200))
				return err
			})
		}),
	})
}

// eachSessionEvent calls do with each retained environment event of a conversation, oldest first.
func eachSessionEvent(ctx context.Context, server *client.Client, id string, do func(event.EnvEvent) error) error {
	query := url.Values{"limit": {"500"}}
	for {
		var page struct {
			Events []event.EnvEvent `json:"events"`
			Next   string           `json:"next"`
		}
		if err := server.Call(ctx, "GET", "/sessions/"+url.PathEscape(id)+"/events?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		for _, e := range page.Events {
			if err := do(e); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		query.Set("after", page.Next)
	}
}

func (p *printer) printMessage(raw json.RawMessage) error {
	var m chat.Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	role := string(m.Role)
	if m.Extra["damaged"] != nil {
		role = "unreadable"
	}
	fmt.Fprintf(p.out, "── %s\n", role)
	for _, part := range m.Parts {
		switch part.Type {
		case chat.TypeText:
			fmt.Fprintln(p.out, text.Sanitize(part.Text))
		case chat.TypeToolCall:
			fmt.Fprintf(p.out, "→ %s %s\n", text.Sanitize(part.ToolName), text.TruncateRunes(oneLine(string(part.Input)), 160))
		case chat.TypeToolResult:
			content, _ := part.OutputText()
			fmt.Fprintf(p.out, "← %s %s\n", text.Sanitize(part.ToolName), text.TruncateRunes(oneLine(content), 160))
		case chat.TypeFile, chat.TypeImage:
			fmt.Fprintf(p.out, "[%s %s]\n", part.Type, text.Sanitize(part.Filename))
		}
	}
	return nil
}

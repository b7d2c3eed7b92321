package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/core/session"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

func requestsCommand(c *cli) *cobra.Command {
	var page client.Page
	var sessionID string
	list := withPage(c.withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List requests, newest first",
		Example: "  lilac requests list\n  lilac requests list --session 01k2… --json",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			requests, next, err := server.Requests(cmd.Context(), sessionID, page)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(requests)
			}
			rows := make([][]string, 0, len(requests))
			for _, r := range requests {
				rows = append(rows, []string{
					r.ID, stateOf(r), when(r.CreatedAt), strconv.Itoa(r.Steps),
					strconv.FormatInt(r.Usage.InputTokens+r.Usage.OutputTokens, 10), dollars(r.Usage.CostMicros),
				})
			}
			return c.page("ID STATE CREATED STEPS TOKENS COST", rows, next)
		}),
	}), &page)
	list.Flags().StringVar(&sessionID, "session", "", "only requests of this session `id`")

	show := c.withJSON(&cobra.Command{
		Use:     "show ID",
		Short:   "Show the timeline of a request",
		Long:    "Prints the trigger of the request, each step with its tools, tokens, cost and times, and its end.",
		Example: "  lilac requests show web:01k2…:01k2…",
		Args:    cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			story, err := server.Story(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(story)
			}
			c.printStory(story)
			return nil
		}),
	})
	cmd := &cobra.Command{Use: "requests", Short: "List, show, answer, continue and stop requests", Example: "  lilac requests show web:01k2…:01k2…"}
	cmd.AddCommand(list, show, replyCommand(c),
		answerCommand(c, session.Continue, "Continue a request that is paused at a limit"),
		answerCommand(c, session.Stop, "End a request that is paused at a limit"))
	return cmd
}

// stateOf returns the state to print: a paused request needs an answer.
func stateOf(r session.Request) string {
	if r.AwaitsAnswer() {
		return "needs-answer"
	}
	return string(r.State)
}

func (p *printer) printStory(s session.Story) {
	line := func(name, value string) {
		if value != "" && value != "-" && value != "0" {
			fmt.Fprintf(p.out, "%-10s %s\n", name, oneLine(value))
		}
	}
	line("request", s.ID)
	line("session", s.SessionID+" ("+s.Client+")")
	line("state", stateOf(s.Request))
	line("detail", s.Detail)
	line("trigger", s.WokenBy)
	line("model", s.Model)
	line("created", when(s.CreatedAt))
	line("started", when(s.StartedAt))
	line("ended", when(s.EndedAt))
	if s.EndedAt > 0 && s.StartedAt > 0 {
		line("duration", (time.Duration(s.EndedAt-s.StartedAt) * time.Millisecond).String())
	}
	line("steps", strconv.Itoa(s.Steps))
	line("recoveries", strconv.Itoa(s.Recoveries))
	line("tokens", fmt.Sprintf("%d in (%d cached, %.0f%%), %d out", s.Usage.InputTokens, s.Usage.CacheReadTokens, 100*s.Usage.CachedShare(), s.Usage.OutputTokens))
	line("cost", dollars(s.Usage.CostMicros))
	if len(s.Entries) == 0 {
		return
	}
	fmt.Fprintln(p.out)
	for _, e := range s.Entries {
		if e.Kind == session.EntryDamaged { // its time is unknown
			fmt.Fprintf(p.out, "%10s %s\n", "", oneLine(e.Detail))
			continue
		}
		fmt.Fprintf(p.out, "%8.3fs  step %-3d %-12s %s\n", float64(e.At-s.CreatedAt)/1000, e.Step, text.Sanitize(e.Kind), text.TruncateRunes(oneLine(describe(e)), 160))
	}
}

// replyCommand returns the command that answers any question of a request.
func replyCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "answer ID ANSWER", Short: "Answer the question of a paused request",
		Long: "Answers the question that \"lilac requests show\" prints: once, always or no for a call that needs an approval, " +
			"continue or stop at a limit, and any text for a question of the agent.",
		Example: "  lilac requests answer web:01k2…:01k2… once\n  lilac requests answer web:01k2…:01k2… \"Use the blue one.\"",
		Args:    cobra.ExactArgs(2),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			story, err := server.Story(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			in, err := server.Session(cmd.Context(), story.SessionID)
			if err != nil {
				return err
			}
			if in.Paused == nil || in.ActiveRequest != story.ID {
				return fault.New(fault.Conflict, "The request %s is not waiting for an answer.", story.ID)
			}
			answer := in.Paused.ReadText(args[1])
			if in.Paused.Kind == session.ForReply {
				answer = session.Replied // the server says what is wrong with it
			}
			if answer == session.NoAnswer {
				answer = session.Answer(args[1]) // the server says which answers there are
			}
			reply := ""
			if answer == session.Replied {
				reply = args[1]
			}
			return server.Answer(cmd.Context(), story.ID, answer, reply)
		}),
	}
}

func answerCommand(c *cli, a session.Answer, short string) *cobra.Command {
	return &cobra.Command{
		Use: string(a) + " ID", Short: short,
		Example: "  lilac requests " + string(a) + " web:01k2…:01k2…",
		Args:    cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			return server.Answer(cmd.Context(), args[0], a, "")
		}),
	}
}

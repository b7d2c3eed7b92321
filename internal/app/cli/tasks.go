package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/core/task"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

// followEvery is the polling interval of a growing output.
const followEvery = 500 * time.Millisecond

func tasksCommand(c *cli) *cobra.Command {
	var page client.Page
	var sessionID string
	list := withPage(c.withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List background tasks, newest first",
		Example: "  lilac tasks list\n  lilac tasks list --session 01k2… --json",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			tasks, next, err := server.Tasks(cmd.Context(), sessionID, page)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(tasks)
			}
			rows := make([][]string, 0, len(tasks))
			for _, t := range tasks {
				rows = append(rows, []string{t.ID, string(t.State), string(t.Kind), when(t.CreatedAt), ranFor(t), cmp.Or(t.Description, t.Reason)})
			}
			return c.page("ID STATE KIND STARTED DURATION DESCRIPTION", rows, next)
		}),
	}), &page)
	list.Flags().StringVar(&sessionID, "session", "", "only tasks of this session `id`")

	show := c.withJSON(&cobra.Command{
		Use:     "show ID",
		Short:   "Show a background task and its outcome",
		Example: "  lilac tasks show 01k2…",
		Args:    cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			t, err := server.Task(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.showTask(t)
		}),
	})
	stop := c.withJSON(&cobra.Command{
		Use:     "stop ID",
		Short:   "Stop a background task and everything that it started",
		Long:    "Returns when all processes of the task have ended. The agent is notified in the conversation that started the task.",
		Example: "  lilac tasks stop 01k2…",
		Args:    cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			t, err := server.StopTask(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.showTask(t)
		}),
	})
	cmd := &cobra.Command{Use: "tasks", Short: "List, show and stop background tasks; print their output", Example: "  lilac tasks list\n  lilac tasks output 01k2… --follow"}
	cmd.AddCommand(list, show, taskOutputCommand(c), stop)
	return cmd
}

func taskOutputCommand(c *cli) *cobra.Command {
	var offset int64
	var follow bool
	cmd := c.withJSON(&cobra.Command{
		Use:   "output ID",
		Short: "Print the output of a background task, also while it runs",
		Long: "Prints the output of a command, of which the newest part is kept (tasks.output), or the text of a\n" +
			"sub-agent.",
		Example: "  lilac tasks output 01k2…\n  lilac tasks output 01k2… --follow\n  lilac tasks output 01k2… --offset -2000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow && c.json {
				return fault.InvalidField("json", "Use either --follow or --json.")
			}
			server, err := c.connect()
			if err != nil {
				return err
			}
			ctx, cancel := untilSignal(cmd.Context())
			defer cancel()
			for {
				p, err := server.TaskOutput(ctx, args[0], offset)
				if err != nil {
					return stopped(ctx, err)
				}
				if c.json {
					return c.printJSON(p)
				}
				if _, err := io.WriteString(c.out, text.Sanitize(p.Text)); err != nil {
					return fmt.Errorf("print output: %w", err)
				}
				offset = p.Next
				switch more := p.Next < p.Bytes; {
				case more && p.Text != "":
				case !follow || p.State != task.Running:
					return nil
				default:
					select {
					case <-ctx.Done():
						return nil
					case <-time.After(followEvery):
					}
				}
			}
		},
	})
	cmd.Flags().Int64Var(&offset, "offset", 0, "the first `byte` to print; a negative number counts from the end")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the output until the task ends")
	return cmd
}

func (p *printer) showTask(t task.Task) error {
	if p.json {
		return p.printJSON(t)
	}
	line := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(p.out, "%-12s %s\n", name, oneLine(value))
		}
	}
	line("task", t.ID)
	line("state", string(t.State))
	line("reason", t.Reason)
	line("stopped by", string(t.StoppedBy))
	line("description", t.Description)
	line("command", t.Command)
	line("directory", t.Dir)
	line("agent", t.Agent)
	line("prompt", t.Prompt)
	line("session", t.SessionID)
	line("request", t.RequestID)
	line("sub-agent", t.ChildRequest)
	line("started", when(t.CreatedAt))
	line("ended", when(t.EndedAt))
	line("duration", ranFor(t))
	if t.ExitCode != nil {
		line("exit code", strconv.Itoa(*t.ExitCode))
	}
	if t.Result != "" {
		fmt.Fprintf(p.out, "\n%s\n", text.Sanitize(t.Result))
	}
	return nil
}

// ranFor formats the running time of a task.
func ranFor(t task.Task) string {
	if t.State == task.Damaged {
		return "-"
	}
	end := t.EndedAt
	if end == 0 {
		end = time.Now().UnixMilli()
	}
	return (time.Duration(end-t.CreatedAt) * time.Millisecond).Round(100 * time.Millisecond).String()
}

package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lilac/internal/core/workflow"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

// dueWorkflow is a workflow of GET /workflows.
type dueWorkflow struct {
	workflow.Workflow
	Due int64 `json:"due"`
}

func workflowsCommand(c *cli) *cobra.Command {
	var page client.Page
	var sessionID, reason string
	var all bool
	list := withPage(c.withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List workflows, newest first",
		Long:    "Lists waiting workflows with their conversation, creation time and next timer. --all includes workflows that have ended.",
		Example: "  lilac workflows list\n  lilac workflows list --all --session 123456789 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{"waiting": {"1"}}
			if all {
				query.Del("waiting")
			}
			if page.Limit > 0 {
				query.Set("limit", strconv.Itoa(page.Limit))
			}
			for name, value := range map[string]string{"session_id": sessionID, "before": page.Before} {
				if value != "" {
					query.Set(name, value)
				}
			}
			raw, err := c.askWorkflows(cmd, "GET", "/workflows?"+query.Encode(), nil)
			if err != nil || c.json {
				return c.orJSON(raw, err)
			}
			return c.printWorkflows(raw)
		},
	}), &page)
	list.Flags().BoolVar(&all, "all", false, "include workflows that have ended")
	list.Flags().StringVar(&sessionID, "session", "", "only workflows of this session `id`")

	show := c.withJSON(&cobra.Command{
		Use:     "show ID",
		Short:   "Show a workflow with its tasks and their results",
		Example: "  lilac workflows show w3k0…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := c.askWorkflows(cmd, "GET", "/workflows/"+url.PathEscape(args[0]), nil)
			if err != nil || c.json {
				return c.orJSON(raw, err)
			}
			return c.printWorkflow(raw)
		},
	})
	cancel := c.withJSON(&cobra.Command{
		Use:     "cancel ID",
		Short:   "Cancel a workflow without notifying the agent",
		Example: "  lilac workflows cancel w3k0… --reason 'Bob has called'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := c.askWorkflows(cmd, "POST", "/workflows/"+url.PathEscape(args[0])+"/cancel", map[string]string{"reason": reason})
			if err != nil || c.json {
				return c.orJSON(raw, err)
			}
			return c.printWorkflow(raw)
		},
	})
	cancel.Flags().StringVar(&reason, "reason", "", "the reason, for people who look at the workflow")
	cmd := &cobra.Command{
		Use: "workflows", Short: "List, show and cancel workflows",
		Example: "  lilac workflows list\n  lilac workflows cancel w3k0…",
	}
	cmd.AddCommand(list, show, cancel)
	return cmd
}

func (c *cli) askWorkflows(cmd *cobra.Command, method, path string, body any) (raw json.RawMessage, err error) {
	server, err := c.connect()
	if err != nil {
		return nil, err
	}
	return raw, server.Call(cmd.Context(), method, path, body, &raw)
}

func (p *printer) orJSON(raw json.RawMessage, err error) error {
	if err != nil {
		return err
	}
	return p.printJSON(raw)
}

func (p *printer) printWorkflows(raw json.RawMessage) error {
	var answer struct {
		Workflows []dueWorkflow `json:"workflows"`
		Next      string        `json:"next"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("read workflows: %w", err)
	}
	rows := make([][]string, 0, len(answer.Workflows))
	for _, w := range answer.Workflows {
		rows = append(rows, []string{w.ID, string(w.State), when(w.CreatedAt), when(w.Due), w.Origin.Client + " " + w.Origin.SessionID, cmp.Or(w.Summary, w.Detail)})
	}
	return p.page("ID STATE CREATED NEXT SESSION SUMMARY", rows, answer.Next)
}

func (p *printer) printWorkflow(raw json.RawMessage) error {
	var w dueWorkflow
	if err := json.Unmarshal(raw, &w); err != nil {
		return fmt.Errorf("read workflow: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n%s\n\n", w.ID, w.State, text.Sanitize(w.Summary))
	for _, line := range []struct{ name, value string }{
		{"detail", w.Detail},
		{"session", w.Origin.Client + " " + w.Origin.SessionID},
		{"request", w.Origin.RequestID},
		{"created", when(w.CreatedAt)},
		{"ended", when(w.EndedAt)},
		{"next", when(w.Due)},
		{"ends when", string(w.Completion) + " tasks have a result"},
	} {
		if line.value != "" && line.value != "-" {
			fmt.Fprintf(&b, "%-10s %s\n", line.name, text.Sanitize(line.value))
		}
	}
	for _, t := range w.Tasks {
		fmt.Fprintf(&b, "\n%s  %s  %s\n  %s\n", t.ID, t.Kind, t.State, text.Sanitize(t.Description))
		if t.Due > 0 {
			fmt.Fprintf(&b, "  until %s\n", when(t.Due))
		}
		if r := t.Result; r != nil {
			fmt.Fprintf(&b, "  %s %s %s\n", when(t.ResolvedAt), r.Outcome, text.Sanitize(r.Reason))
			if r.Message != nil {
				fmt.Fprintf(&b, "  %s: %s\n", text.Sanitize(r.Message.UserName), text.Sanitize(r.Message.Text))
			}
		}
	}
	_, err := fmt.Fprint(p.out, b.String())
	return err
}

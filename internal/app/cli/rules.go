package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
	"lilac/internal/operate/config"
)

// maxEventFile limits a file with an event, in bytes.
const maxEventFile = 1 << 20

// ruleStatus holds the printed fields of GET /rules.
type ruleStatus struct {
	Name     string             `json:"name"`
	Types    []string           `json:"types"`
	Enabled  bool               `json:"enabled"`
	Priority int                `json:"priority"`
	Does     string             `json:"does"`
	DryRun   bool               `json:"dryRun"`
	Today    map[string]int64   `json:"today"`
	Used     environment.Budget `json:"used"`
	Last     []environment.Run  `json:"last"`
}

func rulesCommand(c *cli) *cobra.Command {
	list := c.withJSON(&cobra.Command{
		Use:   "list",
		Short: "List the rules with their activity and cost today",
		Long: "Lists the rules of the running server in the order of their registration. The matching rule with\n" +
			"the highest priority handles an event. HELD-BACK counts events without an action, for example\n" +
			"because of a rate limit; \"lilac rules show\" prints the reasons. Days begin at midnight UTC.",
		Example: "  lilac rules list",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			var raw json.RawMessage
			if err := server.Call(cmd.Context(), "GET", "/rules", nil, &raw); err != nil {
				return err
			}
			if c.json {
				return c.printJSON(raw)
			}
			return c.printRules(raw)
		}),
	})
	test := c.withJSON(&cobra.Command{
		Use:   "test FILE",
		Short: "Report which rule would handle an event, without running it",
		Long: "Reads an event as JSON from a file (- is standard input) and matches it against the rules of the\n" +
			"configuration file and the built-in rules. It needs no server and changes nothing, so it does not\n" +
			"check whether the session exists (see \"lilac sessions list\").",
		Example: "  lilac rules test event.json\n  echo '{\"type\":\"deploy.done\",\"payload\":{}}' | lilac rules test -",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			e, err := c.readTestEvent(args[0])
			if err != nil {
				return err
			}
			cfg, err := c.load()
			if err != nil {
				return err
			}
			rules, err := cfg.EnvironmentRules()
			if err != nil {
				return err
			}
			trial := environment.Try(append(rules, cfg.BuiltinRules(environment.DefaultRules(environment.DefaultsOptions{}))...), e, cfg.SourceTools)
			if client, ok := cfg.ClientOfChannel(trial.Session); ok {
				trial.Tools = trial.Tools.And(cfg.SurfaceTools(client, trial.Session))
			}
			if trial.Agent != "" {
				trial.Tools = trial.Tools.And(grant.Of(cfg.Agents.Terms(trial.Agent).Tools))
			}
			if c.json {
				return c.printJSON(trial)
			}
			return c.printTrial(trial)
		},
	})
	show := c.withJSON(&cobra.Command{
		Use:   "show RULE",
		Short: "Show the last matches of a rule",
		Long: "Lists the ten newest matches: events that the rule acted on, and events that it held back, with\n" +
			"the reason. \"lilac rules list\" counts all of them.",
		Example: "  lilac rules show ci-failed",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.showRule(cmd.Context(), args[0]) },
	})
	cmd := &cobra.Command{Use: "rules", Short: "List, show and test the rules for events", Example: "  lilac rules list\n  lilac rules show ci-failed\n  lilac rules test event.json"}
	cmd.AddCommand(list, show, test)
	return cmd
}

func (c *cli) showRule(ctx context.Context, name string) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var answer struct {
		Rules []ruleStatus `json:"rules"`
	}
	if err := server.Call(ctx, "GET", "/rules", nil, &answer); err != nil {
		return err
	}
	i := slices.IndexFunc(answer.Rules, func(r ruleStatus) bool { return r.Name == name })
	if i < 0 {
		return fault.New(fault.NotFound, "There is no rule %q. To list the rules, run \"lilac rules list\".", name)
	}
	r := answer.Rules[i]
	if c.json {
		return c.printJSON(r)
	}
	rows := make([][]string, 0, len(r.Last))
	for _, m := range r.Last {
		rows = append(rows, []string{when(m.At), m.Outcome, string(m.Type), m.EventID, m.SessionID, m.RequestID, m.Error})
	}
	return c.table("WHEN OUTCOME TYPE EVENT SESSION REQUEST ERROR", rows)
}

func (p *printer) printRules(raw json.RawMessage) error {
	var answer struct {
		Rules []ruleStatus `json:"rules"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	rows := make([][]string, 0, len(answer.Rules))
	for _, r := range answer.Rules {
		does := r.Does
		switch {
		case !r.Enabled:
			does += " (off)"
		case r.DryRun:
			does += " (dry run)"
		}
		var last int64
		if len(r.Last) > 0 {
			last = r.Last[0].At
		}
		var held int64
		for _, outcome := range []string{environment.OutcomeRate, environment.OutcomeBudget, environment.OutcomeDepth, environment.OutcomeNoSession, environment.OutcomeFailed} {
			held += r.Today[outcome]
		}
		rows = append(rows, []string{
			r.Name, strings.Join(r.Types, ","), strconv.Itoa(r.Priority), does, strconv.FormatInt(r.Used.Runs, 10),
			strconv.FormatInt(held, 10), strconv.FormatInt(r.Used.Tokens, 10), dollars(r.Used.CostMicros), when(last),
		})
	}
	return p.table("RULE TYPES PRIORITY DOES TODAY HELD-BACK TOKENS COST LAST", rows)
}

func (p *printer) printTrial(t environment.Trial) error {
	var b strings.Builder
	for _, l := range t.Matches {
		if l.Why != "" {
			fmt.Fprintf(&b, "%s: no, %s\n", text.Sanitize(l.Rule), text.Sanitize(l.Why))
		}
	}
	if t.Rule == "" {
		b.WriteString("No rule handles this event.\n")
	} else {
		fmt.Fprintf(&b, "%s: yes, %s\n", t.Rule, t.Does)
	}
	for _, line := range []struct{ name, value string }{
		{"session", t.Session}, {"deliver", string(t.Deliver)}, {"debounce", t.Debounce}, {"rate", t.Rate}, {"problem", t.Problem},
	} {
		if line.value != "" {
			fmt.Fprintf(&b, "  %s: %s\n", line.name, text.Sanitize(line.value))
		}
	}
	if t.Does == "agent" {
		fmt.Fprintf(&b, "  may use: %s\n", mayUse(t.Tools))
		for _, restriction := range t.Tools {
			fmt.Fprintf(&b, "    because of %s\n", text.Sanitize(restriction.From))
		}
	}
	if t.DryRun {
		b.WriteString("  dry run: the event is only counted\n")
	}
	if t.Agent != "" {
		fmt.Fprintf(&b, "\nAgent: %s\n", t.Agent)
	}
	if t.System != "" {
		fmt.Fprintf(&b, "\nSystem text (with the operator's authority):\n%s\n", text.Sanitize(t.System))
	}
	if t.Prompt != "" {
		fmt.Fprintf(&b, "\n%s\n", text.Sanitize(t.Prompt))
	}
	if t.Event != nil {
		raw, err := json.Marshal(t.Event)
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		fmt.Fprintf(&b, "\n%s\n", raw)
	}
	_, err := io.WriteString(p.out, b.String())
	return err
}

// mayUse lists the tools and callables that a grant allows. Without bash, a request cannot
// use callables.
func mayUse(g grant.Grant) string {
	if !g.Restricts() {
		return "everything"
	}
	names := g.Filter(config.KnownTools)
	if !g.Allows("bash") {
		names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, ".") })
	}
	if len(names) == 0 {
		return "no tools; it can only answer"
	}
	return strings.Join(names, ", ")
}

// readTestEvent reads an event from a file and fills in the id and the time.
func (c *cli) readTestEvent(path string) (event.EnvEvent, error) {
	e, err := c.readEvent(path)
	if err != nil {
		return e, err
	}
	if e.ID == "" {
		e.ID = "test"
	}
	if e.Timestamp == 0 {
		e.Timestamp = time.Now().UnixMilli()
	}
	return e, e.Validate()
}

// readEvent reads an event from a file.
func (c *cli) readEvent(path string) (event.EnvEvent, error) {
	var e event.EnvEvent
	raw, err := c.readFile(path, maxEventFile+1)
	switch {
	case err != nil:
		return e, err
	case len(raw) > maxEventFile:
		return e, fault.New(fault.TooLarge, "The event is larger than 1 MiB.")
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fault.New(fault.Invalid, "%s is not a valid event: %s.", path, fault.Plain(err))
	}
	return e, nil
}

package setup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
)

// A Rule is a first rule from a template.
type Rule struct {
	// Template is the name of one of [Templates].
	Template string
	// Conversation is the title of the conversation in which the agent answers.
	Conversation string
	// Prompt is the text for the agent; empty means the template's.
	Prompt string
	// Time is when the rule of the template weekdays acts, as in 09:00; empty means that.
	Time string
	// Directory is the directory that the rule of the template file watches.
	Directory string
	// Secret is the secret that GitHub signs with, for the template ci.
	Secret config.Secret
}

// A Template is a rule that setup offers.
type Template struct {
	Name         string `json:"name"`
	Title        string `json:"title"`
	Conversation string `json:"conversation"`
	Prompt       string `json:"prompt"`
	// After says what to do after the rule is saved; empty if nothing is to be done.
	After string `json:"after,omitempty"`
}

// The names of the templates.
const (
	templateCI       = "ci"
	templateWeekdays = "weekdays"
	templateFile     = "file"
)

// Templates lists the rules that setup offers, in the order to show.
var Templates = []Template{
	{
		Name: templateCI, Title: "CI failed", Conversation: "CI",
		Prompt: `CI failed: {{ .payload.body.workflow_job | .name + " in " + .workflow_name + " on " + .head_branch + ", " + .html_url }}. Say in two lines what failed and what to look at first.`,
		After:  "On GitHub, open your repository's Settings, Webhooks, and add a webhook: the address of this server followed by /webhooks/github, the content type application/json, the secret that you entered, and the event “Workflow jobs”. GitHub must be able to reach this server.",
	},
	{
		Name: templateWeekdays, Title: "Every weekday at nine", Conversation: "Every weekday",
		Prompt: "Good morning! Read the newest files in the workspace and write five lines about what matters today.",
	},
	{
		Name: templateFile, Title: "A file changed", Conversation: "Files",
		Prompt: "The file {{ .payload.path }} changed. Say in one line what it is about.",
		After:  "To let the agent read the directory with commands, add it to sandbox.readOnly.",
	},
}

func template(name string) (Template, error) {
	for _, t := range Templates {
		if t.Name == name {
			return t, nil
		}
	}
	return Template{}, fault.InvalidField("template", "There is no template %q. Use ci, weekdays, or file.", name)
}

var clockForm = regexp.MustCompile(`^([01]?[0-9]|2[0-3]):([0-5][0-9])$`)

// minSecret is the minimum length of a webhook's secret, in bytes.
const minSecret = 16

func (r *Rule) changes(files Files) ([]Change, error) {
	if r == nil {
		return nil, nil
	}
	t, err := template(r.Template)
	if err != nil {
		return nil, err
	}
	agent := yaml.MapSlice{{Key: "prompt", Value: cmp.Or(strings.TrimSpace(r.Prompt), t.Prompt)}}
	if t.Name == templateWeekdays { // it reads what people put into the shared workspace
		agent = append(agent, yaml.MapItem{Key: "workspace", Value: yaml.MapSlice{{Key: "shared", Value: true}}})
	}
	do := yaml.MapSlice{
		{Key: "do", Value: yaml.MapSlice{{Key: "agent", Value: agent}}},
		{Key: "session", Value: "title:" + cmp.Or(strings.TrimSpace(r.Conversation), t.Conversation)},
	}
	rule := func(name, kind, condition, limit string, value any, source ...Change) []Change {
		when := yaml.MapSlice{{Key: "type", Value: kind}, {Key: "if", Value: condition}}
		body := append(yaml.MapSlice{{Key: "when", Value: when}}, do...)
		body = append(body, yaml.MapItem{Key: limit, Value: value})
		return append(source, Change{[]string{"rules", free(files.Config, "rules", name)}, body})
	}
	switch t.Name {
	case templateCI:
		var source []Change
		if !hasKey(files.Config, []string{"webhooks", "github"}) {
			secret := strings.TrimSpace(r.Secret.Reveal())
			if len(secret) < minSecret {
				return nil, fault.InvalidField("secret", "Enter a secret of at least %d characters, which you also enter on GitHub.", minSecret)
			}
			files.Secrets["GITHUB_WEBHOOK_SECRET"] = config.Secret(secret)
			source = append(source, set("webhooks.github.secret", "${GITHUB_WEBHOOK_SECRET}"))
		}
		return rule("ci-failed", "webhook.received", `.payload.name == "github" and .payload.event == "workflow_job" and .payload.body.workflow_job.conclusion == "failure"`, "rate", "6/1h", source...), nil
	case templateWeekdays:
		at := clockForm.FindStringSubmatch(cmp.Or(strings.TrimSpace(r.Time), "09:00"))
		if at == nil {
			return nil, fault.InvalidField("time", "Enter a time such as 09:00.")
		}
		hour, _ := strconv.Atoi(at[1]) // the pattern allows only digits
		minute, _ := strconv.Atoi(at[2])
		name := r.source(files)
		return rule("every-weekday", "timer.fired", fmt.Sprintf(".payload.name == %q", name), "budget", yaml.MapSlice{{Key: "runs", Value: 3}},
			Change{[]string{"timers", name, "cron"}, fmt.Sprintf("%d %d * * 1-5", minute, hour)}), nil
	default:
		dir := strings.TrimSpace(r.Directory)
		if !strings.HasPrefix(dir, "/") && !strings.HasPrefix(dir, "~/") {
			return nil, fault.InvalidField("directory", "Enter the directory to watch, beginning with / or ~/.")
		}
		name := r.source(files)
		return rule("file-changed", "file.changed", fmt.Sprintf(".payload.name == %q", name), "rate", "20/1h",
			Change{[]string{"files", name}, yaml.MapSlice{{Key: "paths", Value: []string{strings.TrimSuffix(dir, "/") + "/"}}, {Key: "changes", Value: []string{"create", "write"}}}}), nil
	}
}

// source returns the name of the source of the rule's events.
func (r *Rule) source(files Files) string {
	switch r.Template {
	case templateWeekdays:
		return free(files.Config, "timers", "weekdays")
	case templateFile:
		return free(files.Config, "files", "watched")
	}
	return "github"
}

// free returns a name that the section does not have yet.
func free(text, section, name string) string {
	out := name
	for n := 2; hasKey(text, []string{section, out}); n++ {
		out = fmt.Sprintf("%s-%d", name, n)
	}
	return out
}

// Example returns an event that triggers the rule, for a dry run. The files are those before the
// change.
func (r *Rule) Example(before Files, now time.Time) (event.EnvEvent, error) {
	e := event.EnvEvent{ID: "example", Timestamp: now.UnixMilli()}
	var payload map[string]any
	switch r.Template {
	case templateCI:
		e.Type = "webhook.received"
		payload = map[string]any{"name": r.source(before), "event": "workflow_job", "body": map[string]any{"workflow_job": map[string]any{
			"conclusion": "failure", "name": "test", "workflow_name": "CI", "head_branch": "main", "html_url": "https://github.com/you/project/actions/runs/1/job/2",
		}}}
	case templateWeekdays:
		e.Type, payload = "timer.fired", map[string]any{"name": r.source(before), "slot": now.UnixMilli(), "late": 0}
	case templateFile:
		e.Type, payload = "file.changed", map[string]any{"name": r.source(before), "path": strings.TrimSuffix(r.Directory, "/") + "/notes.txt", "change": "write"}
	default:
		_, err := template(r.Template)
		return e, err
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return e, fmt.Errorf("encode the example: %w", err)
	}
	e.Payload = raw
	return e, nil
}

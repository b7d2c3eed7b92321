package doctor

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"lilac/internal/foundation/grant"
	"lilac/internal/operate/config"
)

// acting lists the tools and callables that change something.
func acting() (names []string) {
	for _, name := range config.KnownTools {
		if !slices.Contains(grant.Reading, name) {
			names = append(names, name)
		}
	}
	return names
}

// rights reports what requests that strangers trigger may do, beyond reading and the
// answer.
func (p Patient) rights() Finding {
	const check = "rights"
	c := p.Config
	if len(c.Webhooks)+len(c.Sources) == 0 {
		return Finding{check, OK, "no webhooks and no programs", ""}
	}
	var open, some []string
	add := func(name string, allow, deny []string) {
		may := grant.Of(grant.Tools{Allow: allow, Deny: deny}).Filter(acting())
		switch {
		case len(allow) == 0 || len(may) == 0:
		case len(may) == len(acting()):
			open = append(open, name)
		default:
			some = append(some, fmt.Sprintf("%s (%s)", name, strings.Join(may, ", ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Webhooks)) {
		t := c.Webhooks[name].Tools
		add("webhooks."+name, t.Allow, t.Deny)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		t := c.Sources[name].Tools
		add("sources."+name, t.Allow, t.Deny)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Rules)) {
		r := c.Rules[name]
		if r.Do.Agent.Prompt != "" && slices.ContainsFunc(r.When.Type, func(t string) bool {
			return len(c.Sources) > 0 || t == "*" || t == "webhook.*" || t == "webhook.received" // programs choose their types
		}) {
			add("rules."+name, r.Tools.Allow, r.Tools.Deny)
		}
	}
	switch {
	case len(open) > 0:
		return Finding{
			check, Warn, "anybody whose text reaches a webhook or a program can make the agent do everything: " + strings.Join(open, ", "),
			"List only what is needed in tools.allow; \"lilac rules test\" shows what a request could do.",
		}
	case len(some) > 0:
		return Finding{check, OK, "requests of webhooks and programs may read; and: " + strings.Join(some, "; "), ""}
	}
	return Finding{check, OK, "requests of webhooks and programs may only read", ""}
}

// programs checks that the programs that are sources can be started.
func (p Patient) programs() []Finding {
	sources, err := p.Config.Programs()
	if err != nil {
		return []Finding{refused("programs", err)}
	}
	var out []Finding
	for _, source := range sources {
		f := Finding{"source " + source.Name, OK, "runs " + source.Command[0], ""}
		if _, err := exec.LookPath(source.Command[0]); err != nil {
			f.Status, f.Message = Fail, fmt.Sprintf("the program of the source %s cannot be started: %v", source.Name, err)
			f.Advice = "Install it, or correct sources." + source.Name + ".command."
		}
		out = append(out, f)
	}
	return out
}

package setup

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
	"lilac/internal/operate/config"
)

// Answers are what a person chose. Parts that are nil stay as they are.
type Answers struct {
	Model   *Model
	Discord *Discord
	Rule    *Rule
	// Settings are single settings.
	Settings []Setting
}

// A Setting is a new value of a setting.
type Setting struct {
	Key string
	// Kind is that of [config.Setting].
	Kind string
	// Value is how a person writes it. A list has one entry per line.
	Value string
	// Reset removes the setting from the file, so that its default applies.
	Reset bool
}

// change returns the change of the file.
func (s Setting) change() (Change, error) {
	text := strings.TrimSpace(s.Value)
	c := set(s.Key, nil)
	switch {
	case s.Kind == "":
		return c, fault.InvalidField("value", "%s cannot be changed here. Edit the file.", s.Key)
	case s.Reset:
		return c, nil
	case s.Kind == "boolean" && text == "true", s.Kind == "boolean" && text == "false":
		c.Value = text == "true"
	case s.Kind == "number":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			c.Value = n
		} else if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			c.Value = f
		} else {
			return c, fault.InvalidField("value", "%q is not a number.", text)
		}
	case s.Kind == "list":
		list := []string{}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, strings.ReplaceAll(line, "${", "$${"))
			}
		}
		c.Value = list
	case s.Kind == "text":
		c.Value = strings.ReplaceAll(text, "${", "$${")
	default:
		return c, fault.InvalidField("value", "%q is neither true nor false.", text)
	}
	return c, nil
}

// A Model is the choice of the model that answers.
type Model struct {
	// Provider is the name of one of [Providers], or another name for an endpoint in the shape of
	// OpenAI's chat completions.
	Provider string
	// Name is the name of the model at the provider; empty for the demo model.
	Name string
	// Key is the API key; empty keeps the one that is set.
	Key config.Secret
	// BaseURL is the address of the API; empty means the provider's own.
	BaseURL string
	// Headers are further headers of each call, as lines NAME: VALUE. Those that are set stay.
	Headers config.Secret
}

// Discord is the bot and where it listens.
type Discord struct {
	// Token is the bot's token; empty keeps the one that is set.
	Token config.Secret
	// Servers and Channels are IDs.
	Servers, Channels []string
}

// Files are the contents of the configuration file and of the secrets file.
type Files struct {
	Config  string
	Secrets map[string]config.Secret
}

// A Provider is a service that setup knows.
type Provider struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	BaseURL string `json:"baseURL,omitempty"`
	// Key is where to get a key; empty means that none is needed.
	Key string `json:"key,omitempty"`
	// Model is a model to begin with; empty if there is none that everybody has.
	Model string `json:"model,omitempty"`
}

// Providers lists the services that setup offers, in the order to show.
var Providers = []Provider{
	{Name: "anthropic", Title: "Anthropic (Claude)", Key: "https://platform.claude.com/settings/keys", Model: "claude-sonnet-5-5"},
	{Name: "openai", Title: "OpenAI (GPT)", Key: "https://platform.openai.com/api-keys", Model: "gpt-5.4"},
	{Name: "gemini", Title: "Google (Gemini)", Key: "https://aistudio.google.com/apikey", Model: "gemini-3.8-flash"},
	{Name: "openrouter", Title: "OpenRouter (many models)", BaseURL: "https://openrouter.ai/api/v1", Key: "https://openrouter.ai/settings/keys"},
	{Name: "ollama", Title: "Ollama (on this machine)", BaseURL: "http://127.0.0.1:11434/v1"},
	{Name: "custom", Title: "Other (OpenAI-compatible)"},
	{Name: "demo", Title: "Demo (built in, offline)"},
}

func provider(name string) (Provider, bool) {
	i := slices.IndexFunc(Providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{Name: name}, false
	}
	return Providers[i], true
}

// nameForm matches the names of providers, rules, and sources.
var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,39}$`)

// headerForm matches the names of headers that setup accepts.
var headerForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// Apply makes the changes of the answers in the files. It changes neither answers nor files. It
// does not check the result: [config.Load] does.
func (a Answers) Apply(before Files) (Files, error) {
	after := Files{before.Config, maps.Clone(before.Secrets)}
	if after.Secrets == nil {
		after.Secrets = map[string]config.Secret{}
	}
	var changes []Change
	for _, part := range []func(Files) ([]Change, error){a.Model.changes, a.Discord.changes, a.Rule.changes} {
		found, err := part(after)
		if err != nil {
			return before, err
		}
		changes = append(changes, found...)
	}
	for _, s := range a.Settings {
		c, err := s.change()
		if err != nil {
			return before, err
		}
		changes = append(changes, c)
	}
	text, err := Edit(after.Config, changes...)
	if err != nil {
		return before, err
	}
	after.Config = text
	return after, nil
}

// Ref returns the name of the model in the configuration.
func (m *Model) Ref() string {
	if m.Provider == "demo" {
		return "demo"
	}
	return m.Provider + "/" + strings.TrimSpace(m.Name)
}

// changes adds the key to the secrets of the files, and returns the changes of the configuration.
func (m *Model) changes(files Files) ([]Change, error) {
	if m == nil {
		return nil, nil
	}
	known, ok := provider(m.Provider)
	name := strings.TrimSpace(m.Name)
	switch {
	case m.Provider == "demo":
		return []Change{set("model", "demo")}, nil
	case !nameForm.MatchString(m.Provider):
		return nil, fault.InvalidField("provider", "%q is not a name for a provider. Use lower-case letters, digits, _ and -.", m.Provider)
	}
	at := func(key string) []string { return []string{"providers", m.Provider, key} }
	var changes []Change
	builtin := config.Default().Providers[m.Provider].BaseURL != ""
	address := strings.TrimSpace(m.BaseURL)
	if address == "" {
		address = known.BaseURL
	}
	switch {
	case !builtin && address == "":
		return nil, fault.InvalidField("baseURL", "%s is not a built-in provider. Correct the name, or enter the address of its API, for example http://127.0.0.1:11434/v1.", m.Provider)
	case name == "":
		return nil, fault.InvalidField("model", "Enter the name of the model at the provider.")
	}
	if !builtin {
		changes = append(changes, Change{at("type"), string(config.OpenAI)})
	}
	if address != "" {
		changes = append(changes, Change{at("baseURL"), address})
	}
	key := strings.TrimSpace(m.Key.Reveal())
	stored := secretName(m.Provider, "API_KEY")
	switch {
	case key != "":
		files.Secrets[stored] = config.Secret(key)
		changes = append(changes, Change{at("apiKey"), "${" + stored + "}"})
	case ok && known.Key != "" && address == known.BaseURL && !hasKey(files.Config, at("apiKey")) && !builtin:
		return nil, fault.InvalidField("key", "Enter the API key. You get one at %s.", known.Key)
	}
	for _, line := range strings.Split(m.Headers.Reveal(), "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); {
		case name == "" && value == "":
		case value == "" || !headerForm.MatchString(name):
			return nil, fault.InvalidField("headers", "Enter each header on a line of its own, in the form NAME: VALUE.")
		default:
			stored := secretName(m.Provider, "HEADER_"+name) // a header may be called api-key
			files.Secrets[stored] = config.Secret(value)
			changes = append(changes, Change{append(at("headers"), name), "${" + stored + "}"})
		}
	}
	return append(changes, set("model", m.Ref())), nil
}

// secretName returns the name under which a secret of a provider is stored.
func secretName(provider, name string) string {
	return strings.ToUpper(strings.ReplaceAll(provider+"_"+name, "-", "_"))
}

func (d *Discord) changes(files Files) ([]Change, error) {
	if d == nil {
		return nil, nil
	}
	var changes []Change
	if token := strings.TrimSpace(strings.TrimPrefix(d.Token.Reveal(), "Bot ")); token != "" {
		files.Secrets["DISCORD_TOKEN"] = config.Secret(token)
		changes = append(changes, set("surface.discord.token", "${DISCORD_TOKEN}"))
	}
	if len(d.Servers)+len(d.Channels) == 0 {
		return nil, fault.InvalidField("servers", "Select at least one server or channel. The bot listens nowhere else.")
	}
	for path, ids := range map[string][]string{"surface.discord.allowedGuildIds": d.Servers, "surface.discord.allowedChannelIds": d.Channels} {
		change := set(path, nil)
		if len(ids) > 0 {
			change.Value = ids
		}
		changes = append(changes, change)
	}
	order.By(changes, func(a, b Change) int { return strings.Compare(a.Path[len(a.Path)-1], b.Path[len(b.Path)-1]) })
	return changes, nil
}

// ChangedSecrets lists the names of the secrets that differ, sorted.
func ChangedSecrets(before, after Files) []string {
	out := []string{}
	for name, value := range after.Secrets {
		if before.Secrets[name] != value {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Overridden says which values of the files have no effect, because the environment or a flag sets
// them. The configuration is the one of the files after the change.
func Overridden(cfg *config.Config, before, after Files) (warnings []string) {
	keys := []string{"model", "surface.discord.token"}
	for name := range cfg.Providers {
		keys = append(keys, "providers."+name+".apiKey", "providers."+name+".baseURL")
	}
	slices.Sort(keys)
	changed := before.Config != after.Config || len(ChangedSecrets(before, after)) > 0
	for _, key := range keys {
		by := cfg.OverriddenBy(key)
		if changed && by != "" && hasKey(after.Config, strings.Split(key, ".")) {
			warnings = append(warnings, by+" is set where Lilac was started, and overrides "+key+" of the file. Remove it there to use the file.")
		}
	}
	return warnings
}

// hasKey reports whether the text has a value at a path.
func hasKey(text string, path []string) bool {
	var tree map[string]any
	if yaml.Unmarshal([]byte(strings.TrimPrefix(text, "\ufeff")), &tree) != nil {
		return false
	}
	for i, key := range path {
		value, ok := tree[key]
		if !ok {
			return false
		}
		if i == len(path)-1 {
			return true
		}
		tree, _ = value.(map[string]any)
	}
	return false
}

package httpapi

import (
	"context"
	"net/http"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/fault"
)

// Setup changes the configuration for the operator. Its errors name the field of the answer.
// Nothing that it returns contains a secret.
type Setup interface {
	// State describes what is set up.
	State(ctx context.Context) (SetupState, error)
	// Models lists the names of the models that a provider offers.
	Models(ctx context.Context, m SetupModel) ([]string, error)
	// TryModel makes a real call with a tool. TryDiscord asks Discord what a token gives access to.
	// TryRule says what an example event would cause.
	TryModel(ctx context.Context, m SetupModel) (SetupModelTrial, error)
	TryDiscord(ctx context.Context, d SetupDiscord) (SetupDiscordTrial, error)
	TryRule(ctx context.Context, r SetupRule) (environment.Trial, error)
	// Change checks the answers and shows what would change in the file. If save is set, it also
	// writes the file and applies it.
	Change(ctx context.Context, a SetupAnswers, save bool) (SetupChange, error)
	// Undo restores the file from before the last change.
	Undo(ctx context.Context) (SetupChange, error)
	// Restart makes the program stop and start again.
	Restart(ctx context.Context) error
}

// SetupState describes what is set up.
type SetupState struct {
	// Fresh means that nothing is set up: the demo model answers, and there are no platforms and
	// no rules.
	Fresh bool `json:"fresh"`
	// Model is the model that answers; Why says why, Demo that it is the built-in one.
	Model string `json:"model"`
	Why   string `json:"why"`
	Demo  bool   `json:"demo"`
	// Discord means that a token is set; Rules is the number of the operator's own rules.
	Discord bool `json:"discord"`
	Rules   int  `json:"rules"`
	// File is the path of the configuration file. ReadOnly says why it cannot be written.
	File     string `json:"file"`
	ReadOnly string `json:"readOnly,omitempty"`
	// Undo means that the file from before the last change exists.
	Undo bool `json:"undo"`
	// CanRestart means that the program can restart itself.
	CanRestart bool `json:"canRestart"`
	// Portal is where to create a bot for Discord.
	Portal    string          `json:"portal"`
	Providers []SetupProvider `json:"providers"`
	Templates []SetupTemplate `json:"templates"`
}

// SetupProvider is a service that offers models.
type SetupProvider struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	BaseURL string `json:"baseURL,omitempty"`
	// Key is where to get a key; empty means that none is needed.
	Key string `json:"key,omitempty"`
	// Model is a model to begin with.
	Model string `json:"model,omitempty"`
	// HasKey means that a key is set.
	HasKey bool `json:"hasKey,omitempty"`
}

// SetupTemplate is a rule to begin with.
type SetupTemplate struct {
	Name         string `json:"name"`
	Title        string `json:"title"`
	Conversation string `json:"conversation"`
	Prompt       string `json:"prompt"`
	After        string `json:"after,omitempty"`
}

// SetupAnswers are what the operator chose; absent parts stay as they are.
type SetupAnswers struct {
	Model   *SetupModel   `json:"model,omitempty"`
	Discord *SetupDiscord `json:"discord,omitempty"`
	Rule    *SetupRule    `json:"rule,omitempty"`
	// Settings are single settings.
	Settings []SetupSetting `json:"settings,omitempty"`
}

// SetupSetting is a new value of a setting. A list has one entry per line. Reset removes the setting
// from the file, so that its default applies.
type SetupSetting struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	Reset bool   `json:"reset,omitempty"`
}

// SetupModel is the choice of a model. An empty key keeps the one that is set. Headers are lines NAME: VALUE.
type SetupModel struct {
	Provider string `json:"provider"`
	Model    string `json:"model,omitempty"`
	Key      string `json:"key,omitempty"`
	BaseURL  string `json:"baseURL,omitempty"`
	Headers  string `json:"headers,omitempty"`
}

// SetupDiscord is the bot and where it listens. An empty token keeps the one that is set.
type SetupDiscord struct {
	Token    string   `json:"token,omitempty"`
	Servers  []string `json:"servers,omitempty"`
	Channels []string `json:"channels,omitempty"`
}

// SetupRule is a rule from a template. Time is for weekdays, Directory for file, and Secret for ci.
type SetupRule struct {
	Template     string `json:"template"`
	Conversation string `json:"conversation,omitempty"`
	Prompt       string `json:"prompt,omitempty"`
	Time         string `json:"time,omitempty"`
	Directory    string `json:"directory,omitempty"`
	Secret       string `json:"secret,omitempty"`
}

// SetupChange is a change of the configuration file.
type SetupChange struct {
	Diff []SetupLine `json:"diff"`
	// Secrets are the names of the secrets that change.
	Secrets []string `json:"secrets"`
	// Restart are the settings that take effect only after a restart.
	Restart []string `json:"restart"`
	// Warnings are probable mistakes, and values that the environment overrides.
	Warnings []string `json:"warnings"`
	Saved    bool     `json:"saved"`
}

// SetupLine is a line of a diff: Op is " ", "-", "+", or "@" for lines that are left out.
type SetupLine struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

// SetupModelTrial is the result of a real call.
type SetupModelTrial struct {
	Model  string       `json:"model"`
	OK     bool         `json:"ok"`
	Checks []SetupCheck `json:"checks"`
	// CostMicros is the cost in millionths of a US dollar, 0 if unknown.
	CostMicros int64 `json:"costMicros,omitempty"`
}

// SetupCheck is one line of a result. Status is ok, failed, or absent.
type SetupCheck struct {
	Status string `json:"status"`
	Text   string `json:"text"`
	// Do says how to fix it.
	Do string `json:"do,omitempty"`
}

// SetupDiscordTrial lists the bot, servers and channels to which a token gives access.
type SetupDiscordTrial struct {
	Bot     string        `json:"bot"`
	Invite  string        `json:"invite,omitempty"`
	Checks  []SetupCheck  `json:"checks"`
	Servers []SetupServer `json:"servers"`
	// More is the number of servers that are left out.
	More int `json:"more,omitempty"`
}

// SetupServer is a server of the bot.
type SetupServer struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Listens  bool           `json:"listens,omitempty"`
	Channels []SetupChannel `json:"channels"`
}

// SetupChannel is a channel that the bot can see. Missing says what it may not do there.
type SetupChannel struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Listens bool   `json:"listens,omitempty"`
	Missing string `json:"missing,omitempty"`
}

// setups serves the setup.
type setups struct{ setup Setup }

func (s setups) available() error {
	if s.setup == nil {
		return &fault.Error{Kind: fault.Unavailable, Code: "no_setup", Message: "This server cannot change its configuration."}
	}
	return nil
}

func (s setups) state(r *http.Request) (SetupState, error) { return s.setup.State(r.Context()) }

type modelNames struct {
	Models []string `json:"models"`
}

func (s setups) models(r *http.Request, in SetupModel) (modelNames, error) {
	names, err := s.setup.Models(r.Context(), in)
	return modelNames{append([]string{}, names...)}, err
}

func (s setups) tryModel(r *http.Request, in SetupModel) (SetupModelTrial, error) {
	return s.setup.TryModel(r.Context(), in)
}

func (s setups) tryDiscord(r *http.Request, in SetupDiscord) (SetupDiscordTrial, error) {
	return s.setup.TryDiscord(r.Context(), in)
}

func (s setups) tryRule(r *http.Request, in SetupRule) (environment.Trial, error) {
	return s.setup.TryRule(r.Context(), in)
}

func (s setups) preview(r *http.Request, in SetupAnswers) (SetupChange, error) {
	return s.setup.Change(r.Context(), in, false)
}

func (s setups) save(r *http.Request, in SetupAnswers) (SetupChange, error) {
	return s.setup.Change(r.Context(), in, true)
}

func (s setups) undo(r *http.Request) (SetupChange, error) { return s.setup.Undo(r.Context()) }

func (s setups) restart(r *http.Request) error { return s.setup.Restart(r.Context()) }

// routes declares the routes of the setup.
func (s setups) routes() []route {
	return []route{
		{
			method: "GET", path: "/setup", needs: s.available, summary: "Describe what is set up, and what can be.",
			status: 200, result: "The state.", endpoint: reply(s.state),
		},
		{
			method: "POST", path: "/setup", records: "change-settings", needs: s.available, summary: "Change the configuration file and apply it.",
			description: "Keeps the comments, and the old file beside the new one. Secrets go into a file of their own. 409 if the file changes at the same time.",
			status:      200, result: "The change.", endpoint: replyTo(requiredBody, s.save),
		},
		{
			method: "POST", path: "/setup/preview", needs: s.available, summary: "Check a change of the configuration file, and show it without making it.",
			status: 200, result: "The change.", endpoint: replyTo(requiredBody, s.preview),
		},
		{
			method: "POST", path: "/setup/undo", records: "undo-settings", needs: s.available, summary: "Restore the configuration file from before the last change.",
			status: 200, result: "The change.", endpoint: reply(s.undo),
		},
		{
			method: "POST", path: "/setup/models", needs: s.available, summary: "List the models that a provider offers.",
			status: 200, result: "The names of the models.", endpoint: replyTo(requiredBody, s.models),
		},
		{
			method: "POST", path: "/setup/test/model", needs: s.available, summary: "Make a small real call of a model with a tool.",
			description: "The provider charges for a few hundred tokens.",
			status:      200, result: "What worked.", endpoint: replyTo(requiredBody, s.tryModel),
		},
		{
			method: "POST", path: "/setup/test/discord", needs: s.available, summary: "Ask Discord what a token gives access to.",
			status: 200, result: "The servers and channels.", endpoint: replyTo(requiredBody, s.tryDiscord),
		},
		{
			method: "POST", path: "/setup/test/rule", needs: s.available, summary: "Report what an example event would cause with a rule from a template.",
			status: 200, result: "The rule, its action, and the prompt.", endpoint: replyTo(requiredBody, s.tryRule),
		},
		{
			method: "POST", path: "/restart", records: "restart", needs: s.available, summary: "Stop gracefully and start again. Running requests resume.",
			status: 204, result: "Restarting.", endpoint: noContent(s.restart),
		},
	}
}

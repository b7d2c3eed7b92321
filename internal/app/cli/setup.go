package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"lilac/internal/app"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/config"
	"lilac/internal/operate/setup"
	"lilac/internal/serve/httpapi"
)

// maxSecretFile bounds the file with a key or token.
const maxSecretFile = 64 << 10

// setupFlags are the answers on the command line.
type setupFlags struct {
	model                                    setup.Model
	rule                                     setup.Rule
	keyFile, tokenFile, hookFile, headerFile string
	servers, channels                        []string
	print, noTest, yes                       bool
}

func setupCommand(c *cli) *cobra.Command {
	var f setupFlags
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Set up a model, Discord, and a first rule",
		Long: "Asks for a model, Discord, and a first rule, tests each of them, shows what changes in the\n" +
			"configuration file, and writes it. Comments stay, and the old file is kept beside the new one. Keys\n" +
			"and tokens go into the file \"secrets\" in the data directory, which only you can read. A running\n" +
			"server applies the change.\n\n" +
			"With flags, it asks nothing and fails if a test fails. Keys and tokens are read from files (- is\n" +
			"standard input), because other users can see the arguments of a command.",
		Example: "  lilac setup\n  lilac setup --provider anthropic --model claude-sonnet-5-5 --api-key-file key.txt\n" +
			"  lilac setup --provider ollama --model qwen3 --print > lilac.yaml\n" +
			"  lilac setup --discord-token-file token.txt --discord-server 1111111111111111111\n" +
			"  lilac setup --rule weekdays --time 08:30 --conversation Team",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return c.setUp(ctx, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.model.Provider, "provider", "", "`name` of the provider: anthropic, openai, gemini, openrouter, ollama, demo, or another name with --base-url")
	flags.StringVar(&f.model.Name, "model", "", "`name` of the model at the provider")
	flags.StringVar(&f.model.BaseURL, "base-url", "", "`URL` of the provider's API, if it is not the provider's own")
	flags.StringVar(&f.keyFile, "api-key-file", "", "`file` with the API key")
	flags.StringVar(&f.headerFile, "header-file", "", "`file` with further headers that a gateway wants, as lines NAME: VALUE")
	flags.StringVar(&f.tokenFile, "discord-token-file", "", "`file` with the bot's token")
	flags.StringSliceVar(&f.servers, "discord-server", nil, "`ID` of a server where the bot listens (repeatable)")
	flags.StringSliceVar(&f.channels, "discord-channel", nil, "`ID` of a channel where the bot listens (repeatable)")
	flags.StringVar(&f.rule.Template, "rule", "", "`template` of the rule: ci, weekdays, or file")
	flags.StringVar(&f.rule.Conversation, "conversation", "", "`title` of the conversation in which the agent answers the rule")
	flags.StringVar(&f.rule.Prompt, "prompt", "", "`text` that the agent is told")
	flags.StringVar(&f.rule.Time, "time", "", "`time` of the rule weekdays (default 09:00)")
	flags.StringVar(&f.rule.Directory, "directory", "", "`directory` that the rule file watches")
	flags.StringVar(&f.hookFile, "webhook-secret-file", "", "`file` with the secret that GitHub signs with, for the rule ci")
	flags.BoolVar(&f.print, "print", false, "print the configuration file instead of writing it")
	flags.BoolVar(&f.noTest, "no-test", false, "do not make test calls")
	flags.BoolVar(&f.yes, "yes", false, "write without asking")
	return cmd
}

// given reports whether the command line has answers.
func (f setupFlags) given() bool {
	return f.model.Provider != "" || f.tokenFile != "" || len(f.servers)+len(f.channels) > 0 || f.rule.Template != ""
}

// answers reads the secrets, and returns the answers on the command line.
func (f setupFlags) answers(c *cli) (out setup.Answers, err error) {
	secret := func(path string) (config.Secret, error) {
		value, err := c.readSecret(path)
		c.secrets.Add(value)
		return config.Secret(value), err
	}
	if f.model.Provider != "" {
		if f.model.Key, err = secret(f.keyFile); err != nil {
			return out, err
		}
		headers, err := c.readSecret(f.headerFile)
		if err != nil {
			return out, err
		}
		f.model.Headers = config.Secret(headers)
		out.Model = &f.model
	}
	if f.tokenFile != "" || len(f.servers)+len(f.channels) > 0 {
		out.Discord = &setup.Discord{Servers: f.servers, Channels: f.channels}
		if out.Discord.Token, err = secret(f.tokenFile); err != nil {
			return out, err
		}
	}
	if f.rule.Template != "" {
		if f.rule.Secret, err = secret(f.hookFile); err != nil {
			return out, err
		}
		out.Rule = &f.rule
	}
	return out, nil
}

// readSecret reads a file, or standard input for "-". Without a path, it returns "".
func (c *cli) readSecret(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := c.readFile(path, maxSecretFile)
	return strings.TrimSpace(string(data)), err
}

// setUp asks for the answers that the flags do not give, and applies them.
func (c *cli) setUp(ctx context.Context, f setupFlags) error {
	cfg, err := c.load()
	if errors.Is(err, fs.ErrNotExist) { // a file that --config names may be created
		cfg, _, err = c.propose(&config.Proposal{})
	}
	if err != nil {
		return err
	}
	s := &setupRun{cli: c, setupFlags: f, store: setup.Store{Path: cfg.Sought, DataDir: cfg.DataDir}}
	if s.before, err = s.store.Read(); err != nil {
		return err
	}
	if why := s.store.ReadOnly(); why != "" && !f.print {
		return fault.New(fault.Denied, "%s Use --print to see the file with the change.", why)
	}
	if !f.given() {
		if !isTerminal(c.in) {
			return fault.New(fault.Invalid, "Nothing to set up: there is no terminal to ask in, and no flag such as --provider, --discord-token-file, or --rule.")
		}
		return s.ask(ctx)
	}
	answers, err := f.answers(c)
	if err != nil {
		return err
	}
	return s.apply(ctx, answers, nil)
}

// A setupRun is one run of the command.
type setupRun struct {
	*cli
	setupFlags
	store  setup.Store
	before setup.Files
}

// apply tests the answers and writes them. With a questioner, the user decides whether to go on.
func (s *setupRun) apply(ctx context.Context, a setup.Answers, q *questioner) error {
	after, err := a.Apply(s.before)
	if err != nil {
		return err
	}
	proposal, err := after.Proposal()
	if err != nil {
		return err
	}
	cfg, warnings, err := s.propose(proposal)
	if err != nil {
		return err
	}
	s.secrets.Add(cfg.Secrets()...)
	if !s.noTest {
		if err := s.test(ctx, cfg, a); err != nil && (q == nil || !q.yes("Save it anyway?", false)) {
			return err
		}
	}
	for _, w := range warnings {
		fmt.Fprintln(s.err, "lilac: warning:", text.Sanitize(s.secrets.Redact(w.String())))
	}
	for _, w := range setup.Overridden(cfg, s.before, after) {
		fmt.Fprintln(s.err, "lilac: warning:", w)
	}
	if s.print {
		_, err := io.WriteString(s.out, after.Config)
		return err
	}
	return s.save(a, after, q)
}

// save shows the change, asks, and writes it.
func (s *setupRun) save(a setup.Answers, after setup.Files, q *questioner) error {
	stored := setup.ChangedSecrets(s.before, after)
	if s.before.Config == after.Config && len(stored) == 0 {
		fmt.Fprintln(s.out, "This is set up already: nothing changes.")
		return nil
	}
	fmt.Fprintf(s.out, "\n%s:\n", s.store.Path)
	for _, line := range setup.Diff(s.before.Config, after.Config) {
		fmt.Fprintln(s.out, strings.TrimRight(strings.Replace(line.Op, "@", "  …", 1)+" "+text.Sanitize(line.Text), " "))
	}
	if len(stored) > 0 {
		fmt.Fprintf(s.out, "Secrets to store in %s: %s\n", s.store.SecretsPath(), strings.Join(stored, ", "))
	}
	if q != nil && !s.yes && !q.yes("Write this?", true) {
		fmt.Fprintln(s.out, "Nothing was written.")
		return nil
	}
	if err := s.store.Write(s.before, after); err != nil {
		return err
	}
	if s.before.Config == after.Config {
		fmt.Fprintln(s.out, "Written. Restart a running server to use the new secret.")
	} else {
		fmt.Fprintln(s.out, "Written. A running server applies it; a change of Discord's token needs a restart.")
	}
	s.before = after
	if a.Rule != nil {
		for _, t := range setup.Templates {
			if t.Name == a.Rule.Template && t.After != "" {
				fmt.Fprintln(s.out, t.After)
			}
		}
	}
	return nil
}

// test makes the test calls and prints their results. Its output goes to standard error, so that
// --print prints only the file.
func (s *setupRun) test(ctx context.Context, cfg *config.Config, a setup.Answers) error {
	if a.Model != nil {
		fmt.Fprintf(s.err, "Testing %s…\n", text.Sanitize(a.Model.Ref()))
		ctx, cancel := context.WithTimeout(ctx, trialTimeout)
		defer cancel()
		found, err := app.TryModel(ctx, cfg, a.Model.Ref())
		if err != nil {
			return err
		}
		s.printChecks(found.Checks)
		if !found.OK {
			return fault.New(fault.Unavailable, "The model %s does not work. Nothing was written; --no-test skips the test.", found.Model)
		}
	}
	if a.Discord != nil {
		found, err := app.TryDiscord(ctx, cfg, "")
		if err != nil {
			return err
		}
		s.printChecks(found.Checks)
		if found.Invite != "" && len(found.Servers) == 0 {
			fmt.Fprintln(s.err, "The bot is in no server yet. Invite it:", found.Invite)
		}
	}
	if a.Rule != nil {
		trial, err := app.TryRule(cfg, a.Rule, s.before)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.err, "Dry run: the rule %s acts in %s.\n\n%s\n\n", text.Sanitize(cmp.Or(trial.Rule, "(none)")), text.Sanitize(strings.TrimPrefix(trial.Session, "title:")), text.Sanitize(trial.Prompt))
	}
	return nil
}

func (s *setupRun) printChecks(checks []httpapi.SetupCheck) {
	for _, check := range checks {
		fmt.Fprintln(s.err, strings.TrimSpace(fmt.Sprintf("  %-7s %s. %s", check.Status, strings.TrimSuffix(oneLine(s.secrets.Redact(check.Text)), "."), check.Do)))
	}
}

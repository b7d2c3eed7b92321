package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"lilac/internal/app"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
	"lilac/internal/operate/config"
	"lilac/internal/telemetry/logs"
)

// cli holds what every command shares: the streams and the global flags.
type cli struct {
	printer
	locator
	in io.Reader
	// warnings are those of the configuration that load read.
	warnings []config.Warning
	seams    app.Seams
	// release is the version, and releases the URL that describes the newest one.
	release, releases string
}

// printer prints results and errors.
type printer struct {
	out, err io.Writer
	// json is the flag --json.
	json bool
	// secrets are redacted on standard error.
	secrets logs.Secrets
	// lossy are the writers that replace standard output and error in a server, to be
	// closed at the end. blockingLog is the control of a test: it leaves them out.
	lossy       []*logs.LossyWriter
	blockingLog bool
}

// locator finds the configuration and the server that the flags and the environment
// select.
type locator struct {
	getenv func(string) string
	file   string
	flags  config.Flags
	// service is that of the machine. root reports that root runs the command, which then means the
	// service if nothing else is named and the command is not own.
	service   config.Service
	root, own bool
}

// meansService reports whether the command means the service of the machine. A command that names
// an address does not: the token of the service must not reach another machine.
func (l *locator) meansService() bool {
	named := l.file != "" || l.flags.DataDir != "" || l.flags.Addr != "" || slices.ContainsFunc([]string{"LILAC_CONFIG", "LILAC_DATA_DIR", "LILAC_ADDR"}, func(name string) bool { return l.getenv(name) != "" })
	if !l.root || l.own || named || !l.service.Installed() {
		return false
	}
	_, err := os.Stat(filepath.Join(l.getenv("HOME"), ".lilac")) // root may have a Lilac of its own
	return errors.Is(err, fs.ErrNotExist)
}

// environment returns the environment of the command.
func (l *locator) environment() (func(string) string, error) {
	if !l.meansService() {
		return l.getenv, nil
	}
	return l.service.Getenv(l.getenv)
}

// advice says how to start the server that the command means, or "".
func (l *locator) advice() string {
	switch {
	case l.meansService():
		return "Start the service with: systemctl start lilac"
	case !l.root && l.service.Installed():
		return "Start one with: lilac serve. For the service of this machine, use sudo."
	}
	return ""
}

// run executes one command line and returns the exit code.
func (c *cli) run(ctx context.Context, args []string) int {
	root := c.root()
	refused := addHelp(root)
	root.InitDefaultCompletionCmd(args...)
	checkArgs(root)
	root.SetArgs(args)
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	err := cmp.Or(root.ExecuteContext(ctx), refused())
	defer c.closeLossy()
	if err == nil {
		return 0
	}
	c.printError(err)
	return fault.KindOf(err).ExitCode()
}

// printError prints an error on one line, and each mistake in the configuration on its
// own line.
func (p *printer) printError(err error) {
	found, more := config.Each(err)
	for _, e := range found {
		fmt.Fprintln(p.err, "lilac:", oneLine(p.secrets.Redact(fault.Plain(e))))
	}
	if more > 0 {
		fmt.Fprintf(p.err, "lilac: %d more mistakes\n", more)
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(text.Sanitize(s)), " ") }

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lilac",
		Short: "An AI agent that never loses a message",
		Long: "Lilac answers people and reacts to events. Everything that it accepts is never lost and is\n" +
			"answered exactly once, even through kill -9. Start the server with \"lilac serve\"; the other\n" +
			"commands talk to it. Root's commands talk to the service of the machine, if there is one.",
		Example:       "  lilac serve                  # run the server; prints a login link for the page\n  lilac chat                   # chat in the terminal\n  lilac doctor                 # diagnose problems and suggest fixes",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fault.New(fault.Invalid, "%s (see %s --help)", fault.Plain(err), cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&c.file, "config", "", "configuration `file` (default ~/.lilac/config.yaml, or LILAC_CONFIG)")
	flags.StringVar(&c.flags.Addr, "addr", "", "`host:port` of the server (default 127.0.0.1:7420, or LILAC_ADDR)")
	flags.StringVar(&c.flags.DataDir, "data", "", "data `directory` (default ~/.lilac, or LILAC_DATA_DIR)")
	root.AddCommand(
		serveCommand(c), setupCommand(c), chatCommand(c), acpCommand(c),
		eventsCommand(c), sessionsCommand(c), requestsCommand(c), usageCommand(c), nodesCommand(c), approvalsCommand(c), pairingCommand(c), accountsCommand(c), tasksCommand(c), workflowsCommand(c), dlqCommand(c), groupsCommand(c),
		rulesCommand(c), sourcesCommand(c), webhooksCommand(c), toolsCommand(c),
		mcpCommand(c), skillsCommand(c), memoryCommand(c),
		configCommand(c), modelsCommand(c), doctorCommand(c), healthCommand(c), backupCommand(c), restoreCommand(c), migrateCommand(c),
		loginCommand(c), updateCommand(c), versionCommand(c),
	)
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}

// addHelp adds cobra's help command. It makes help and --help refuse an unknown
// command, for which cobra shows the help of the parent command.
func addHelp(root *cobra.Command) (refused func() error) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // InitDefaultHelpCmd added it
	}
	help.Run = nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		cmd, rest, err := root.Find(args)
		if err != nil {
			return fmt.Errorf("find the command: %w", err)
		}
		if len(rest) > 0 {
			return unknown(cmd, rest[0])
		}
		cmd.InitDefaultHelpFlag()
		return cmd.Help()
	}
	var mistake error
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if rest := cmd.Flags().Args(); cmd.HasSubCommands() && len(rest) > 0 {
			mistake = unknown(cmd, rest[0])
			return
		}
		show(cmd, args)
	})
	return func() error { return mistake }
}

// unknown returns the error for an unknown subcommand.
func unknown(cmd *cobra.Command, name string) error {
	meant := ""
	cmd.SuggestionsMinimumDistance = 2 // maximum number of wrong letters
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		meant = fmt.Sprintf(", did you mean %q?", near[0])
	}
	return fault.New(fault.Invalid, "unknown command %q%s (see %s --help)", name, meant, cmd.CommandPath())
}

// nonEmpty are the flags that must not be empty. An empty value, such as an unset shell
// variable, would select the default: the wrong data directory, or a new conversation.
var nonEmpty = []string{"config", "data", "addr", "workspace", "session"}

// checkArgs makes wrong arguments, missing flags and unknown subcommands usage errors.
// An empty argument, such as an unset shell variable, is one as well.
func checkArgs(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag() // otherwise pflag takes the word after -h as its value
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) != nil {
				return fault.New(fault.Invalid, "%s; usage: %s (see %s --help)", wrongCount(cmd, args), strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath())
			}
			var err error
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 && !f.Changed {
					err = fmt.Errorf("--%s is missing", f.Name)
				}
			})
			if err == nil && slices.Contains(args, "") {
				err = errors.New("an argument is empty")
			}
			for _, name := range nonEmpty {
				if f := cmd.Flag(name); err == nil && f != nil && f.Changed && f.Value.String() == "" {
					err = fmt.Errorf("--%s is empty", name)
				}
			}
			if err != nil {
				return fault.New(fault.Invalid, "%s (see %s --help)", err, cmd.CommandPath())
			}
			return nil
		}
	}
	if cmd.HasSubCommands() && cmd.RunE == nil {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknown(cmd, args[0])
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

// wrongCount names the argument that is missing, or the first one that is too many.
func wrongCount(cmd *cobra.Command, args []string) string {
	usage, _, _ := strings.Cut(cmd.Use, " (") // alternatives of flags follow
	names := slices.DeleteFunc(strings.Fields(usage)[1:], func(name string) bool { return strings.HasPrefix(name, "-") })
	switch {
	case len(args) < len(names):
		return strings.TrimRight(names[len(args)], ".…") + " is missing"
	case len(names) == 0:
		return fmt.Sprintf("%s takes no argument such as %q", cmd.CommandPath(), args[0])
	}
	return fmt.Sprintf("the argument %q is one too many", args[len(names)])
}

// load reads the configuration and prints its warnings.
func (c *cli) load() (*config.Config, error) {
	cfg, warnings, err := c.read()
	if cfg != nil {
		c.secrets.Add(cfg.Secrets()...)
	}
	for _, w := range warnings {
		fmt.Fprintln(c.err, "lilac: warning:", text.Sanitize(c.secrets.Redact(w.String())))
	}
	c.warnings = warnings
	return cfg, err
}

// source returns the configuration that the command line selects.
func (l *locator) source() (config.Source, error) {
	getenv, err := l.environment()
	return config.Source{File: l.file, Flags: l.flags, Getenv: getenv}, err
}

// read reads the configuration that the command line selects.
func (l *locator) read() (*config.Config, []config.Warning, error) { return l.propose(nil) }

// propose reads the configuration as if its files had other contents.
func (l *locator) propose(p *config.Proposal) (*config.Config, []config.Warning, error) {
	src, err := l.source()
	if err != nil {
		return nil, nil, err
	}
	src.Proposed = p
	return config.Load(src)
}

// locate finds the data directory, even if the configuration has mistakes.
func (c *cli) locate() (config.Location, error) {
	src, err := c.source()
	if err != nil {
		return config.Location{}, err
	}
	at, err := config.Locate(src)
	c.secrets.Add(at.Token.Reveal())
	return at, err
}

// connect finds the running server. Without --addr or LILAC_ADDR it uses the address
// that the server wrote to its data directory, not the configured one.
func (c *cli) connect() (*client.Client, error) {
	addr := c.flags.Addr
	if addr == "" {
		addr = c.getenv("LILAC_ADDR")
	}
	at, err := c.locate()
	if err != nil {
		return nil, err
	}
	return client.Connect(client.Options{Addr: addr, DataDir: at.DataDir, Token: at.Token.Reveal(), Advice: c.advice()})
}

// onServer returns a command's RunE that connects to the running server first.
func (c *cli) onServer(run func(cmd *cobra.Command, server *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		server, err := c.connect()
		if err != nil {
			return err
		}
		return run(cmd, server, args)
	}
}

// withJSON adds --json to a command that prints data.
func (p *printer) withJSON(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&p.json, "json", false, "print JSON")
	return cmd
}

// printJSON prints v with indentation.
func (p *printer) printJSON(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	if _, err := p.out.Write(text.SanitizeJSON(buf.Bytes())); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// untilSignal returns a context that ends at Ctrl-C or SIGTERM.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// stopped returns nil if the error is only that the user stopped the command.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || fault.KindOf(err) == fault.Cancelled) {
		return nil
	}
	return err
}

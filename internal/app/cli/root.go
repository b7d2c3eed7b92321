package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lilac/internal/app"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
	"lilac/internal/operate/config"
	"lilac/internal/telemetry/logs"
)

// cli is what every command shares: the streams and the global flags.
type cli struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	seams    app.Seams
	release  string
	// secrets are kept out of what goes to standard error.
	secrets logs.Secrets

	file  string
	flags config.Flags
	json  bool
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
	if err == nil {
		return 0
	}
	c.complain(err)
	return fault.KindOf(err).ExitCode()
}

// complain prints an error on one line; mistakes of the configuration on one each.
func (c *cli) complain(err error) {
	found, more := config.Each(err)
	for _, e := range found {
		fmt.Fprintln(c.err, "lilac:", oneLine(c.secrets.Redact(e.Error())))
	}
	if more > 0 {
		fmt.Fprintf(c.err, "lilac: there are %d more mistakes.\n", more)
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(text.Sanitize(s)), " ") }

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lilac",
		Short: "An assistant that never loses what it was told",
		Long: "Lilac answers people and reacts to events. What it accepted is never lost and is answered\n" +
			"exactly once, also through kill -9. Start the server with \"lilac serve\"; the other commands\n" +
			"talk to it.",
		Example:       "  lilac serve                  # the server; prints the link of its page\n  lilac chat                   # talk in the terminal\n  lilac doctor                 # what is wrong, and what to do",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fault.New(fault.Invalid, "%s (see %s --help)", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&c.file, "config", "", "configuration `file` (default ~/.lilac/config.yaml, or LILAC_CONFIG)")
	flags.StringVar(&c.flags.Addr, "addr", "", "`host:port` of the server (default 127.0.0.1:7420, or LILAC_ADDR)")
	flags.StringVar(&c.flags.DataDir, "data", "", "data `directory` (default ~/.lilac, or LILAC_DATA_DIR)")
	root.AddCommand(c.serve(), c.chat(), c.events(), c.sessions(), c.requests(), c.tasks(), c.workflows(), c.dlq(), c.groups(), c.rules(), c.sources(), c.webhooks(), c.tools(), c.config(), c.doctor(), c.health(), c.backup(), c.restore(), c.login(), c.version())
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}

// addHelp adds cobra's command help, and has it and --help refuse the name of
// no command: cobra shows them the help of what stands before it.
func addHelp(root *cobra.Command) (refused func() error) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // it was added
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

// unknown is the error that a command has no such subcommand.
func unknown(cmd *cobra.Command, name string) error {
	meant := ""
	cmd.SuggestionsMinimumDistance = 2 // letters that may be wrong
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		meant = fmt.Sprintf(", did you mean %q?", near[0])
	}
	return fault.New(fault.Invalid, "unknown command %q%s (see %s --help)", name, meant, cmd.CommandPath())
}

// places are the flags that say where something is. Without their value it would be
// elsewhere: in the data directory of the user, say, instead of the service's, or in
// a conversation of its own.
var places = []string{"config", "data", "addr", "workspace", "session"}

// checkArgs turns wrong arguments and missing flags into usage errors, and a
// group without a known subcommand too. An argument that is empty, as an unset
// variable of a shell leaves it, names nothing.
func checkArgs(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag() // else the word behind -h is taken for its value
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := cmp.Or(check(cmd, args), cmd.ValidateRequiredFlags())
			if err == nil && slices.Contains(args, "") {
				err = errors.New("an argument is empty")
			}
			for _, name := range places {
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

// load reads the configuration and prints its warnings.
func (c *cli) load() (*config.Config, error) {
	cfg, warnings, err := c.read()
	if cfg != nil {
		c.secrets.Add(cfg.Secrets()...)
	}
	for _, w := range warnings {
		fmt.Fprintln(c.err, "lilac: warning:", text.Sanitize(c.secrets.Redact(w.String())))
	}
	return cfg, err
}

// read reads the configuration from where the command line says.
func (c *cli) read() (*config.Config, []config.Warning, error) {
	return config.Load(config.Source{File: c.file, Flags: c.flags, Getenv: c.getenv})
}

// locate finds the data directory, also with a configuration that has mistakes.
func (c *cli) locate() (config.Location, error) {
	at, err := config.Locate(config.Source{File: c.file, Flags: c.flags, Getenv: c.getenv})
	c.secrets.Add(at.Token.Reveal())
	return at, err
}

// connect finds the running server. An address counts only if it was given
// for this call: the server says in its data directory where it listens.
func (c *cli) connect() (*client.Client, error) {
	addr := c.flags.Addr
	if addr == "" {
		addr = c.getenv("LILAC_ADDR")
	}
	at, err := c.locate()
	if err != nil {
		return nil, err
	}
	return client.Connect(client.Options{Addr: addr, DataDir: at.DataDir, Token: at.Token.Reveal()})
}

// withJSON adds --json to a command that lists or shows.
func (c *cli) withJSON(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
	return cmd
}

// printJSON prints v with indentation.
func (c *cli) printJSON(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	if _, err := c.out.Write(text.SanitizeJSON(buf.Bytes())); err != nil {
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

// stopped makes the end that the user asked for no error.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || fault.KindOf(err) == fault.Cancelled) {
		return nil
	}
	return err
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/app"
	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/logs"
	"lilac/internal/telemetry/notify"
	"lilac/internal/telemetry/tracing"
)

const (
	// lastSpans limits the time that a stop waits for the collector.
	lastSpans = 500 * time.Millisecond
	// lastLines limits the time that a stop waits for the reader of the log.
	lastLines = 500 * time.Millisecond
)

func serveCommand(c *cli) *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server and print a login link for the page",
		Long: "Runs everything in one process until Ctrl-C or SIGTERM. A second signal stops the process\n" +
			"immediately. The first line on standard output is a login link for the page, valid for one login;\n" +
			"\"lilac login\" prints another one. SIGHUP, or a change of the configuration file, applies the\n" +
			"settings that can change without a restart, and logs the others. Without nohup, the server\n" +
			"stops when its terminal is closed.",
		Example: "  lilac serve\n  lilac serve --addr 127.0.0.1:8000 --data /var/lib/lilac\n  LILAC_MODEL=openai/gpt-5.4 lilac serve",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.own = true
			cfg, err := c.load()
			if err != nil {
				return err
			}
			if strict && len(c.warnings) > 0 {
				return fault.New(fault.Invalid, "--strict refuses a configuration with probable mistakes. Correct them: %s", c.warnings[0])
			}
			secrets, level := &c.secrets, &slog.LevelVar{}
			defer surviveBrokenPipe()()
			terminal := isTerminal(c.err)
			log := c.neverBlock()
			logger := newLogger(cfg.Log, c.err, terminal, c.colorful(), level, secrets)
			slog.SetDefault(logger)
			tracer, err := c.tracer(logger)
			if err != nil {
				return err
			}
			defer closeTracer(tracer)
			ctx, stop := c.stopOnSignal(cmd.Context())
			defer stop()
			reload := make(chan os.Signal, 1) // one pending signal is enough: a reload reads the newest file
			signal.Notify(reload, syscall.SIGHUP)
			defer signal.Stop(reload)
			err = app.Run(ctx, app.Options{
				Config: cfg, Warnings: c.warnings, Stdout: c.out, Logger: logger, Version: c.versionString(),
				Load: c.read, LoadProposed: c.propose, CanRestart: canRestart, Reload: reload, Level: level, Secrets: secrets,
				Log: log, Tracer: tracer, Manager: notify.FromEnvironment(c.getenv, os.Getpid()), Seams: c.seams,
			})
			if !errors.Is(err, app.ErrRestart) {
				return err
			}
			closeTracer(tracer)
			c.closeLossy()
			stop()
			signal.Stop(reload) // under nohup, the new process ignores SIGHUP again
			return startAgain()
		},
	}
	cmd.Flags().StringVar(&c.flags.Workspace, "workspace", "", "`directory` that conversations with a shared workspace work in (default ~/lilac, or LILAC_WORKSPACE)")
	cmd.Flags().StringVar(&c.flags.Model, "model", "", "`provider/model` that answers (or LILAC_MODEL)")
	cmd.Flags().StringVar(&c.flags.LogLevel, "log-level", "", "debug, info, warn or error")
	cmd.Flags().StringVar(&c.flags.LogFormat, "log-format", "", "auto, json or text")
	cmd.Flags().BoolVar(&strict, "strict", false, "refuse a configuration with probable mistakes, such as unknown keys")
	return cmd
}

// colorful reports whether a terminal shows colors and the user wants them (https://no-color.org).
func (l *locator) colorful() bool { return l.getenv("NO_COLOR") == "" && l.getenv("TERM") != "dumb" }

// newLogger logs text to a terminal, with colors if it is colorful, and JSON elsewhere, unless the
// configuration chooses a format.
func newLogger(cfg logs.Config, w io.Writer, terminal, colorful bool, level *slog.LevelVar, secrets *logs.Secrets) *slog.Logger {
	_ = level.UnmarshalText([]byte(cfg.Level)) // the configuration was validated
	return logs.New(w, logs.Options{
		Level: level, Text: cfg.Format == "text" || cfg.Format == "auto" && terminal, Colour: terminal && colorful, Secrets: secrets,
	})
}

// tracer exports spans if the OTEL_* variables name a collector.
func (c *cli) tracer(logger *slog.Logger) (*tracing.Tracer, error) {
	o, on, err := tracing.Environment(c.getenv)
	if err != nil || !on {
		return nil, err
	}
	o.Logger = logger
	o.Version = c.versionString()
	return tracing.New(o)
}

func closeTracer(t *tracing.Tracer) {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	t.Close(ctx)
}

// surviveBrokenPipe keeps the server alive when the process that reads its log ends
// (lilac serve 2>&1 | reader): a write to standard error or output then fails with
// EPIPE, and the line is lost and counted. Without it, SIGPIPE ends the process. The
// signal is caught and not ignored, because commands of the agent would inherit an
// ignored signal. The returned function restores the default.
func surviveBrokenPipe() (restore func()) {
	caught := make(chan os.Signal, 1) // never read; further signals are dropped
	signal.Notify(caught, syscall.SIGPIPE)
	return func() { signal.Stop(caught) }
}

// neverBlock replaces standard output and error by writers that never block, so that neither
// work nor the end of the process waits for a reader of the log. It returns the one of
// standard error; closeLossy closes both.
func (c *cli) neverBlock() *logs.LossyWriter {
	out, log := logs.NewLossyWriter(c.out), logs.NewLossyWriter(c.err)
	c.lossy = append(c.lossy, out, log)
	if !c.blockingLog {
		c.out, c.err = out, log
	}
	return log
}

func (c *cli) closeLossy() {
	for _, l := range c.lossy {
		l.Close(lastLines)
	}
}

// sameSignal is the time after the first signal in which others count as the same one: timeout(1), npm,
// and others send a signal to the process and to its group. People take longer.
const sameSignal = 200 * time.Millisecond

// closing is the longest time between the SIGHUP of a shell whose terminal is closed, and the end of
// that terminal: some terminals signal their shell first, and the shell signals its jobs.
const closing = 300 * time.Millisecond

// stopOnSignal returns a context that ends at the first Ctrl-C or SIGTERM, and when the terminal is closed
// in which the server was started without nohup: nobody wants a server that runs on unseen. It must be
// called before anything else handles SIGHUP. The second Ctrl-C or SIGTERM ends the process immediately,
// like a crash, which loses nothing that was accepted.
func (c *cli) stopOnSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 16) // the second must not be dropped, also behind several SIGHUPs
	if !signal.Ignored(syscall.SIGHUP) && hasTerminal() {
		signal.Notify(signals, syscall.SIGHUP)
	}
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for ctx.Err() == nil {
			select {
			case s := <-signals:
				if s == syscall.SIGHUP {
					select {
					case <-time.After(closing):
					case <-ctx.Done():
						return
					}
					if hasTerminal() {
						continue // it only reloads
					}
				}
				cancel()
			case <-ctx.Done():
				return
			}
		}
		for first := time.Now(); <-signals == syscall.SIGHUP || time.Since(first) < sameSignal; {
			// A terminal that closes may send several SIGHUPs.
		}
		fmt.Fprintln(c.err, "lilac: stopping immediately after the second signal; running requests resume at the next start")
		c.closeLossy()
		os.Exit(1)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// hasTerminal reports whether the process has a controlling terminal.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err == nil {
		_ = tty.Close()
	}
	return err == nil
}

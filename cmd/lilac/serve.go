package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/app"
	"lilac/internal/operate/config"
	"lilac/internal/telemetry/logs"
	"lilac/internal/telemetry/notify"
	"lilac/internal/telemetry/tracing"
)

// lastSpans bounds what a stop waits for a collector.
const lastSpans = 500 * time.Millisecond

func (c *cli) serve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server and print the link of its page",
		Long: "Runs everything in one process until Ctrl-C or SIGTERM; a second one ends it at once. The first\n" +
			"line on standard output is the link of the page, good for one login; \"lilac login\" prints\n" +
			"another one. SIGHUP, or a change of the configuration file, applies what can be changed without\n" +
			"a restart, and names what cannot.",
		Example: "  lilac serve\n  lilac serve --addr 127.0.0.1:8000 --data /var/lib/lilac\n  LILAC_MODEL=openai/gpt-5.4 lilac serve",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			secrets, level := &c.secrets, &slog.LevelVar{}
			logger := newLogger(cfg.Log, c.err, level, secrets)
			slog.SetDefault(logger)
			tracer, err := c.tracer(logger)
			if err != nil {
				return err
			}
			defer closeTracer(tracer)
			ctx, stop := untilToldTwice(cmd.Context(), c.err)
			defer stop()
			reload := make(chan os.Signal, 1) // one that waits is enough: the newest file is read
			signal.Notify(reload, syscall.SIGHUP)
			defer signal.Stop(reload)
			return app.Run(ctx, app.Options{
				Config: cfg, Stdout: c.out, Logger: logger, Version: versionString(),
				Load: c.read, Reload: reload, Level: level, Secrets: secrets,
				Tracer: tracer, Manager: notify.FromEnvironment(c.getenv, os.Getpid()),
			})
		},
	}
	cmd.Flags().StringVar(&c.flags.Workspace, "workspace", "", "`directory` the agent works in (default ~/lilac, or LILAC_WORKSPACE)")
	cmd.Flags().StringVar(&c.flags.Model, "model", "", "`provider/model` that answers (or LILAC_MODEL)")
	cmd.Flags().StringVar(&c.flags.LogLevel, "log-level", "", "debug, info, warn or error")
	cmd.Flags().StringVar(&c.flags.LogFormat, "log-format", "", "auto, json or text")
	return cmd
}

// newLogger writes text with colours to a terminal and JSON elsewhere, unless
// the configuration says which.
func newLogger(cfg config.Log, w io.Writer, level *slog.LevelVar, secrets *logs.Secrets) *slog.Logger {
	_ = level.UnmarshalText([]byte(cfg.Level)) // the configuration was validated
	terminal := isTerminal(w)
	return logs.New(w, logs.Options{
		Level: level, Text: cfg.Format == "text" || cfg.Format == "auto" && terminal, Colour: terminal, Secrets: secrets,
	})
}

// tracer sends spans if OpenTelemetry's variables name a collector.
func (c *cli) tracer(logger *slog.Logger) (*tracing.Tracer, error) {
	o, on, err := tracing.Environment(c.getenv)
	if err != nil || !on {
		return nil, err
	}
	o.Logger = logger
	o.Version = versionString()
	return tracing.New(o)
}

func closeTracer(t *tracing.Tracer) {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	t.Close(ctx)
}

// untilToldTwice returns a context that ends at the first Ctrl-C or SIGTERM. The
// second one ends the process at once, as a crash does: nothing that was
// accepted is lost by it.
func untilToldTwice(ctx context.Context, log io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2) // room for the second
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
			return
		}
		<-signals
		fmt.Fprintln(log, "lilac: told twice to stop; what runs is taken up at the next start")
		os.Exit(1)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

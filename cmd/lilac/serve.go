package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"lilac/internal/app"
	"lilac/internal/config"
)

func (c *cli) serve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server and print the link of its page",
		Long: "Runs everything in one process until Ctrl-C or SIGTERM. The first line on standard output is\n" +
			"the link of the page, good for one login; \"lilac login\" prints another one.",
		Example: "  lilac serve\n  lilac serve --addr 127.0.0.1:8000 --data /var/lib/lilac\n  LILAC_MODEL=openai/gpt-5 lilac serve",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			logger := newLogger(cfg.Log, c.err)
			slog.SetDefault(logger)
			return app.Run(ctx, app.Options{Config: cfg, Stdout: c.out, Logger: logger, Version: versionString()})
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
func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(cfg.Level)) // the configuration was validated
	terminal := isTerminal(w)
	if cfg.Format == "text" || cfg.Format == "auto" && terminal {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !terminal}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}

package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lilac/internal/fault"
	"lilac/internal/toolcli"
)

// runTools is the command tools, when the program was called by that name or as
// "lilac tools"; ran is false when it was not. It comes before everything else
// that the program does, so that it starts at once.
func runTools(ctx context.Context, argv []string) (code int, ran bool) {
	args := argv[1:]
	if filepath.Base(argv[0]) != "tools" {
		if len(args) == 0 || args[0] != "tools" {
			return 0, false
		}
		args = args[1:]
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	return toolcli.Command{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Main(ctx, args), true
}

// tools lists the command in the help. [runTools] has run it before, unless a
// flag stood in front of it, which means nothing to it.
func (c *cli) tools() *cobra.Command {
	return &cobra.Command{
		Use:                "tools",
		Short:              "Call what a tool server offers, as the agent does: --list, help, ID",
		Example:            "  lilac tools --list\n  lilac tools help surface.sessions.list",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fault.New(fault.Invalid, "The flags of lilac mean nothing to tools: write \"lilac tools …\".")
		},
	}
}

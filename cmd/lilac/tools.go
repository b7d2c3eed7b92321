package main

import (
	"context"
	"os"
	"path/filepath"

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

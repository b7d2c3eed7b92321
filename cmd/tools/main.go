// Command tools calls what a Lilac offers to the commands of its agent. The
// program lilac does the same when it is called by the name tools; this one is
// small.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"lilac/internal/operate/toolcli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := toolcli.Command{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Main(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

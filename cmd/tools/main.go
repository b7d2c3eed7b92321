// Command tools calls the callables that Lilac offers to the agent's commands. The program
// lilac does the same if it is called by the name tools; this program is smaller.
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

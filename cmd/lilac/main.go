// Command lilac is the whole program: the server and the commands that talk
// to it. Each command has a file of its own; what it does beyond reading its
// flags and printing lives in internal/.
package main

import (
	"context"
	"os"

	"lilac/internal/agent/sandbox"
)

// version is set by the linker of a release.
var version = ""

func main() {
	sandbox.Enter()
	if code, ran := runTools(context.Background(), os.Args); ran {
		os.Exit(code)
	}
	c := &cli{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}
	c.secrets.AddEnvironment(os.Environ())
	os.Exit(c.run(context.Background(), os.Args[1:]))
}

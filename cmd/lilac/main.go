// Command lilac is the server and the commands that talk to it. Each command has its
// own file, which reads flags and prints results; everything else is in internal/.
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

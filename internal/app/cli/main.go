// Package cli is the command line of lilac: the server and the commands that talk to
// it, one file per command. A command reads its flags and prints results; everything
// else is in other packages.
package cli

import (
	"context"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"lilac/internal/agent/sandbox"
	"lilac/internal/app"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
)

// Options describe the program that the command line belongs to.
type Options struct {
	// Version is the release; empty means the commit of the build.
	Version string
	// Releases is the URL that describes the newest release; empty if there is none.
	Releases string
	// Seams are empty except in tests.
	Seams app.Seams
}

// Main runs the command line of the process and returns its exit code.
func Main(o Options) int {
	sandbox.Enter()
	if code, ran := runTools(context.Background(), os.Args); ran {
		return code
	}
	// The clients of the program use this transport, or a copy.
	http.DefaultTransport.(*http.Transport).OnProxyConnectResponse = fault.ProxyAnswer
	c := &cli{in: os.Stdin, printer: printer{out: os.Stdout, err: os.Stderr}, locator: machine(), seams: o.Seams, release: o.Version, releases: o.Releases}
	c.secrets.AddEnvironment(os.Environ())
	return c.run(context.Background(), os.Args[1:])
}

// machine returns the locator of a process.
func machine() locator {
	return locator{getenv: os.Getenv, service: config.MachineService, root: os.Geteuid() == 0}
}

// Commands returns the commands, for generators of documentation. They must not be run.
func Commands() *cobra.Command { return (&cli{}).root() }

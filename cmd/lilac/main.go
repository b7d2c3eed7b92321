// Command lilac is the server and the commands that talk to it.
package main

import (
	"os"

	"lilac/internal/app/cli"
)

// The linker sets these in a release: the version, and the URL that describes the newest
// release.
var version, releases string

func main() { os.Exit(cli.Main(cli.Options{Version: version, Releases: releases})) }

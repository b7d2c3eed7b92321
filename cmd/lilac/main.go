// Command lilac is the server and the commands that talk to it.
package main

import (
	"os"

	"lilac/internal/app/cli"
)

// version is set by the linker in a release.
var version = ""

func main() { os.Exit(cli.Main(cli.Options{Version: version})) }

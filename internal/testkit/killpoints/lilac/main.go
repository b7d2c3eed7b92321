// Command lilac, here, is the program for tests: it obeys LILAC_KILL_AT and
// LILAC_WITHOUT; see package killpoints.
package main

import (
	"os"

	"lilac/internal/app/cli"
	"lilac/internal/testkit/killpoints"
)

func main() { os.Exit(cli.Main(cli.Options{Seams: killpoints.Seams()})) }

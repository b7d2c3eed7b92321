// Command manpages writes the manual pages of lilac into a directory. Releases run it;
// it is not part of the product, because its library would be.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"lilac/internal/app/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manpages DIRECTORY")
		os.Exit(2)
	}
	root := cli.Commands()
	root.DisableAutoGenTag = true // the date would differ in every build
	if err := doc.GenManTree(root, &doc.GenManHeader{Title: "LILAC", Section: "1", Source: "Lilac", Manual: "Lilac"}, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "write the manual pages:", err)
		os.Exit(1)
	}
}

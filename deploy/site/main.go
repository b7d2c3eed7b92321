// Command site writes the documentation as a web site into a directory: the pages of docs/
// in four parts, references generated from the program, a search that runs in the browser,
// and llms.txt. It is not part of the product.
//
//	go run ./deploy/site DIRECTORY
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./deploy/site DIRECTORY (in the root of a clone)")
		os.Exit(2)
	}
	if err := write(".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "write the site:", err)
		os.Exit(1)
	}
}

package cli

import (
	"bufio"
	"os"

	"golang.org/x/term"
)

// readHidden reads a line that the terminal does not show.
func readHidden(terminal *os.File, _ *bufio.Reader) (string, error) {
	line, err := term.ReadPassword(int(terminal.Fd()))
	return string(line), err
}

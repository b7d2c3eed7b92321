//go:build unix

package cli

import (
	"bufio"
	"os"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
)

// readHidden reads a line that the terminal does not show. ReadPassword of golang.org/x/term reads on
// after Ctrl-D.
func readHidden(terminal *os.File, in *bufio.Reader) (string, error) {
	shown, err := term.GetState(terminal.Fd())
	if err != nil {
		return "", err
	}
	hidden := *shown
	hidden.Lflag &^= unix.ECHO
	if err := term.SetState(terminal.Fd(), &hidden); err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(terminal.Fd(), shown) }()
	return in.ReadString('\n')
}

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lilac/internal/foundation/fault"
)

// TokenFile is the name of the file in the data directory that holds the generated token. The
// server creates it if the operator sets no token.
const TokenFile = "token"

// OperatorToken returns the configured token, or else the one in the data directory. It returns ""
// if there is none yet.
func (c *Config) OperatorToken() (string, error) {
	if c.Token.Set() {
		return c.Token.Reveal(), nil
	}
	path := filepath.Join(c.DataDir, TokenFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "The token in %s cannot be read. Look at its owner and mode, or remove it: the next start makes another one.", path)
	}
	token := strings.TrimSpace(string(data))
	if token != "" && len(token) < minTokenLength {
		return "", fault.New(fault.Invalid, "The token in %s is shorter than %d characters. Remove it: the next start makes another one.", path, minTokenLength)
	}
	return token, nil
}

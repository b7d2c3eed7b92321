package app

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"lilac/internal/foundation/osfile"
	"lilac/internal/operate/config"
	"lilac/internal/serve/toolserver"
)

const (
	serverFile = "server.json"
	tokenBytes = 32
)

// operatorToken returns the token for the API: the configured one, or else the one in the data
// directory, which the first start creates.
func operatorToken(cfg *config.Config) (string, error) {
	token, err := cfg.OperatorToken()
	if err != nil || token != "" {
		return token, err
	}
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // never fails; crypto/rand aborts the program instead
	token = hex.EncodeToString(raw)
	if err := osfile.Replace(filepath.Join(cfg.DataDir, config.TokenFile), []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the token: %w", err)
	}
	return token, nil
}

// announce writes the addresses of the server and its tool server to the data directory, where
// the command line finds them.
func announce(cfg *config.Config, addr string, tools *toolserver.Endpoint) error {
	data, err := json.Marshal(map[string]any{"addr": addr, "pid": os.Getpid(), "toolSocket": tools.Socket, "toolAddr": tools.Addr})
	if err != nil {
		return fmt.Errorf("encode the server's address: %w", err)
	}
	if err := osfile.Replace(filepath.Join(cfg.DataDir, serverFile), data, 0o600); err != nil {
		return fmt.Errorf("write the server's address: %w", err)
	}
	return nil
}

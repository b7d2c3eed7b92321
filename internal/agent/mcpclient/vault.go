package mcpclient

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

// Vault keeps logins in a file, encrypted with a key in another file (AES-256-GCM, bound to
// the name of the server). A copy of one of the files alone tells nothing. It is safe for
// concurrent use; two processes that write at once keep the login that was written last.
type Vault struct {
	// File has the logins, and KeyFile the key, which is created with the first login.
	File, KeyFile string

	mu sync.Mutex
}

// Load returns the login of a server, if there is one.
func (v *Vault) Load(server string) (l Login, ok bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	sealed, err := v.read()
	if err != nil {
		return l, false, err
	}
	data, ok := sealed[server]
	if !ok {
		return l, false, nil
	}
	box, err := v.box(false)
	if err != nil {
		return l, false, err
	}
	size := box.NonceSize()
	if len(data) < size {
		return l, false, damagedLogin(server)
	}
	plain, err := box.Open(nil, data[:size], data[size:], []byte(server))
	if err != nil || json.Unmarshal(plain, &l) != nil {
		return l, false, damagedLogin(server)
	}
	return l, true, nil
}

func damagedLogin(server string) error {
	return fault.New(fault.Internal, "The login of the MCP server %s cannot be decrypted. Log in again: lilac mcp login %s", server, server)
}

// Save keeps the login of a server, instead of an earlier one.
func (v *Vault) Save(server string, l Login) error {
	plain, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode a login: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	sealed, err := v.read()
	if err != nil {
		return err
	}
	box, err := v.box(true)
	if err != nil {
		return err
	}
	nonce := make([]byte, box.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	sealed[server] = box.Seal(nonce, nonce, plain, []byte(server))
	return v.write(sealed)
}

// Remove forgets the login of a server, and reports whether there was one.
func (v *Vault) Remove(server string) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	sealed, err := v.read()
	if err != nil || sealed[server] == nil {
		return false, err
	}
	delete(sealed, server)
	return true, v.write(sealed)
}

func (v *Vault) read() (map[string][]byte, error) {
	out := map[string][]byte{}
	data, err := os.ReadFile(v.File)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("read the logins of MCP servers: %w", err)
	}
	return out, nil
}

func (v *Vault) write(sealed map[string][]byte) error {
	data, err := json.Marshal(sealed)
	if err != nil {
		return fmt.Errorf("encode the logins of MCP servers: %w", err)
	}
	if err := osfile.Replace(v.File, data, 0o600); err != nil {
		return fmt.Errorf("write the logins of MCP servers: %w", err)
	}
	return nil
}

// keyBytes is the size of the key of AES-256.
const keyBytes = 32

// box returns the cipher. create makes a key if there is none.
func (v *Vault) box(create bool) (cipher.AEAD, error) {
	key, err := os.ReadFile(v.KeyFile)
	if errors.Is(err, fs.ErrNotExist) && create {
		key, err = v.newKey()
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the logins: %w", err)
	}
	if len(key) != keyBytes {
		return nil, fault.New(fault.Internal, "The key %s of the logins is damaged. Remove it and %s, and log in again.", v.KeyFile, filepath.Base(v.File))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use the key of the logins: %w", err)
	}
	return cipher.NewGCM(block)
}

// newKey makes a key. Of two processes, one wins.
func (v *Vault) newKey() ([]byte, error) {
	if err := osfile.MkdirAll(filepath.Dir(v.KeyFile), 0o700); err != nil {
		return nil, err
	}
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // it never fails
	f, err := os.OpenFile(v.KeyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(filepath.Dir(v.KeyFile)); err == nil {
		osfile.Adopt(f, info) // the operator's root may log in, and the service reads it
	}
	_, err = f.Write(key)
	return key, errors.Join(err, f.Sync(), f.Close())
}

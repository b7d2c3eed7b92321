package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
	"lilac/internal/operate/config"
)

// backupSuffix marks the previous version of the configuration, beside the file.
const backupSuffix = ".old"

// maxFile bounds a configuration file, as package config does.
const maxFile = 1 << 20

// A Store reads and writes the files of one configuration.
type Store struct {
	// Path is the configuration file, which need not exist. DataDir is the directory with the
	// secrets file.
	Path, DataDir string
}

// Read returns the contents of the files. Files that do not exist are empty.
func (s Store) Read() (Files, error) {
	text, err := readAll(s.Path)
	if err != nil {
		return Files{}, fault.Wrap(fault.Invalid, err, "The configuration file %s cannot be read", s.Path)
	}
	raw, err := readAll(s.SecretsPath())
	if err != nil {
		return Files{}, fault.Wrap(fault.Invalid, err, "The secrets file %s cannot be read", s.SecretsPath())
	}
	secrets, err := config.ParseSecrets(raw)
	if err != nil {
		return Files{}, err
	}
	return Files{string(text), secrets}, nil
}

func readAll(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errors.New("it is larger than 1 MiB")
	}
	return data, err
}

// SecretsPath returns the path of the secrets file.
func (s Store) SecretsPath() string { return filepath.Join(s.DataDir, config.SecretsFile) }

// Proposal returns the files in the form that config.Load checks.
func (f Files) Proposal() (*config.Proposal, error) {
	secrets, err := config.FormatSecrets(f.Secrets)
	if err != nil {
		return nil, err
	}
	return &config.Proposal{File: []byte(f.Config), Secrets: secrets}, nil
}

// ReadOnly returns why the configuration cannot be written, or "". It changes nothing that stays.
func (s Store) ReadOnly() string {
	real, err := s.target()
	if err != nil {
		return fmt.Sprintf("%s cannot be found: %v.", s.Path, err)
	}
	if f, err := os.OpenFile(real, os.O_WRONLY, 0); err == nil {
		_ = f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("%s is managed from outside: Lilac may not write it.", s.Path)
	}
	dir := filepath.Dir(real)
	for missing(dir) { // it will be created
		dir = filepath.Dir(dir)
	}
	if err := osfile.CanWrite(dir); err != nil {
		return fmt.Sprintf("%s is managed from outside: Lilac may not write in %s.", s.Path, dir)
	}
	return ""
}

func missing(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// target follows the links of the path, so that a link to the file stays one.
func (s Store) target() (string, error) {
	real, err := filepath.EvalSymlinks(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.Path, nil
	}
	return real, err
}

// Write replaces before with after: first the secrets, then the configuration, each of them as a
// whole. The previous configuration stays beside the file. It refuses if the configuration is no
// longer before.
func (s Store) Write(before, after Files) error {
	if why := s.ReadOnly(); why != "" {
		return fault.New(fault.Denied, "%s", why)
	}
	now, err := s.Read()
	if err != nil {
		return err
	}
	if now.Config != before.Config {
		return fault.New(fault.Conflict, "The configuration file has changed meanwhile. Look at it, and try again.")
	}
	if err := s.writeSecrets(now, after); err != nil {
		return err
	}
	if now.Config == after.Config {
		return nil
	}
	return s.writeConfig(now.Config, after.Config)
}

func (s Store) writeSecrets(now, after Files) error {
	changed := len(now.Secrets) != len(after.Secrets)
	for name, value := range after.Secrets {
		changed = changed || now.Secrets[name] != value
	}
	if !changed {
		return nil
	}
	data, err := config.FormatSecrets(after.Secrets)
	if err != nil {
		return err
	}
	if err := osfile.MkdirAll(s.DataDir, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	if err := osfile.Replace(s.SecretsPath(), data, 0o600); err != nil {
		return fmt.Errorf("write the secrets: %w", err)
	}
	return nil
}

func (s Store) writeConfig(before, after string) error {
	real, err := s.target()
	if err != nil {
		return fmt.Errorf("find the configuration file: %w", err)
	}
	if err := osfile.MkdirAll(filepath.Dir(real), 0o700); err != nil {
		return fmt.Errorf("create the directory of the configuration: %w", err)
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(real); err == nil {
		mode = info.Mode().Perm()
	}
	if err := osfile.Replace(real+backupSuffix, []byte(before), mode); err != nil {
		return fmt.Errorf("keep the old configuration: %w", err)
	}
	if err := osfile.Replace(real, []byte(after), mode); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// Previous returns the configuration before the last change. It returns false if there is none.
func (s Store) Previous() (text string, ok bool, err error) {
	real, err := s.target()
	if err != nil {
		return "", false, fmt.Errorf("find the configuration file: %w", err)
	}
	if _, err := os.Stat(real + backupSuffix); errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	data, err := readAll(real + backupSuffix)
	if err != nil {
		return "", false, fmt.Errorf("read the old configuration: %w", err)
	}
	return string(data), true, nil
}

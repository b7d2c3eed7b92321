package config

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a string that no printer, encoder or logger shows.
type Secret string

const masked = "***"

// Reveal returns the secret itself, for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

// Set reports whether there is a secret.
func (s Secret) Set() bool { return s != "" }

// String is *** for a secret that is set, for every printer that asks.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// Format keeps every verb of fmt from showing the secret.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText keeps encoders from writing the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the secret.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}

// LogValue keeps loggers from writing the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

package setting

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// A Secret is a string that hides its value from printers, encoders, and loggers.
type Secret string

// Masked stands for a secret that is not shown.
const Masked = "***"

// Reveal returns the secret itself. Call it only where the secret is used.
func (s Secret) Reveal() string { return string(s) }

// Set reports whether the secret is not empty.
func (s Secret) Set() bool { return s != "" }

// String returns *** if the secret is set.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Masked
}

// Format writes String for every verb, so that no verb of fmt shows the secret.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText returns String, so that encoders don't write the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText stores text as the secret.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}

// LogValue returns String, so that loggers don't write the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// placeholders are the keys that the documents of servers without keys tell people to enter (Ollama,
// LM Studio, llama.cpp).
var placeholders = []string{"ollama", "lm-studio", "llama.cpp", "not-needed"}

// IsPlaceholder reports whether a key is an ordinary word, which texts may contain, instead of a
// secret.
func IsPlaceholder(key string) bool { return slices.Contains(placeholders, key) }

// Hide replaces a key and the values of headers in a text, except those that are public.
func Hide(text, key string, headers map[string][]string) string {
	if key != "" && !IsPlaceholder(key) {
		text = strings.ReplaceAll(text, key, Masked)
	}
	for name, values := range headers {
		for _, value := range values {
			value = strings.TrimPrefix(value, "Bearer ")
			if len(value) >= minHidden && !IsPublicHeader(name, value) {
				text = strings.ReplaceAll(text, value, Masked)
			}
		}
	}
	return text
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	// maxWord is the length of the longest word that is no secret.
	maxWord = 12
	// minHidden is the length of the shortest value that is replaced in a text.
	minHidden = 6
)

// secretNames are words in the names of headers with secrets.
var secretNames = []string{"key", "token", "auth", "authorization", "secret", "password", "cookie"}

// IsPublicHeader reports whether the value of a header consists of ordinary words, which texts may
// contain, such as the name of a provider. Its name must not say that it is a secret.
func IsPublicHeader(name, value string) bool {
	for _, word := range strings.Split(strings.ToLower(name), "-") {
		if slices.Contains(secretNames, word) {
			return false
		}
	}
	for _, word := range strings.Fields(strings.ReplaceAll(value, "-", " ")) {
		if len(word) > maxWord || strings.Trim(word, letters) != "" {
			return false
		}
	}
	return true
}

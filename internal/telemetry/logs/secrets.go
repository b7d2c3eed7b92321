package logs

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/order"
	"lilac/internal/foundation/setting"
)

// Redacted replaces secrets.
const Redacted = "***"

const (
	// minSecret is the minimum length of a secret. Removing shorter values would
	// hide ordinary words.
	minSecret = 6
	// maxSecrets bounds the values that every line is searched for. Reloads can add
	// more; the oldest is dropped.
	maxSecrets = 256
)

// shapes match texts that look like secrets: authorization headers, passwords in
// URLs, query parameters, Discord's interaction and webhook tokens in paths, API keys
// with well-known prefixes, and operators' tokens.
var shapes = []struct {
	hint    string // a lowercase text without which the pattern cannot match
	pattern func() *regexp.Regexp
	with    string
}{
	{"bearer", lazyregexp.New(`(?i)\b(bearer)[ :]+[A-Za-z0-9._~+/=-]{6,}`), "$1 " + Redacted},
	{"basic", lazyregexp.New(`(?i)\b(basic) [A-Za-z0-9+/=]{12,}`), "$1 " + Redacted},
	{"@", lazyregexp.New(`(://)[^/\s@"']*:[^/\s@"']*@`), "${1}" + Redacted + "@"},
	{"=", lazyregexp.New(`(?i)([?&](?:key|api[-_]?key|token|access[-_]token|secret|password|code|sig|signature)=)[^&\s"'#]+`), "${1}" + Redacted},
	{"sk-", lazyregexp.New(`\bsk-[A-Za-z0-9_-]{16,}`), Redacted},
	{"/interactions/", lazyregexp.New(`(?i)(/interactions/\d+/)[^/?\s"']+`), "${1}" + Redacted},
	{"/webhooks/", lazyregexp.New(`(?i)(/webhooks/\d+/)[^/?\s"']+`), "${1}" + Redacted},
	{"lilac_", lazyregexp.New(`\blilac_[0-9a-f]{32,}`), Redacted},
	{"aiza", lazyregexp.New(`\bAIza[A-Za-z0-9_-]{30,}`), Redacted},
}

// Secrets is a set of values that must not appear in logs. The zero value is empty
// and ready to use. It is safe for concurrent use.
type Secrets struct {
	mu     sync.Mutex
	values []string
	known  atomic.Pointer[strings.Replacer]
}

// Add adds values in all forms in which they may appear in a text: raw, and encoded
// for a URL, JSON, or a header.
func (s *Secrets) Add(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		v = strings.TrimSpace(v)
		if len(v) >= minSecret && !setting.IsPlaceholder(v) && !slices.Contains(s.values, v) {
			s.values = append(s.values, v)
		}
	}
	if over := len(s.values) - maxSecrets; over > 0 {
		s.values = slices.Delete(s.values, 0, over)
	}
	var forms []string
	for _, v := range s.values {
		forms = append(forms, formsOf(v)...)
	}
	// One secret may be a prefix of another, so the longest comes first.
	order.By(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f, Redacted)
	}
	s.known.Store(strings.NewReplacer(pairs...))
}

func formsOf(v string) []string {
	quoted, _ := json.Marshal(v) // a string always encodes
	forms := []string{
		v, url.QueryEscape(v), url.PathEscape(v), strings.Trim(string(quoted), `"`),
		base64.StdEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)),
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// Redact returns text with its secrets replaced.
func (s *Secrets) Redact(text string) string {
	if known := s.known.Load(); known != nil {
		text = known.Replace(text)
	}
	lower := ""
	for _, shape := range shapes {
		if shape.hint != "@" && shape.hint != "=" && lower == "" {
			lower = strings.ToLower(text)
		}
		if strings.Contains(text, shape.hint) || strings.Contains(lower, shape.hint) {
			text = shape.pattern().ReplaceAllString(text, shape.with)
		}
	}
	return text
}

// secretName matches the names of environment variables that contain secrets.
var secretName = regexp.MustCompile(`(?i)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|DSN)$`)

// passwordIn matches an address with a password, such as that of a proxy.
var passwordIn = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[^:/?#]*:(.+)@`)

// AddEnvironment adds the values of variables ("NAME=value") whose names suggest
// that they contain a secret, and the passwords in addresses.
func (s *Secrets) AddEnvironment(environ []string) {
	var values []string
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); secretName.MatchString(name) {
			values = append(values, value)
		} else if found := passwordIn.FindStringSubmatch(value); found != nil {
			values = append(values, found[1])
		}
	}
	s.Add(values...)
}

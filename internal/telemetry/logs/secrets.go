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
)

// Redacted stands where a secret was.
const Redacted = "***"

const (
	// minSecret is the length below which a value is taken for a word: to
	// remove it everywhere would hide more than it protects.
	minSecret = 6
	// maxSecrets bounds what is looked for in every line. A configuration has
	// a handful; what is added beyond it comes from reloads, the oldest goes.
	maxSecrets = 256
)

// shapes are secrets that nobody told us about: of a header, a URL with a
// password, a query, a path (with which an interaction of Discord is answered, or
// its webhook is used), keys with a well-known beginning, and operators' tokens.
var shapes = []struct {
	hint    string // in lower case; without it the pattern cannot match
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

// Secrets are the values that no log may show. The zero value knows none. It
// may be used, and added to, concurrently.
type Secrets struct {
	mu     sync.Mutex
	values []string
	known  atomic.Pointer[strings.Replacer]
}

// Add makes values secrets from now on, in every form in which they may stand
// in a text: as they are, and encoded for a URL, JSON or a header.
func (s *Secrets) Add(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		v = strings.TrimSpace(v)
		if len(v) >= minSecret && !slices.Contains(s.values, v) {
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
	// A secret may begin like another one: the longest is looked for first.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
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

// Redact returns text without secrets.
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

// secretName matches the names of environment variables that hold secrets.
var secretName = regexp.MustCompile(`(?i)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|DSN)$`)

// AddEnvironment adds the values of variables ("NAME=value") whose names say
// that they hold a secret.
func (s *Secrets) AddEnvironment(environ []string) {
	var values []string
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); secretName.MatchString(name) {
			values = append(values, value)
		}
	}
	s.Add(values...)
}

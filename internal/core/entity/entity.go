package entity

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"lilac/internal/foundation/lazyregexp"
)

// Known looks up the known names of a platform, ignoring case. A nil function knows
// no names.
type Known struct {
	// User and Channel return a name for an id.
	User, Channel, Role func(id string) (name string, ok bool)
	// Users and Channels return the ids that have a name.
	Users, Channels func(name string) (ids []string)
	// Where describes the location of a channel, such as "a thread of #dev", to
	// distinguish channels of one name. It may return "".
	Where func(id string) string
}

// Mapper converts one platform's mentions; see [New].
type Mapper struct {
	userNames, channelNames names
	known                   Known
}

// kind has what differs between users and channels.
type kind struct {
	names
	nameOf func(id string) (string, bool)
	idsOf  func(name string) []string
	word   string
}

func (m *Mapper) users() kind { return kind{m.userNames, m.known.User, m.known.Users, "user"} }
func (m *Mapper) channels() kind {
	return kind{m.channelNames, m.known.Channel, m.known.Channels, "channel"}
}

// names are the configured names of one kind.
type names struct {
	ids      map[string]string // by name, in lower case
	spelling map[string]string // by id, as configured
}

// New returns a mapper for the configured names (name → id), which take precedence
// over known ones.
func New(users, channels map[string]string, known Known) *Mapper {
	return &Mapper{userNames: newNames(users, "@"), channelNames: newNames(channels, "#"), known: known}
}

func newNames(configured map[string]string, sigil string) names {
	n := names{ids: map[string]string{}, spelling: map[string]string{}}
	// If an id has two names, the alphabetically first one is written.
	for _, name := range sorted(configured) {
		id := configured[name]
		name = strings.TrimPrefix(strings.TrimSpace(name), sigil)
		if !writable(name) {
			continue
		}
		n.ids[strings.ToLower(name)] = id
		if n.spelling[id] == "" {
			n.spelling[id] = name
		}
	}
	return n
}

func sorted(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

const (
	// maxWords bounds the words after an @ that are tried as one name.
	maxWords = 4
	// maxName is the longest name that is written, in bytes. Discord's limits are 32
	// characters for users and 100 for channels.
	maxName = 128
)

// writable reports whether a name in a text can be recognized again.
func writable(name string) bool {
	if name == "" || len(name) > maxName || name != strings.Join(strings.Fields(name), " ") || !utf8.ValidString(name) {
		return false
	}
	if len(strings.Fields(name)) > maxWords || massMention(name) || idSuffix().MatchString(name) {
		return false
	}
	first, _ := utf8.DecodeRuneInString(name)
	last, _ := utf8.DecodeLastRuneInString(name)
	if !letter(first) || !letter(last) {
		return false
	}
	for _, r := range name {
		if !inName(r) && r != ' ' {
			return false
		}
	}
	return true
}

func massMention(name string) bool {
	first, _, _ := strings.Cut(name, " ")
	return strings.EqualFold(first, "everyone") || strings.EqualFold(first, "here")
}

// letter reports whether a name may begin and end with r.
func letter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// inName reports whether a word of a name may contain r.
func inName(r rune) bool { return letter(r) || r == '-' || r == '.' || unicode.IsMark(r) }

var (
	// mention matches Discord's forms of mentions, and of times ("Message Formatting").
	mention = lazyregexp.New(`<(@!?|@&|#|t:)(\d{1,20})(?::[a-zA-Z])?>`)
	// idSuffix matches the end of the readable form that contains the id.
	idSuffix = lazyregexp.New(`-(\d{1,20})$`)
)

// In replaces mentions with names, and times in seconds with dates. A mention whose
// name would not be recognized again at its place is written with its id, or stays as
// it is.
func (m *Mapper) In(text string) string {
	text = prose(text, func(s string) string {
		return replace(s, mention(), func(start, end int, sigil, id string) string {
			switch sigil {
			case "@&":
				// Out never mentions a role: that would notify many people.
				return "@" + fallback(m.known.Role, id, "role")
			case "t:":
				seconds, _ := strconv.ParseInt(id, 10, 64) // the largest number if there are too many digits
				return time.Unix(seconds, 0).UTC().Format("2006-01-02 15:04 UTC")
			case "@!": // an older form of a user mention
				return "<@" + id + ">"
			}
			return s[start:end]
		})
	})
	want, _ := m.Out(text)
	named := m.in(text, func(n kind, id string) string { return m.name(n, id) })
	if got, _ := m.Out(named); got == want {
		return named
	}
	named = m.in(text, func(n kind, id string) string { return fallback(n.nameOf, id, n.word) })
	if got, _ := m.Out(named); got == want {
		return named
	}
	return text
}

func (m *Mapper) in(text string, name func(n kind, id string) string) string {
	return prose(text, func(s string) string {
		return replace(s, mention(), func(start, end int, sigil, id string) string {
			if !opens(s, start) || !ends(s, end) || s[end-3] == ':' { // only times have a style
				return s[start:end]
			}
			if sigil == "#" {
				return "#" + name(m.channels(), id)
			}
			return "@" + name(m.users(), id)
		})
	})
}

// name returns a name that means only this id.
func (m *Mapper) name(n kind, id string) string {
	if name, ok := n.spelling[id]; ok {
		return name
	}
	if n.nameOf != nil {
		if name, ok := n.nameOf(id); ok && writable(name) && n.id(name) == id {
			return name
		}
	}
	return fallback(n.nameOf, id, n.word)
}

// fallback returns a readable form that contains the id.
func fallback(nameOf func(string) (string, bool), id, kind string) string {
	if nameOf != nil {
		if name, ok := nameOf(id); ok {
			if word := strings.Trim(strings.Map(func(r rune) rune {
				if letter(r) {
					return r
				}
				return '_'
			}, name), "_"); word != "" && len(word) <= maxName && utf8.ValidString(word) {
				return word + "-" + id
			}
		}
	}
	return kind + "-" + id
}

// Out replaces names with mentions. It returns the ids of the mentioned users, each
// once, in order.
func (m *Mapper) Out(text string) (out string, users []string) {
	out = prose(text, func(s string) string {
		var b strings.Builder
		for i := 0; i < len(s); {
			if (s[i] == '@' || s[i] == '#') && opens(s, i) {
				n := m.users()
				if s[i] == '#' {
					n = m.channels()
				}
				if id, end := n.longest(s, i+1); end > 0 {
					b.WriteString("<" + s[i:i+1] + id + ">")
					if s[i] == '@' && !slices.Contains(users, id) {
						users = append(users, id)
					}
					i = end
					continue
				}
			}
			b.WriteByte(s[i])
			i++
		}
		return b.String()
	})
	return out, users
}

// longest finds the longest name at i that means an id; end is 0 if none does.
func (n kind) longest(s string, i int) (id string, end int) {
	var stops []int // the possible ends of the name, in ascending order
	for pos, word := i, 0; word < maxWords; word++ {
		stop := pos
		for stop < len(s) {
			r, size := utf8.DecodeRuneInString(s[stop:])
			if !inName(r) {
				break
			}
			stop += size
		}
		if stop == pos {
			break
		}
		stops = append(stops, stop)
		if stop >= len(s) || s[stop] != ' ' {
			break
		}
		pos = stop + 1
	}
	for _, stop := range slices.Backward(stops) {
		// A final dot or hyphen belongs to the sentence.
		name := strings.TrimRightFunc(s[i:stop], func(r rune) bool { return r == '.' || r == '-' })
		if name == "" {
			continue
		}
		if id := n.id(name); id != "" {
			return id, i + len(name)
		}
	}
	return "", 0
}

// id returns the only id that a name means, or "".
func (n kind) id(name string) string {
	if massMention(name) {
		return ""
	}
	if id, ok := n.ids[strings.ToLower(name)]; ok {
		return id
	}
	if n.idsOf != nil {
		if ids := n.idsOf(name); len(ids) == 1 {
			return ids[0]
		}
	}
	// The form that contains an id must be exactly as In would write it.
	if found := idSuffix().FindStringSubmatch(name); found != nil && strings.EqualFold(name, fallback(n.nameOf, found[1], n.word)) {
		return found[1]
	}
	return ""
}

// opens reports whether a name may begin at i: not inside a word, an address, or a
// link, nor directly after a mention or a name.
func opens(s string, i int) bool {
	r, size := utf8.DecodeLastRuneInString(s[:i])
	if r == '>' && size < i && s[i-2] >= '0' && s[i-2] <= '9' {
		return false
	}
	return size == 0 || !inName(r) && !strings.ContainsRune("@#/&<\\:=", r)
}

// ends reports whether a name may end before i.
func ends(s string, i int) bool {
	rest := s[i:]
	r, size := utf8.DecodeRuneInString(rest)
	if size == 0 {
		return true
	}
	if r == '.' || r == '-' { // punctuation, unless a word follows
		next, n := utf8.DecodeRuneInString(rest[size:])
		return n == 0 || !inName(next)
	}
	return !inName(r)
}

// replace replaces the matches of re, which has two groups.
func replace(s string, re *regexp.Regexp, f func(start, end int, sigil, id string) string) string {
	var b strings.Builder
	from := 0
	for _, at := range re.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(s[from:at[0]])
		b.WriteString(f(at[0], at[1], s[at[2]:at[3]], s[at[4]:at[5]]))
		from = at[1]
	}
	b.WriteString(s[from:])
	return b.String()
}

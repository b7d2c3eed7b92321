package llm

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

// DecodeString decodes a JSON string without replacing halves of characters, which some
// servers split between two events. Lone surrogates become three bytes (as in WTF-8) and
// invalid UTF-8 stays as it is; a [Joiner] puts the halves together. It reports false for
// any other JSON value.
func DecodeString(raw json.RawMessage) (string, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if !bytes.Contains(raw, []byte(`\u`)) && utf8.Valid(raw) {
		var s string
		ok := assign(&s, raw)
		return s, ok
	}
	return decodeHalves(raw[1 : len(raw)-1])
}

// assign decodes raw into s.
func assign(s *string, raw []byte) bool { return json.Unmarshal(raw, s) == nil }

// decodeHalves decodes the inside of a string that [json.Valid] accepts.
func decodeHalves(in []byte) (string, bool) {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		if in[i] != '\\' {
			out = append(out, in[i])
			continue
		}
		if half, ok := escapedSurrogate(in[i:]); ok {
			out = append(out, 0xE0|byte(half>>12), 0x80|byte(half>>6)&0xBF, 0x80|byte(half)&0xBF)
			i += 5
			continue
		}
		end := i + 2
		if i+1 < len(in) && in[i+1] == 'u' {
			end = i + 6
		}
		if end > len(in) {
			return "", false
		}
		var s string
		if !assign(&s, append(append([]byte{'"'}, in[i:end]...), '"')) {
			return "", false
		}
		out = append(out, s...)
		i = end - 1
	}
	return string(out), true
}

// Joiner puts characters together whose halves arrive in different pieces of a text. The
// zero value is ready to use.
type Joiner struct{ rest []byte }

// Add returns the whole characters of the text so far that were not returned before.
func (j *Joiner) Add(piece string) string {
	if len(j.rest) == 0 && utf8.ValidString(piece) {
		return piece
	}
	all := append(j.rest, piece...)
	out, n := joinHalves(all, false)
	j.rest = append([]byte(nil), all[n:]...)
	return out
}

// Flush returns what is left at the end of the text, with U+FFFD for halves.
func (j *Joiner) Flush() string {
	out, _ := joinHalves(j.rest, true)
	j.rest = nil
	return out
}

// joinHalves converts text to UTF-8 and returns how much of it was converted. Unless the
// text is complete, it leaves an unfinished character at the end.
func joinHalves(in []byte, complete bool) (string, int) {
	out := make([]byte, 0, len(in))
	i := 0
	for i < len(in) {
		if high, ok := surrogateAt(in[i:]); ok {
			low, whole := surrogateAt(in[i+3:])
			switch r := utf16.DecodeRune(high, low); {
			case whole && r != utf8.RuneError:
				out = utf8.AppendRune(out, r)
				i += 6
				continue
			case !complete && high < 0xDC00 && (len(in) == i+3 || !utf8.FullRune(in[i+3:])):
				return string(out), i
			}
			out = utf8.AppendRune(out, utf8.RuneError)
			i += 3
			continue
		}
		if !complete && !utf8.FullRune(in[i:]) || !complete && isSurrogatePrefix(in[i:]) {
			return string(out), i
		}
		r, size := utf8.DecodeRune(in[i:])
		out = utf8.AppendRune(out, r)
		i += size
	}
	return string(out), i
}

// surrogateAt reads a surrogate that was encoded in three bytes.
func surrogateAt(b []byte) (rune, bool) {
	if len(b) < 3 || b[0] != 0xED || b[1] < 0xA0 || b[1] > 0xBF || b[2]&0xC0 != 0x80 {
		return 0, false
	}
	return 0xD000 | rune(b[1]&0x3F)<<6 | rune(b[2]&0x3F), true
}

// isSurrogatePrefix reports whether b may be the beginning of an encoded surrogate.
func isSurrogatePrefix(b []byte) bool {
	return len(b) < 3 && b[0] == 0xED && (len(b) == 1 || b[1] >= 0xA0 && b[1] <= 0xBF)
}

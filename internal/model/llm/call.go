package llm

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"

	"lilac/internal/foundation/chat"
)

// maxCallName is how long a name providers take back.
const maxCallName = 64

// CallName is the name of a called tool as every provider takes it back: models
// make names up that a provider refuses once they are in the history, and it
// would refuse that history for ever.
func CallName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxCallName)]
}

// CallInput is the input of a tool call as every provider takes it back: an
// object, and without halves of characters, for which the whole request would
// be refused.
func CallInput(p chat.Part) json.RawMessage {
	if len(p.Input) == 0 {
		return json.RawMessage(`{}`)
	}
	return wholeRunes(p.Input)
}

// wholeRunes replaces each escaped half of a character (\ud83d without the
// other half behind it) in JSON, which Go takes and others do not.
func wholeRunes(raw json.RawMessage) json.RawMessage {
	var out []byte
	kept := 0 // what of raw is in out
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		half, ok := escapedHalf(raw[i:])
		if !ok {
			i++ // what is escaped begins no escape
			continue
		}
		const size = len(`\ud83d`)
		if other, ok := escapedHalf(raw[i+size:]); ok && utf16.DecodeRune(half, other) != '\uFFFD' {
			i += 2*size - 1
			continue
		}
		out = append(append(out, raw[kept:i]...), `\ufffd`...)
		kept = i + size
		i = kept - 1
	}
	if kept == 0 {
		return raw
	}
	return append(out, raw[kept:]...)
}

// escapedHalf reads the half of a character at the beginning of raw.
func escapedHalf(raw []byte) (half rune, ok bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(n), err == nil && utf16.IsSurrogate(rune(n))
}

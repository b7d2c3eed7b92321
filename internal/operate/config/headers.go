package config

import (
	"net/http"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
)

// Headers are HTTP headers to add to the calls of a model. Their values may be secrets.
type Headers map[string]Secret

// header returns the headers and those of over, which win; nil if there are none.
func (h Headers) header(over Headers) http.Header {
	if len(h)+len(over) == 0 {
		return nil
	}
	out := http.Header{}
	for _, headers := range []Headers{h, over} {
		for name, value := range headers {
			out.Set(name, value.Reveal())
		}
	}
	return out
}

// ownHeaders describe the connection, or carry the key.
var ownHeaders = []string{"authorization", "host", "connection", "transfer-encoding"}

// check reports a name that no header has and, for a provider, a header that Lilac sets itself.
func (h Headers) check(field string, ofProvider bool) error {
	for name := range h {
		lower := strings.ToLower(name)
		switch {
		case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }):
			return fault.InvalidField(field, "%q is not the name of a header.", name)
		case ofProvider && (slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, "content-")):
			return fault.InvalidField(field, "Lilac sets the header %s itself. Remove it. The key belongs in apiKey.", name)
		}
	}
	return nil
}

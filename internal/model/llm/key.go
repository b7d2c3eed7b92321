package llm

import (
	"net/http"
	"net/url"
	"strings"
)

// HeaderWithKey returns the headers of a call to target, as an API of OpenAI's wants them: with the
// key, unless the configuration set one. Azure wants it in a header of its own.
func (o Options) HeaderWithKey(target string) http.Header {
	header := o.Header()
	switch {
	case o.APIKey == "" || header.Get("Authorization") != "" || header.Get("Api-Key") != "":
	case isAzure(target):
		header.Set("Api-Key", o.APIKey)
	default:
		header.Set("Authorization", "Bearer "+o.APIKey)
	}
	return header
}

func isAzure(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (strings.HasSuffix(u.Hostname(), ".azure.com") || strings.HasSuffix(u.Hostname(), ".azure-api.net"))
}

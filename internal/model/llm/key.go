package llm

import (
	"net/http"
	"net/url"
	"strings"
)

// SetKey adds the key to the headers of a call to target, unless the configuration set one.
// Azure wants it in a header of its own.
func (o Options) SetKey(header http.Header, target string) {
	switch {
	case o.APIKey == "" || header.Get("Authorization") != "" || header.Get("Api-Key") != "":
	case isAzure(target):
		header.Set("Api-Key", o.APIKey)
	default:
		header.Set("Authorization", "Bearer "+o.APIKey)
	}
}

func isAzure(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (strings.HasSuffix(u.Hostname(), ".azure.com") || strings.HasSuffix(u.Hostname(), ".azure-api.net"))
}

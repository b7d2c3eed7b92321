package discordtest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestCallsAreComparedWithDiscordsDescription(t *testing.T) {
	const messages = "/channels/1/messages"
	for name, c := range map[string]struct {
		method, path, query, body, want string
	}{
		"a correct call":              {http.MethodPost, messages, "", `{"content":"hello","allowed_mentions":{"parse":[],"users":["7"]}}`, ""},
		"a field of another type":     {http.MethodPost, messages, "", `{"content":7}`, "/content"},
		"a value that is too long":    {http.MethodPost, messages, "", `{"nonce":"12345678901234567890123456"}`, "/nonce"},
		"an unknown component":        {http.MethodPost, messages, "", `{"components":[{"type":99}]}`, "/components/0"},
		"an unknown query parameter":  {http.MethodGet, messages, "behind=7", "", "behind"},
		"an unknown operation":        {http.MethodGet, "/channels/1/everything", "", "", "no such operation"},
		"a literal path wins":         {http.MethodGet, "/users/@me", "", "", ""},
		"a list of commands":          {http.MethodPut, "/applications/1/commands", "", `[{"name":"stop","description":"Stop.","type":1}]`, ""},
		"a command of the wrong type": {http.MethodPut, "/applications/1/commands", "", `[{"name":"stop","description":"Stop.","type":"slash"}]`, "/0"},
	} {
		t.Run(name, func(t *testing.T) {
			query, err := url.ParseQuery(c.query)
			if err != nil {
				t.Fatal(err)
			}
			err = discordAPI().checkRequest(c.method, c.path, query, "application/json", []byte(c.body))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestResponsesAreComparedWithDiscordsDescription(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   any
		want   string
	}{
		"an error":                     {404, unknownMessage.body, ""},
		"an error with nested errors":  {400, invalid("content", "X", "y").body, ""},
		"an error without a code":      {404, object{"message": "no"}, "code"},
		"a message without its fields": {200, object{"id": "7"}, "author"},
		"an undescribed status":        {301, nil, "301"},
	} {
		t.Run(name, func(t *testing.T) {
			err := discordAPI().checkResponse(http.MethodGet, "/channels/1/messages/2", c.status, c.body)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

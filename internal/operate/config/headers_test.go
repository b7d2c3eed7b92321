package config_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/operate/config"
)

func TestHeadersOfAProviderAreSentWithEachOfItsModels(t *testing.T) {
	c, warnings, err := loadText(t, `
model: gw/a
providers:
  gw: {type: openai, baseURL: "http://127.0.0.1:1/v1", headers: {cf-aig-authorization: "Bearer ${GATEWAY}", X-Team: core}}
models:
  gw/b: {headers: {x-team: other, X-Title: Lilac}}
`, map[string]string{"GATEWAY": "gw-secret-1"})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	of := http.Header{"Cf-Aig-Authorization": {"Bearer gw-secret-1"}, "X-Team": {"core"}}
	both := http.Header{"Cf-Aig-Authorization": {"Bearer gw-secret-1"}, "X-Team": {"other"}, "X-Title": {"Lilac"}}
	for model, want := range map[string]http.Header{"gw/a": of, "gw/b": both} {
		choice, err := c.LookupModel(model)
		if diff := cmp.Diff(want, choice.Headers); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", model, err, diff)
		}
	}
	if diff := cmp.Diff(both, config.ListHeader(c, "gw")); diff != "" {
		t.Errorf("the list of models (-want +got):\n%s", diff)
	}
}

func TestHeadersThatLilacSetsAreRefused(t *testing.T) {
	for name, says := range map[string]string{
		"authorization": "apiKey", "Host": "itself", "content-type": "itself", "Transfer-Encoding": "itself", "Connection": "itself", "a:b": "not the name",
	} {
		_, _, err := loadText(t, `providers: {openai: {headers: {"`+name+`": value}}}`, nil)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// Answers may contain words that a header has as well.
func TestWordsInHeadersAreNoSecrets(t *testing.T) {
	c, _, err := loadText(t, `
providers: {gw: {type: openai, baseURL: "http://127.0.0.1:1/v1", headers: {x-portkey-provider: openai, x-portkey-api-key: "pk-canary-1"}}}
models: {gw/m: {headers: {X-Title: Our assistant, x-key: Bearer canary2, x-team-token: swordfish}}}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Secrets()
	for text, want := range map[string]bool{"openai": false, "assistant": false, "Our assistant": false, "pk-canary-1": true, "Bearer canary2": true, "canary2": true, "swordfish": true} {
		if slices.Contains(got, text) != want {
			t.Errorf("%q is a secret: %t", text, !want)
		}
	}
}

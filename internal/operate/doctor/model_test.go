package doctor_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/model/trial"
	"lilac/internal/operate/config"
	"lilac/internal/operate/doctor"
)

func TestModelOnline(t *testing.T) {
	for _, tt := range []struct {
		name, model, key string
		skew             time.Duration
		check            string
		status           doctor.Status
		want             string
	}{
		{"good", "gpt-4o", "good-key-0815", 0, "model", doctor.OK, "the model is there"},
		{"no such model", "gpt-4", "good-key-0815", 0, "model", doctor.Warn, "does not list"},
		{"price unknown", "other", "good-key-0815", 0, "model", doctor.Warn, "unknown price"},
		{"a call works", "gpt-4o", "good-key-0815", 0, "model call", doctor.OK, "called a tool"},
		{"a call fails", "other", "good-key-0815", 0, "model call", doctor.Fail, "no tool was called"},
		{"bad key", "gpt-4o", "other-key-0815", 0, "model", doctor.Fail, "rejects the key"},
		{"clock", "gpt-4o", "good-key-0815", -time.Hour, "clock skew", doctor.Warn, "1h0m"},
		{"clock agrees", "gpt-4o", "good-key-0815", 0, "clock skew", doctor.OK, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := provider(t, tt.skew)
			p := patient(t, map[string]string{"OPENAI_API_KEY": tt.key, "OPENAI_BASE_URL": s.URL, "LILAC_MODEL": "openai/" + tt.model}, "")
			p.Online = true
			p.Try = func(m config.ModelChoice) trial.Report {
				status := trial.Failed
				if m.Name == "gpt-4o" {
					status = trial.OK
				}
				return trial.Report{Checks: []trial.Check{{Name: "tool", Status: status, Detail: "no tool was called"}}}
			}
			f := examine(t, p, tt.check)
			check(t, f, tt.status, tt.want)
			if strings.Contains(f.Message+f.Advice, tt.key) {
				t.Errorf("the key is in %q", f.Message)
			}
		})
	}
}

func TestModelThatCannotBeReached(t *testing.T) {
	p := patient(t, map[string]string{"OPENAI_API_KEY": "k-0123456789", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "LILAC_MODEL": "openai/gpt-4o"}, "")
	check(t, examine(t, p, "model"), doctor.Warn, "cannot reach")
	p.Online = true
	check(t, examine(t, p, "model"), doctor.Fail, "cannot reach")
}

func TestServerWithoutModelsIsReported(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":null}`) // as Ollama
	}))
	defer server.Close()
	p := patient(t, nil, "model: own/tiny\nproviders: {own: {type: openai, baseURL: "+server.URL+"}}\n")
	p.Online = true
	if f := examine(t, p, "model"); f.Status != doctor.Warn || !strings.Contains(f.Message, "no models") || !strings.Contains(f.Advice, "ollama pull tiny") {
		t.Errorf("%+v", f)
	}
}

// Portkey answers nothing without its header, which the provider or its models have.
func TestTheListOfAGatewayIsAskedWithItsHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Portkey-Provider") != "openai" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"status":"failure","message":"Either x-portkey-config or x-portkey-provider header is required"}`)
			return
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-4o"}]}`)
	}))
	defer server.Close()
	provider := "model: pk/gpt-4o\nproviders: {pk: {type: openai, baseURL: " + server.URL + "}}\n"
	p := patient(t, nil, provider)
	p.Online = true
	f := examine(t, p, "model")
	check(t, f, doctor.Warn, "answers 400 Bad Request: Either x-portkey-config or x-portkey-provider header is required")
	if !strings.Contains(f.Advice, "set providers.pk.headers.") {
		t.Errorf("the advice is %q", f.Advice)
	}
	for _, with := range []string{
		provider + "models: {pk/gpt-4o: {headers: {x-portkey-provider: openai}}}\n",
		strings.Replace(provider, "}}", ", headers: {x-portkey-provider: openai}}}", 1),
	} {
		p = patient(t, nil, with)
		p.Online = true
		check(t, examine(t, p, "model"), doctor.OK, "the model is there")
	}
}

// The servers answer as llama.cpp does.
func TestASmallWindowIsReported(t *testing.T) {
	for window, want := range map[int]bool{4096: true, 32_768: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"object":"list","data":[{"id":"tiny","meta":{"n_ctx":%d,"n_ctx_train":65536}}]}`, window)
		}))
		p := patient(t, nil, "model: own/tiny\nproviders: {own: {type: openai, baseURL: "+server.URL+", apiKey: x}}\n")
		check(t, examine(t, p, "model"), doctor.Warn, "unknown size of the context")
		p.Online = true
		check(t, examine(t, p, "model"), doctor.Warn, fmt.Sprint(window, " tokens of context"))
		found := slices.ContainsFunc(doctor.Examine(t.Context(), p), func(f doctor.Finding) bool {
			return f.Check == "model window" && strings.Contains(f.Message, fmt.Sprint(window)) && strings.Contains(f.Advice, "OLLAMA_CONTEXT_LENGTH")
		})
		if found != want {
			t.Errorf("a window of %d tokens is reported: %t, want %t", window, found, want)
		}
		server.Close()
	}
}

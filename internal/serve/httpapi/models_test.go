package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/foundation/fault"
)

type fakeModels struct{}

func (fakeModels) Check(c session.Choice) error {
	if c.Model != "" && c.Model != "a/b" {
		return fault.InvalidField("model", "There is no model %s.", c.Model)
	}
	return nil
}

func (fakeModels) List() ModelList {
	return ModelList{Default: "a/b", Models: []ModelInfo{{Model: "a/b", Configured: true}}, Efforts: []string{"low"}}
}

func TestPeopleChooseTheModelOfAConversation(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Models = fakeModels{} })
	if code, body := w.call("GET", "/models", ""); code != http.StatusOK || !strings.Contains(body, `"default":"a/b"`) {
		t.Errorf("GET /models: %d %s", code, body)
	}
	id := w.newSession()
	for _, tt := range []struct {
		body string
		code int
		want string
	}{
		{`{"model":"a/b","effort":"low"}`, 200, `"model":"a/b"`},
		{`{"instructions":" Be brief. "}`, 200, `"model":"a/b","effort":"low","instructions":"Be brief."`},
		{`{"title":"New"}`, 200, `"title":"New","model":"a/b"`},
		{`{"model":"no/such"}`, 400, "no/such"},
		{`{"model":7}`, 400, "model"},
		{`{"instructions":"` + strings.Repeat("x", session.MaxInstructions+1) + `"}`, 400, "instructions"},
		{`{"model":"","effort":"","instructions":""}`, 200, `"title":"New","createdAt"`},
		{`{}`, 400, "Nothing to change"},
	} {
		if code, body := w.call("PATCH", "/sessions/"+id, tt.body); code != tt.code || !strings.Contains(body, tt.want) {
			t.Errorf("%.60s: %d %.300s", tt.body, code, body)
		}
	}
}

func TestAServerWithoutModelsOffersNone(t *testing.T) {
	w := newWorld(t)
	id := w.newSession()
	for _, call := range [][3]string{{"GET", "/models", ""}, {"PATCH", "/sessions/" + id, `{"model":"a/b"}`}} {
		if code, body := w.call(call[0], call[1], call[2]); code != http.StatusServiceUnavailable || !strings.Contains(body, "no_models") {
			t.Errorf("%v: %d %s", call, code, body)
		}
	}
}

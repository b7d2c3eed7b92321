package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/postgrestest"
)

// mostRoundTrips limits the round trips to PostgreSQL from a prompt to the model call,
// including those of reads and of what happens at the same time. scale.md aims at 7 for the
// commits alone.
const mostRoundTrips = 34

func TestRoundTripsFromPromptToModel(t *testing.T) {
	if !effort.Full() {
		t.Skip("PostgreSQL is tested with CI=true")
	}
	s := postgrestest.Start(t)
	var trips, called, atCall atomic.Int64
	model := llmtest.New(t, func(llmtest.Request) llmtest.Script {
		atCall.Store(trips.Load())
		called.Add(1)
		return llmtest.Say("Hello.")
	})
	r := startWith(t, fmt.Sprintf("database: {url: %q}\nmodel: openai/x\nproviders: {openai: {baseURL: %q, apiKey: key, api: chat}}\n", s.URL(""), model.URL+"/v1"),
		Seams{OnRoundTrip: func() { trips.Add(1) }})
	least := int64(1 << 30)
	for range 5 { // the least: something else may happen at the same time
		var session struct{ ID string }
		_, body := r.post("/sessions", `{}`)
		if err := json.Unmarshal([]byte(body), &session); err != nil {
			t.Fatal(err)
		}
		calls, before := called.Load(), trips.Load()
		if code, body := r.post("/sessions/"+session.ID+"/prompt", `{"content":"hi","queue":"prompt"}`); code != http.StatusOK {
			t.Fatal(code, body)
		}
		r.eventually("the model is called", func() bool { return called.Load() > calls })
		least = min(least, atCall.Load()-before)
		r.eventually("the request has ended", func() bool { return r.p.runner.Active() == 0 })
	}
	t.Logf("%d round trips", least)
	if least > mostRoundTrips {
		t.Errorf("%d round trips from the prompt to the model, want at most %d", least, mostRoundTrips)
	}
}

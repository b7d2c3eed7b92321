package app

import (
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// The conditions of workflows are restricted to reading the event, because the agent writes them
// and the server evaluates them without review.
func TestWhatAWorkflowWaitsForIsMatchedAndOnlyLooks(t *testing.T) {
	for payload, want := range map[string]bool{`{"ok":true}`: true, `{"ok":1}`: false, `null`: false} {
		match := lookAt(event.EnvEvent{ID: "1", Type: "custom.x", Payload: []byte(payload)})
		if got, err := match(t.Context(), []string{"custom.*"}, ".payload.ok == true"); err != nil || got != want {
			t.Errorf("%s matches: %v, %v", payload, got, err)
		}
	}
	if err := checkEvents([]string{"custom.*"}, `[] | .[536870910] = 1`); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a condition that takes all memory: %v, want an error of the kind invalid", err)
	}
}

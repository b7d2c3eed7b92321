package conventions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// specified maps the test cases in the specification of environment events (7.1 to 7.5) to the
// tests that cover them.
var specified = map[string]string{
	"publish_success":           "core/environment/service_test.go",
	"publish_idempotency":       "core/environment/service_test.go",
	"publish_unknown_type":      "core/environment/service_test.go",
	"rule_matching_exact":       "core/environment/match_test.go",
	"rule_matching_array":       "core/environment/match_test.go",
	"rule_matching_wildcard":    "core/environment/match_test.go",
	"rule_priority":             "core/environment/match_test.go",
	"function_handler":          "core/environment/service_test.go",
	"agent_handler":             "core/environment/agent_test.go",
	"queue_processing":          "core/environment/service_test.go",
	"queue_prevents_concurrent": "core/environment/service_test.go",

	"handle_no_session_id":       "core/environment/agent_test.go",
	"handle_session_not_found":   "core/environment/agent_test.go",
	"handle_constructs_messages": "core/environment/agent_test.go",
	"handle_message_content":     "core/environment/agent_test.go",
	"handle_inserts_to_session":  "app/environment_test.go",
	"handle_calls_handle_query":  "app/environment_test.go",

	"publishEvent_basic":                 "app/environment_test.go",
	"initEventRules_registers":           "app/environment_test.go",
	"user_query_rule_handles":            "app/environment_test.go",
	"session_rule_logs":                  "app/environment_test.go",
	"background_task_rule_creates_agent": "app/environment_test.go",
	"fallback_rule_matches":              "app/environment_test.go",

	"prompt_route_creates_event":      "serve/httpapi/prompt_test.go",
	"prompt_route_includes_payload":   "serve/httpapi/prompt_test.go",
	"prompt_route_includes_metadata":  "serve/httpapi/prompt_test.go",
	"prompt_route_returns_success":    "serve/httpapi/prompt_test.go",
	"prompt_route_missing_content":    "serve/httpapi/prompt_test.go",
	"prompt_route_no_session_support": "serve/httpapi/prompt_test.go",

	"stream_event_published":  "core/session/announce_test.go",
	"stream_event_metadata":   "core/session/announce_test.go",
	"existing_emit_unchanged": "serve/httpapi/projection_test.go",
}

// accepted maps the acceptance criteria of the specification (8.1 to 8.6) to the tests that cover
// them.
var accepted = map[string][]string{
	"Event Definition":             {"foundation/event/event_test.go TestEnvironmentEvents"},
	"EventBus Enhancement":         {"core/environment/match_test.go TestMatch", "core/environment/agent_test.go TestEventHandlerAgent"},
	"Queue Mechanism":              {"core/environment/service_test.go TestQueue", "core/environment/service_test.go publish_idempotency"},
	"publishEvent API":             {"app/environment_test.go publishEvent_basic"},
	"user_query Processing":        {"app/environment_test.go user_query_rule_handles", "serve/httpapi/prompt_test.go prompt_route_creates_event"},
	"Session Events":               {"app/environment_test.go session_rule_logs", "serve/httpapi/prompt_test.go TestSessions"},
	"background_task Processing":   {"app/environment_test.go background_task_rule_creates_agent", "../e2e/task_test.go TestABackgroundCommandComesBackWithItsResult"},
	"Fallback Handler":             {"app/environment_test.go fallback_rule_matches"},
	"Stateless Creation":           {"core/environment/agent_test.go TestEventHandlerAgent"},
	"Message Construction":         {"core/environment/agent_test.go handle_constructs_messages"},
	"Session Integration":          {"app/environment_test.go handle_inserts_to_session"},
	"handle_query Trigger":         {"app/environment_test.go handle_calls_handle_query"},
	"Session Route Transformation": {"serve/httpapi/prompt_test.go prompt_route_creates_event"},
	"StreamEvent Publication":      {"core/session/announce_test.go stream_event_published", "../e2e/surfaces_test.go TestTheEventStreamTellsOfEverySurface"},
	"Existing SSE Flow":            {"serve/httpapi/projection_test.go existing_emit_unchanged"},
	"User Query E2E":               {"../e2e/environment_test.go User Query E2E"},
	"Background Task E2E":          {"../e2e/environment_test.go Background Task E2E", "../e2e/task_test.go TestABackgroundCommandThatWasKilledIsToldAsFailed"},
	"Error Handling E2E":           {"../e2e/environment_test.go Error Handling E2E"},
	"Concurrent Events":            {"core/environment/service_test.go Concurrent Events", "../e2e/webhook_test.go TestAStormOfWebhooks"},
	"Idempotency":                  {"core/environment/service_test.go publish_idempotency", "serve/httpapi/rules_test.go TestEventsArePublishedOnce"},
	"Error Recovery":               {"core/environment/service_test.go Error Recovery"},
}

func TestEverySpecifiedCaseOfEnvironmentEventsHasItsTest(t *testing.T) {
	for name, file := range specified {
		shows(t, name, file, name)
	}
	for name, tests := range accepted {
		for _, test := range tests {
			file, words, _ := strings.Cut(test, " ")
			shows(t, name, file, words)
		}
	}
}

// shows fails the test if the file does not contain the test for a point.
func shows(t *testing.T, point, file, words string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
	if err != nil || !strings.Contains(string(raw), words) {
		t.Errorf("%s has no test %q in %s: %v", point, words, file, err)
	}
}

package house_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// specified are the test cases that the specification of environment events
// names (7.1 to 7.5), and the tests that show them.
var specified = map[string]string{
	"publish_success":           "environment/service_test.go",
	"publish_idempotency":       "environment/service_test.go",
	"publish_unknown_type":      "environment/service_test.go",
	"rule_matching_exact":       "environment/decide_test.go",
	"rule_matching_array":       "environment/decide_test.go",
	"rule_matching_wildcard":    "environment/decide_test.go",
	"rule_priority":             "environment/decide_test.go",
	"function_handler":          "environment/service_test.go",
	"agent_handler":             "environment/agent_test.go",
	"queue_processing":          "environment/service_test.go",
	"queue_prevents_concurrent": "environment/service_test.go",

	"handle_no_session_id":       "environment/agent_test.go",
	"handle_session_not_found":   "environment/agent_test.go",
	"handle_constructs_messages": "environment/agent_test.go",
	"handle_message_content":     "environment/agent_test.go",
	"handle_inserts_to_session":  "app/environment_test.go",
	"handle_calls_handle_query":  "app/environment_test.go",

	"publishEvent_basic":                 "app/environment_test.go",
	"initEventRules_registers":           "app/environment_test.go",
	"user_query_rule_handles":            "app/environment_test.go",
	"session_rule_logs":                  "app/environment_test.go",
	"background_task_rule_creates_agent": "app/environment_test.go",
	"fallback_rule_matches":              "app/environment_test.go",

	"prompt_route_creates_event":      "httpapi/prompt_test.go",
	"prompt_route_includes_payload":   "httpapi/prompt_test.go",
	"prompt_route_includes_metadata":  "httpapi/prompt_test.go",
	"prompt_route_returns_success":    "httpapi/prompt_test.go",
	"prompt_route_missing_content":    "httpapi/prompt_test.go",
	"prompt_route_no_session_support": "httpapi/prompt_test.go",

	"stream_event_published":  "session/announce_test.go",
	"stream_event_metadata":   "session/announce_test.go",
	"existing_emit_unchanged": "httpapi/project_test.go",
}

// accepted are the points of acceptance that it lists (8.1 to 8.6), and the
// tests that show them.
var accepted = map[string][]string{
	"Event Definition":             {"event/event_test.go TestEnvironmentEvents"},
	"EventBus Enhancement":         {"environment/decide_test.go TestMatch", "environment/agent_test.go TestEventHandlerAgent"},
	"Queue Mechanism":              {"environment/service_test.go TestQueue", "environment/service_test.go publish_idempotency"},
	"publishEvent API":             {"app/environment_test.go publishEvent_basic"},
	"user_query Processing":        {"app/environment_test.go user_query_rule_handles", "httpapi/prompt_test.go prompt_route_creates_event"},
	"Session Events":               {"app/environment_test.go session_rule_logs", "httpapi/prompt_test.go TestSessions"},
	"background_task Processing":   {"app/environment_test.go background_task_rule_creates_agent", "e2e/task_test.go TestABackgroundCommandComesBackWithItsResult"},
	"Fallback Handler":             {"app/environment_test.go fallback_rule_matches"},
	"Stateless Creation":           {"environment/agent_test.go TestEventHandlerAgent"},
	"Message Construction":         {"environment/agent_test.go handle_constructs_messages"},
	"Session Integration":          {"app/environment_test.go handle_inserts_to_session"},
	"handle_query Trigger":         {"app/environment_test.go handle_calls_handle_query"},
	"Session Route Transformation": {"httpapi/prompt_test.go prompt_route_creates_event"},
	"StreamEvent Publication":      {"session/announce_test.go stream_event_published", "e2e/surfaces_test.go TestTheEventStreamTellsOfEverySurface"},
	"Existing SSE Flow":            {"httpapi/project_test.go existing_emit_unchanged"},
	"User Query E2E":               {"e2e/environment_test.go User Query E2E"},
	"Background Task E2E":          {"e2e/environment_test.go Background Task E2E", "e2e/task_test.go TestABackgroundCommandThatWasKilledIsToldAsFailed"},
	"Error Handling E2E":           {"e2e/environment_test.go Error Handling E2E"},
	"Concurrent Events":            {"environment/service_test.go Concurrent Events", "e2e/webhook_test.go TestAStormOfWebhooks"},
	"Idempotency":                  {"environment/service_test.go publish_idempotency", "httpapi/rules_test.go TestEventsArePublishedOnce"},
	"Error Recovery":               {"environment/service_test.go Error Recovery"},
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

// shows reports it when what shows a point is not in its file.
func shows(t *testing.T, point, file, words string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
	if err != nil || !strings.Contains(string(raw), words) {
		t.Errorf("%s has no test %q in %s: %v", point, words, file, err)
	}
}

package session

import (
	"encoding/json"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// The journal's kinds of entries.
const (
	kindQueued      = "queued"
	kindStarted     = "started"
	kindInput       = "input"
	kindModel       = "model"
	kindModelFailed = "model_failed"
	// kindModelSwitched has a [fallback.Switch].
	kindModelSwitched = "model_switched"
	kindToolStart     = "tool_start"
	kindToolEnd       = "tool_end"
	kindRecovered     = "recovered"
	kindCompacted     = "compacted"
	kindPaused        = "paused"
	kindResumed       = "resumed"
	kindApproved      = "approved"
	kindEnd           = "end"
)

// The data of the entries.
type (
	queuedEntry struct {
		// TraceParent is journaled so that the trace continues after a crash.
		TraceParent string `json:"traceParent,omitempty"`
	}
	startedEntry struct {
		// Grant is the restriction by the request's place.
		Grant grant.Grant `json:"grant,omitempty"`
		// Workspace is the session in whose own workspace the request works; "" means the
		// shared one.
		Workspace string `json:"workspace,omitempty"`
	}
	inputEntry struct {
		MessageID string      `json:"messageId"`
		Queue     event.Queue `json:"queue"`
		Offset    int64       `json:"offset"`
		// Grant is the message's restriction of the request.
		Grant grant.Grant `json:"grant,omitempty"`
		// Agent is the configured agent that the message asks for.
		Agent string `json:"agent,omitempty"`
	}
	modelEntry struct {
		Message     chat.Message `json:"message"`
		Usage       chat.Usage   `json:"usage"`
		Stop        string       `json:"stop"`
		Interrupted bool         `json:"interrupted,omitempty"`
		Offset      int64        `json:"offset"`
		ModelMS     int64        `json:"modelMs"`
		Model       string       `json:"model,omitempty"`
		WorkedMS    int64        `json:"workedMs,omitempty"`
		Effort      string       `json:"effort,omitempty"`
		// Instructions are those of the channel and the conversation, with the first call.
		Instructions string `json:"instructions,omitempty"`
	}
	failedEntry struct {
		Error    string `json:"error"`
		DelayMS  int64  `json:"delayMs"`
		WorkedMS int64  `json:"workedMs,omitempty"`
	}
	pausedEntry struct {
		Pause
		WorkedMS int64 `json:"workedMs,omitempty"`
	}
	// workedEntry is the part of entries with the working time of the request so far.
	workedEntry struct {
		WorkedMS int64 `json:"workedMs"`
	}
	toolEntry struct {
		ToolCallID string          `json:"toolCallId"`
		Name       string          `json:"name"`
		Args       json.RawMessage `json:"args,omitempty"`
		Display    string          `json:"display,omitempty"`
		Result     *chat.Part      `json:"result,omitempty"`
		OK         *bool           `json:"ok,omitempty"`
		WorkedMS   int64           `json:"workedMs,omitempty"`
	}
	recoveredEntry struct {
		Recovery int   `json:"recovery"`
		Charged  bool  `json:"charged"`
		Offset   int64 `json:"offset"`
	}
	compactedEntry struct {
		KeptFrom int64 `json:"keptFrom"`
	}
	resumedEntry struct {
		Pause  int    `json:"pause"`
		Answer Answer `json:"answer"`
		// ToolCallID and Hash bind the answer to one call of the open step.
		ToolCallID string `json:"toolCallId,omitempty"`
		Tool       string `json:"tool,omitempty"`
		Hash       string `json:"hash,omitempty"`
		Reply      string `json:"reply,omitempty"`
		By         string `json:"by,omitempty"`
	}
	endEntry struct {
		State  event.RequestState `json:"state"`
		Detail string             `json:"detail,omitempty"`
		// ErrorKind goes with the state failed.
		ErrorKind fault.Kind `json:"errorKind,omitempty"`
		// Cause is shown to the operator only.
		Cause string `json:"cause,omitempty"`
		// Quiet suppresses the message about the end on a platform.
		Quiet bool `json:"quiet,omitempty"`
		// Notes are shown below the answer.
		Notes []string `json:"notes,omitempty"`
		// Notice is a text that was output without a model call; no other entry has it.
		Notice string `json:"notice,omitempty"`
	}
)

package acp

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/transcript"
)

// State is a conversation as the editor sees it. The zero value is a conversation without a running
// request.
//
//	no request --stream.start--> running --session.paused--> asking --session.resumed--> running
//	running, asking --stream.completed, stream.error--> no request
type State struct {
	// Request is the running request, "" without one.
	Request string
	// text is the answer so far, sent is what the editor has of it. They differ after an
	// answer was taken back, because the editor cannot take text back.
	text, sent string
	// tools are the tool calls that the editor knows, by id.
	tools map[string]bool
	// Question is the open question, nil without one.
	Question *Question
}

// A Question of a request waits for an answer.
type Question struct {
	Request string
	Number  int
	Text    string
	// Call describes the call that needs an approval, "" for other questions.
	Call string
	// Options are the answers to choose from. Without any, the next prompt answers it.
	Options []Option
}

// An Option is one answer to a question.
type Option struct {
	Name   string
	Kind   sdk.PermissionOptionKind
	Answer session.Answer
	// Reply goes with the answer "reply".
	Reply string
}

// Effect is something to do for the editor, in order.
type Effect interface{ isEffect() }

// The effects of [Decide].
type (
	// Show sends an update of the conversation.
	Show struct{ Update sdk.SessionUpdate }
	// Ask asks for an answer to a question.
	Ask struct{ Question Question }
	// Answered withdraws the question: it was answered, here or elsewhere.
	Answered struct{}
	// End ends a request. Failure says why it failed, "" if it did not.
	End struct {
		Request string
		Reason  sdk.StopReason
		Usage   *chat.Usage
		Failure string
	}
)

func (Show) isEffect()     {}
func (Ask) isEffect()      {}
func (Answered) isEffect() {}
func (End) isEffect()      {}

const (
	// maxTools limits the tool calls of one request that are told apart; further ones are
	// announced again with each change.
	maxTools = 10_000
	// maxDetails limits the input of a call to approve, in characters.
	maxDetails = 2000
)

// Decide applies an event of the server to a conversation.
func Decide(s State, e event.EnvEvent) (State, []Effect) {
	var p transcript.Payload
	if json.Unmarshal(e.Payload, &p) != nil {
		return s, nil // an event of another form
	}
	switch e.Type {
	case event.StreamStart:
		if s.Request != p.RequestID {
			s = State{Request: p.RequestID, Question: s.Question}
		}
		return s, nil
	case event.StreamReasoning:
		return s, []Effect{Show{sdk.UpdateAgentThoughtText(p.Content)}}
	case event.StreamText:
		if p.RequestID != s.Request {
			return s, nil
		}
		if p.Offset < 0 || p.Offset > len(s.text) {
			p.Offset = len(s.text) // a gap: the end of the request has the complete text
		}
		return s.answer(s.text[:p.Offset] + p.Content)
	case event.StreamToolCall:
		return s.tool(p)
	case event.StreamFile:
		return s, []Effect{Show{sdk.UpdateAgentMessage(sdk.ResourceLinkBlock(text.SingleLine(p.Filename), p.URL))}}
	case event.SessionPaused:
		q := asked(p.RequestID, p.Pause, p)
		if s.Question != nil && s.Question.Request == q.Request && s.Question.Number == q.Number {
			return s, nil // the server repeats it when other messages arrive
		}
		s.Question = q
		return s, []Effect{Ask{*q}}
	case event.SessionResumed:
		if s.Question == nil || s.Question.Request != p.RequestID {
			return s, nil
		}
		s.Question = nil
		return s, []Effect{Answered{}}
	case event.StreamCompleted, event.StreamError:
		return s.end(e.Type, p)
	case event.SessionUpdated:
		if p.Title == "" {
			return s, nil
		}
		return s, []Effect{Show{sdk.SessionUpdate{SessionInfoUpdate: &sdk.SessionSessionInfoUpdate{Title: sdk.Ptr(text.SingleLine(p.Title))}}}}
	case "stream.gap":
		return s, []Effect{note(p.Message)}
	}
	if how, ok := strings.CutPrefix(string(e.Type), "background_task."); ok {
		if words := transcript.TaskEnds()[how]; words != "" {
			return s, []Effect{note(transcript.TaskEnded(p.Description, words))}
		}
	}
	return s, nil
}

// note is a line that is not part of the answer.
func note(line string) Effect {
	return Show{sdk.UpdateAgentMessageText("\n\n*" + text.SingleLine(line) + "*\n\n")}
}

// answer sets the complete text of the answer so far. What the editor has of it cannot be
// taken back: while the new text equals it, nothing is sent, and where it begins to differ,
// a note says so.
func (s State) answer(full string) (State, []Effect) {
	s.text = full
	if strings.HasPrefix(s.sent, full) {
		return s, nil
	}
	var out []Effect
	if !strings.HasPrefix(full, s.sent) {
		same := 0
		for same < len(s.sent) && full[same] == s.sent[same] { // full is not a prefix of sent
			same++
		}
		s.sent = full[:strings.LastIndexByte(full[:same], '\n')+1]
		out = append(out, note("The answer was taken back to here, and continues:"))
	}
	out = append(out, Show{sdk.UpdateAgentMessageText(full[len(s.sent):])})
	s.sent = full
	return s, out
}

// tool announces a tool call once, and then its changes.
func (s State) tool(p transcript.Payload) (State, []Effect) {
	if p.RequestID != s.Request {
		return s, nil
	}
	id := sdk.ToolCallId(p.RequestID + "/" + p.ToolCallID) // ids of models can repeat
	status := sdk.ToolCallStatusInProgress
	switch {
	case p.Status == event.ToolEnd && p.OK != nil && !*p.OK:
		status = sdk.ToolCallStatusFailed
	case p.Status == event.ToolEnd:
		status = sdk.ToolCallStatusCompleted
	}
	title := strings.TrimSpace(text.SingleLine(p.Name) + " " + transcript.Describe(p.Display, p.Name, p.Args))
	var content []sdk.ToolCallContent
	var reason string
	_ = json.Unmarshal(p.Error, &reason) // without a reason, the output says enough
	if output := cmp.Or(p.Output, reason); output != "" {
		content = []sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(output))}
	}
	if s.tools[string(id)] {
		update := sdk.SessionToolCallUpdate{ToolCallId: id, Status: &status, Content: content}
		if title != "" {
			update.Title = &title
		}
		return s, []Effect{Show{sdk.SessionUpdate{ToolCallUpdate: &update}}}
	}
	if len(s.tools) < maxTools {
		s.tools = maps.Clone(s.tools)
		if s.tools == nil {
			s.tools = map[string]bool{}
		}
		s.tools[string(id)] = true
	}
	start := sdk.SessionUpdateToolCall{ToolCallId: id, Title: title, Kind: kindOf(p.Name), Status: status, Content: content}
	if len(p.Args) > 0 {
		start.RawInput = p.Args
	}
	return s, []Effect{Show{sdk.SessionUpdate{ToolCall: &start}}}
}

// kindOf returns the kind with which editors choose an icon.
func kindOf(tool string) sdk.ToolKind {
	switch tool {
	case "bash":
		return sdk.ToolKindExecute
	case "read":
		return sdk.ToolKindRead
	case "edit", "write":
		return sdk.ToolKindEdit
	case "grep", "glob":
		return sdk.ToolKindSearch
	}
	return sdk.ToolKindOther
}

// asked returns the question of a paused request.
func asked(request string, number int, p transcript.Payload) *Question {
	q := &Question{Request: request, Number: number, Text: p.Question}
	switch p.Kind {
	case "": // a limit
		q.Options = []Option{
			{Name: "Continue", Kind: sdk.PermissionOptionKindAllowOnce, Answer: session.Continue},
			{Name: "Stop", Kind: sdk.PermissionOptionKindRejectOnce, Answer: session.Stop},
		}
	case "approval":
		q.Options = []Option{
			{Name: "Allow once", Kind: sdk.PermissionOptionKindAllowOnce, Answer: session.Once},
			{Name: "Always allow here", Kind: sdk.PermissionOptionKindAllowAlways, Answer: session.Always},
			{Name: "Refuse", Kind: sdk.PermissionOptionKindRejectOnce, Answer: session.No},
		}
		if p.Call != nil {
			q.Call = text.TruncateRunes(text.SingleLine(p.Call.Tool+" "+p.Call.Input), maxDetails)
		}
	default:
		for _, choice := range p.Choices {
			q.Options = append(q.Options, Option{Name: text.SingleLine(choice), Kind: sdk.PermissionOptionKindAllowOnce, Answer: session.Replied, Reply: choice})
		}
	}
	return q
}

// end shows the rest of the answer and ends the request.
func (s State) end(t event.Type, p transcript.Payload) (State, []Effect) {
	var out []Effect
	if s.Request != p.RequestID { // it was never followed: its end has the complete text
		s = State{Request: p.RequestID, Question: s.Question}
	}
	s, out = s.answer(p.Content)
	if len(s.sent) > len(p.Content) {
		out = append(out, note("The end of this text was taken back."))
	}
	if s.Question != nil && s.Question.Request == p.RequestID {
		out = append(out, Answered{})
	}
	for _, line := range p.Notes {
		out = append(out, note(line))
	}
	end := End{Request: p.RequestID, Reason: sdk.StopReasonEndTurn, Usage: p.Usage}
	switch {
	case t == event.StreamError:
		var w fault.Wire
		_ = json.Unmarshal(p.Error, &w) // an error of another form has no sentence
		end.Failure = cmp.Or(w.Message, "The request failed.")
	case p.Cancelled:
		end.Reason = sdk.StopReasonCancelled
	}
	return State{}, slices.Concat(out, []Effect{end})
}

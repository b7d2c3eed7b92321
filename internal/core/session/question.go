package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
	"lilac/internal/foundation/text"
)

// PauseKind is why a request waits for an answer.
type PauseKind string

// The kinds.
const (
	AtLimit PauseKind = ""
	// ForApproval waits until a permitted person allows or denies a call.
	ForApproval PauseKind = "approval"
	// ForReply waits for the answer to a question of the agent.
	ForReply PauseKind = "question"
)

const (
	// maxShownInput bounds the input of a call in a question, in bytes: a message on a
	// platform has room for it. maxKeptInput bounds the input that the pause keeps for
	// interfaces with more room.
	maxShownInput = 1200
	maxKeptInput  = 16 << 10
	// shownHash is the number of digits of a hash that people see.
	shownHash = 16
	// maxReply bounds the reply to a question of the agent, in bytes.
	maxReply = 32 << 10
	// maxChoice bounds a choice, in characters; buttons have no room for more.
	maxChoice = 80
)

// AskedCall is the call that an approval is about.
type AskedCall struct {
	// ToolCallID is "" for a callable that a running command called.
	ToolCallID string `json:"toolCallId,omitempty"`
	// Tool is the name of the tool or callable.
	Tool string `json:"tool"`
	// Input is the canonical input, or its beginning if it is longer than 16 KiB. Bytes is the
	// length of the whole input.
	Input string `json:"input"`
	Bytes int    `json:"bytes"`
	// Hash is the SHA-256 of the canonical input. The approval holds for it only.
	Hash string `json:"hash"`
	// Rule identifies the rule that asks.
	Rule string `json:"rule,omitempty"`
}

func newAskedCall(toolCallID, name string, input json.RawMessage, rule string) AskedCall {
	canonical := string(policy.Canonical(input))
	return AskedCall{
		ToolCallID: toolCallID, Tool: name, Bytes: len(canonical), Hash: policy.Hash(input), Rule: rule,
		Input: text.Truncate(canonical, maxKeptInput),
	}
}

// isCallable reports whether a running command made the call.
func (c AskedCall) isCallable() bool { return c.ToolCallID == "" }

// is reports whether an approval of c holds for another call.
func (c AskedCall) is(tool, hash string) bool { return c.Tool == tool && c.Hash == hash }

// question asks people about the call, and says how to answer.
func (c AskedCall) question() string {
	return c.ask() + ` Answer "once", "always here", or "no".`
}

// ask asks people about the call.
func (c AskedCall) ask() string {
	shown := text.Truncate(c.Input, maxShownInput)
	rest := ""
	if len(shown) < c.Bytes {
		rest = fmt.Sprintf(" These are the first %d of %d bytes; the page and \"lilac requests show\" have all of them.", len(shown), c.Bytes)
	}
	fence := "```"
	for strings.Contains(shown, fence) {
		fence += "`"
	}
	return fmt.Sprintf("May I call %s?\n%s\n%s\n%s\nInput %s.%s",
		c.Tool, fence, shown, fence, c.Hash[:shownHash], rest)
}

// Standing is an approval that holds for all calls of a tool in a session, as far as the
// same rule asks.
type Standing struct {
	Tool string `json:"tool"`
	Rule string `json:"rule"`
	By   string `json:"by,omitempty"`
}

// CallApproval is a call by a running command that needs an approval.
type CallApproval struct {
	AskedCall
	Approvers []string `json:"approvers,omitempty"`
	// Answer is NoAnswer until people have answered. An approval is removed when it is used.
	Answer Answer `json:"answer,omitempty"`
	By     string `json:"by,omitempty"`
}

// maxApprovals bounds the calls of one request that wait or were answered, and maxStanding
// the standing approvals of a session.
const (
	maxApprovals = 32
	maxStanding  = 100
)

// firstUnasked returns the first call for which people have to be asked, or nil.
func (a *Active) firstUnasked() *CallApproval {
	if a == nil {
		return nil
	}
	i := slices.IndexFunc(a.Approvals, func(c CallApproval) bool { return c.Answer == NoAnswer })
	if i < 0 {
		return nil
	}
	return &a.Approvals[i]
}

// approvalIndex returns the index of the approval of a call, or -1.
func (a *Active) approvalIndex(tool, hash string) int {
	return slices.IndexFunc(a.Approvals, func(c CallApproval) bool { return c.is(tool, hash) })
}

// isStanding reports whether a call needs no question, because somebody has approved all
// calls of the tool here.
func (s State) isStanding(tool, rule string) bool {
	return slices.ContainsFunc(s.Standing, func(a Standing) bool { return a.Tool == tool && a.Rule == rule })
}

// Accepts reports whether an answer is one of the kind's.
func (p Pause) Accepts(a Answer) bool {
	switch p.Kind {
	case ForApproval:
		return a == Once || a == Always || a == No
	case ForReply:
		return a == Replied
	}
	return a == Continue || a == Stop
}

// approvalWords are the words for the answers to an approval.
var approvalWords = map[string]Answer{
	"once": Once, "yes": Once, "y": Once, "ok": Once, "okay": Once, "allow": Once, "allow once": Once, "approve": Once, "go ahead": Once,
	"always": Always, "always here": Always, "allow always": Always,
	"no": No, "n": No, "deny": No, "never": No, "reject": No, "stop": No,
}

// Read interprets messages as the answer to the pause. The reply is that to a question of
// the agent.
func (p Pause) Read(messages []chat.Message) (answer Answer, reply string) {
	if p.Kind == AtLimit {
		return AnswerOf(messages), ""
	}
	if len(messages) != 1 || messages[0].Role != chat.User {
		return NoAnswer, ""
	}
	said := messages[0].Text()
	said = strings.TrimSpace(said[len(attribution.FindString(said)):])
	if p.Kind == ForApproval {
		return approvalWords[plainWords(said)], ""
	}
	if said == "" || len(said) > maxReply {
		return NoAnswer, ""
	}
	if p.Form != nil {
		reply, err := p.Form.Read(said)
		if err != nil {
			return NoAnswer, ""
		}
		return Replied, reply
	}
	return Replied, p.choice(said)
}

// ReadText is like Read, for the text of one message.
func (p Pause) ReadText(said string) Answer {
	answer, _ := p.Read([]chat.Message{chat.Text(chat.User, said)})
	return answer
}

// choice returns the choice that a reply names by its number or in another case, or the
// reply.
func (p Pause) choice(said string) string {
	if n, err := strconv.Atoi(strings.Trim(said, "#.) ")); err == nil && n >= 1 && n <= len(p.Choices) {
		return p.Choices[n-1]
	}
	for _, c := range p.Choices {
		if strings.EqualFold(c, said) {
			return c
		}
	}
	return said
}

// mayApprove reports whether all authors of a message may answer an approval.
func (p Pause) mayApprove(people []grant.Person) bool {
	return len(people) > 0 && !slices.ContainsFunc(people, func(one grant.Person) bool { return !policy.MayApprove(p.Approvers, one) })
}

// plainWords returns a text in lower case, without punctuation at its ends.
func plainWords(s string) string {
	return strings.Join(strings.Fields(strings.Trim(strings.ToLower(s), ".!,/\"'` ")), " ")
}

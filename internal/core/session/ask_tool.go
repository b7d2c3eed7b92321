package session

import (
	"cmp"
	"context"
	_ "embed" // for the text of the tool
	"strings"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schema"
	"lilac/internal/foundation/text"
)

//go:embed ask_tool.md
var askText string

// AskToolName is the name of the agent's tool for questions to people.
const AskToolName = "ask"

// maxChoices limits the choices of a question; more do not fit as buttons.
const maxChoices = 5

type askInput struct {
	Question string   `json:"question" jsonschema:"The question, complete in itself: the person sees nothing else."`
	Choices  []string `json:"choices,omitempty" jsonschema:"Up to five short answers to choose from. The person can still answer in other words."`
}

var askSchema = schema.For[askInput](schema.Options{})

func (in askInput) display() string { return AskToolName + ": " + in.Question }

// check returns why the question cannot be asked, or nil.
func (in askInput) check() error {
	switch {
	case strings.TrimSpace(in.Question) == "":
		return fault.InvalidField("question", "The question is empty.")
	case len(in.Question) > maxQuestion:
		return fault.InvalidField("question", "The question has %d bytes, more than %d. Say the rest in your answer before it.", len(in.Question), maxQuestion)
	case len(in.Choices) > maxChoices:
		return fault.InvalidField("choices", "There are %d choices; the maximum is %d.", len(in.Choices), maxChoices)
	}
	for _, c := range in.Choices {
		if strings.TrimSpace(c) == "" || len([]rune(c)) > maxChoice {
			return fault.InvalidField("choices", "A choice has from 1 to %d characters.", maxChoice)
		}
	}
	return nil
}

// maxQuestion bounds a question of the agent, in bytes: it fits into one message.
const maxQuestion = 1500

// AskTool returns the tool with which the agent asks a person. The runner answers its calls
// without running it; a call that runs has invalid input, or comes from where nobody can be
// asked.
func AskTool() tool.Tool {
	return tool.New(tool.Spec{Name: AskToolName, Description: askText, Idempotent: true}, askInput.display,
		func(_ context.Context, _ tool.Call, in askInput) (tool.Result, error) {
			return tool.Result{}, cmp.Or(in.check(), error(fault.New(fault.Denied, "Nobody can be asked here.")))
		})
}

// askedQuestion returns the question of a valid call of the tool.
func askedQuestion(call chat.Part) (in askInput, ok bool) {
	if call.ToolName != AskToolName {
		return in, false
	}
	normal, err := askSchema.Normalize(call.Input)
	if err != nil || schema.Unmarshal(normal, &in) != nil {
		return in, false
	}
	return in, in.check() == nil
}

// permitQuestion asks a person, or returns the answer.
func (r *run) permitQuestion(p agent.Permit, call chat.Part, in askInput) agent.Permit {
	if said, ok := r.verdicts[call.ToolCallID]; ok {
		if said.Answer == Replied {
			p.Answer = said.Reply
		} else {
			p.Refusal = "Nobody answered in time. Say what you wanted to know, and what you did without it."
		}
		return p
	}
	if r.svc.opt.Surfaces.Unattended(r.client) {
		return p // the tool says so
	}
	now := r.svc.opt.Now()
	p.Ask, r.asks = true, &Pause{
		Kind: ForReply, ToolCallID: call.ToolCallID, Choices: in.Choices, Question: text.Truncate(strings.TrimSpace(in.Question), maxQuestion),
		Since: now.UnixMilli(), Until: now.Add(r.svc.settings.Load().Limits.questionWait()).UnixMilli(),
	}
	return p
}

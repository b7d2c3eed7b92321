package callables

import (
	"context"

	"lilac/internal/serve/toolserver"
)

type readSkillInput struct {
	Name string `json:"name" min:"1" max:"64" jsonschema:"The skill, as the list names it."`
	File string `json:"file,omitempty" max:"500" jsonschema:"Another file of the skill, relative to its directory. Without it, SKILL.md."`
}

// Skills returns the callables skills.*. read returns the text of a skill that the operator
// trusts.
func Skills(read func(name, file string) (string, error)) []toolserver.Callable {
	return []toolserver.Callable{
		toolserver.NewCallable(toolserver.Callable{
			ID: "skills.read", Summary: "Reads a skill: how to do one kind of work",
			Description: "The result names the directory of the skill; its scripts and other files are there. Nothing runs.",
			Examples:    []string{"tools skills.read --name=pdf", "tools skills.read --name=pdf --file=references/forms.md"},
		}, func(_ context.Context, _ toolserver.Caller, in readSkillInput) (any, error) {
			return read(in.Name, in.File)
		}),
	}
}

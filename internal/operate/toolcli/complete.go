package toolcli

import (
	"context"
	_ "embed"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schema"
	"lilac/internal/foundation/text"
	"lilac/internal/serve/toolwire"
)

// completeWord is the argument with which shell scripts request completions. The command
// line up to the cursor follows it.
const completeWord = "__complete"

// completeTime limits the wait after pressing Tab.
const completeTime = 2 * time.Second

//go:embed completion.bash
var bashCompletion string

//go:embed completion.zsh
var zshCompletion string

// completion prints the script for a shell.
func (c Command) completion(args []string) error {
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion}
	if len(args) != 1 || scripts[args[0]] == "" {
		return fault.New(fault.Invalid, "Say for which shell: tools completion bash, or tools completion zsh.")
	}
	return c.print(scripts[args[0]])
}

// words splits a command line up to the cursor. The last word is the one to complete; it
// may be empty.
func words(args []string) []string {
	line := strings.TrimLeft(strings.Join(args, " "), " \t")
	fields := strings.Fields(line)
	if line == "" || strings.HasSuffix(line, " ") {
		fields = append(fields, "")
	}
	return fields[min(1, len(fields)-1):] // without the command itself
}

// Complete returns completions of the last argument from the server's list of callables.
// If the server does not respond, there are none for callables and fields.
func (c Command) Complete(ctx context.Context, args []string) []string {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	last := args[len(args)-1]
	var out []string
	switch {
	case len(args) == 1:
		out = append(c.callables(ctx), "--list", "--help", "help", "completion")
	case args[0] == "help" && len(args) == 2:
		out = c.callables(ctx)
	case args[0] == "completion" && len(args) == 2:
		out = []string{"bash", "zsh"}
	case args[0] == "--list" || args[0] == "help":
		out = []string{"--output=json", "--output=text"}
	case strings.HasPrefix(last, "-") || last == "":
		out = c.fields(ctx, args[0], args[1:len(args)-1], last)
	}
	return slices.DeleteFunc(out, func(one string) bool { return !strings.HasPrefix(one, last) })
}

func (c Command) callables(ctx context.Context) (out []string) {
	var listing toolwire.Listing
	server, err := c.connect()
	if err != nil || server.ask(ctx, "GET", "/list", nil, &listing) != nil {
		return nil
	}
	for _, one := range listing.Callables {
		out = append(out, text.Sanitize(one.ID))
	}
	return out
}

// fields returns the flags of a callable that are not used yet, or the values from the
// schema if the last argument already names a flag.
func (c Command) fields(ctx context.Context, id string, given []string, last string) (out []string) {
	var help toolwire.Help
	server, err := c.connect()
	if err != nil || server.ask(ctx, "GET", "/help/"+url.PathEscape(id), nil, &help) != nil {
		return nil
	}
	fields := schema.Plain(help.Input, "any").Properties
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field := fields[name]
		flag := "--" + kebab(text.Sanitize(name)) + "="
		if field.Type != "array" && slices.ContainsFunc(given, func(arg string) bool { return strings.HasPrefix(arg, flag) }) {
			continue
		}
		if !strings.HasPrefix(last, flag) {
			out = append(out, flag)
			continue
		}
		values := field.Enum
		if field.Type == "boolean" {
			values = []string{"true", "false"}
		}
		for _, value := range values {
			out = append(out, flag+text.Sanitize(value))
		}
	}
	return append(out, "--output=json", "--output=text", "--input=", "--help")
}

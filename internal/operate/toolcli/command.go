package toolcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/serve/toolwire"
)

// Command holds the environment of the command line.
type Command struct {
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// DataDir finds the data directory. If it is nil, environment variables determine the
	// directory.
	DataDir func() (string, error)
}

const usage = `Calls the operations that Lilac offers to the commands of its agent.

Usage:
  tools --list               list the operations
  tools help ID              show the input of an operation, with examples
  tools ID --key=value …     call an operation
  tools completion bash|zsh  print the completion for a shell

Flags of a call:
  --key=value           set a field of the input; repeat it for a list; without a value, it is true
  --key:json=VALUE      set a field to a JSON value
  --input=@FILE|-|JSON  the whole input as a JSON object; other keys take precedence
  --output=json|text    the format of the value or the error (default text)

Examples:
  tools surface.sessions.list --output=json
  tools surface.messages.list --session-id=01k2… --limit=20

The server is the one of LILAC_TOOL_SOCKET or LILAC_TOOL_URL, or else the one that uses
LILAC_DATA_DIR (default ~/.lilac; for lilac tools, the configured directory). The token in
LILAC_TOOL_TOKEN determines which operations you may call. Commands of the agent have one. For a
terminal, create one with lilac tools token create.

Exit codes: 2 usage, 3 denied, 4 not found, 5 conflict, 6 unavailable, 7 timeout,
8 cancelled, 1 anything else.
`

// Main runs one command line and returns its exit code.
func (c Command) Main(ctx context.Context, args []string) int {
	err := c.run(ctx, args)
	if err == nil {
		return 0
	}
	message := err.Error()
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		message = e.Message
	}
	if slices.Contains(args, "--output=json") {
		data, _ := json.Marshal(fault.ToWire(err)) // strings and a flag always marshal
		fmt.Fprintln(c.Stderr, string(text.SanitizeJSON(data)))
	} else {
		fmt.Fprintln(c.Stderr, "tools:", strings.Join(strings.Fields(text.Sanitize(message)), " "))
	}
	return fault.KindOf(err).ExitCode()
}

func (c Command) run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		return fault.New(fault.Invalid, "Say what to call: tools --list shows it, tools --help explains.")
	case args[0] == "--help" || args[0] == "help" && len(args) == 1:
		return c.print(usage)
	case args[0] == "completion":
		return c.completion(args[1:])
	case args[0] == completeWord:
		return c.print(strings.Join(append(c.Complete(ctx, words(args[1:])), ""), "\n"))
	case args[0] == "help":
		return c.help(ctx, args[1], slices.Contains(args[2:], "--output=json"))
	case args[0] == "--list":
		return c.list(ctx, slices.Contains(args[1:], "--output=json"))
	case strings.HasPrefix(args[0], "-"):
		return fault.New(fault.Invalid, "There is no flag %s here: tools --help explains.", args[0])
	}
	call, err := c.parse(args)
	if err != nil {
		return err
	}
	if call.help {
		return c.help(ctx, call.callable, call.json)
	}
	return c.call(ctx, call)
}

func (c Command) print(text string) error {
	if _, err := io.WriteString(c.Stdout, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func (c Command) list(ctx context.Context, asJSON bool) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var listing toolwire.Listing
	if err := server.ask(ctx, "GET", "/list", nil, &listing); err != nil {
		return err
	}
	if asJSON {
		return c.printJSON(listing.Callables)
	}
	width := 0
	for _, one := range listing.Callables {
		width = max(width, len(one.ID))
	}
	var b strings.Builder
	for _, one := range listing.Callables {
		fmt.Fprintf(&b, "%-*s  %s\n", width, one.ID, text.Sanitize(one.Summary))
	}
	return c.print(b.String())
}

func (c Command) help(ctx context.Context, id string, asJSON bool) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var h toolwire.Help
	if err := server.ask(ctx, "GET", "/help/"+url.PathEscape(id), nil, &h); err != nil {
		return err
	}
	if asJSON {
		return c.printJSON(h)
	}
	return c.print(helpText(h))
}

func (c Command) call(ctx context.Context, call invocation) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	input, err := json.Marshal(call.input)
	if err != nil {
		return fmt.Errorf("encode input: %w", err)
	}
	var answer toolwire.Answer
	if err := server.ask(ctx, "POST", "/call", toolwire.Call{CallableID: call.callable, Input: input}, &answer); err != nil {
		return err
	}
	if call.json {
		return c.printJSON(answer.Value)
	}
	text, err := valueText(answer.Value)
	if err != nil {
		return err
	}
	return c.print(text)
}

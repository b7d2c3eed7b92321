package toolcli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"lilac/internal/foundation/fault"
)

// maxInput bounds what is read of a file or of standard input.
const maxInput = 1 << 20

// invocation is a parsed command line.
type invocation struct {
	callable   string
	help, json bool
	input      map[string]any
}

// parse reads ID and flags. --key=value is text (the server makes of it what
// the schema wants), --key alone is true, --key:json=… is JSON; a key that is
// given again makes a list. Keys win over --input.
func (c Command) parse(args []string) (invocation, error) {
	call := invocation{callable: args[0], input: map[string]any{}}
	values := map[string]any{}
	for _, arg := range args[1:] {
		flag, is := strings.CutPrefix(arg, "--")
		if !is || flag == "" {
			return call, fault.New(fault.Invalid, "%q is no flag: write --key=value.", arg)
		}
		key, value, given := strings.Cut(flag, "=")
		switch key {
		case "help":
			call.help = true
		case "output":
			if value != "json" && value != "text" {
				return call, fault.InvalidField("output", "--output has to be json or text, not %q.", value)
			}
			call.json = value == "json"
		case "input":
			if err := c.readInput(value, call.input); err != nil {
				return call, err
			}
		default:
			name, parsed, err := field(key, value, given)
			if err != nil {
				return call, err
			}
			values[name] = add(values[name], parsed)
		}
	}
	maps.Copy(call.input, values)
	return call, nil
}

func field(key, value string, given bool) (name string, parsed any, err error) {
	name, kind, typed := strings.Cut(key, ":")
	switch {
	case name == "" || typed && kind != "json":
		return "", nil, fault.New(fault.Invalid, "--%s is not of the form --key=value or --key:json=VALUE.", key)
	case typed && !json.Valid([]byte(value)):
		return "", nil, fault.InvalidField(name, "What follows --%s= is not JSON.", key)
	case typed:
		return name, json.RawMessage(value), nil
	case !given:
		return name, true, nil
	}
	return name, value, nil
}

// add makes a list of a key that is given again.
func add(before, value any) any {
	switch before := before.(type) {
	case nil:
		return value
	case []any:
		return append(before, value)
	}
	return []any{before, value}
}

// readInput reads a JSON object: from @file, from standard input for -, or as
// it is given.
func (c Command) readInput(from string, into map[string]any) (err error) {
	data := []byte(from)
	if path, is := strings.CutPrefix(from, "@"); is {
		file, err := os.Open(path)
		if err != nil {
			return fault.New(fault.Invalid, "The file %s for --input cannot be read.", path)
		}
		defer file.Close()
		if data, err = readBounded(file); err != nil {
			return err
		}
	} else if from == "-" {
		if data, err = readBounded(c.Stdin); err != nil {
			return err
		}
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return fault.InvalidField("input", "--input has to be a JSON object, @file or - for standard input.")
	}
	for key, value := range fields {
		into[key] = value
	}
	return nil
}

func readBounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	if len(data) > maxInput {
		return nil, fault.New(fault.TooLarge, "The input is larger than %d bytes.", maxInput)
	}
	return data, nil
}

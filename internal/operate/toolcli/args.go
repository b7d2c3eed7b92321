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

// maxInput limits an input that is read from a file or from standard input, in bytes.
const maxInput = 1 << 20

// invocation is a parsed command line.
type invocation struct {
	callable   string
	help, json bool
	input      map[string]any
}

// parse parses the id and the flags of a call. --key=value is text, which the server converts
// to the type in the schema; --key alone is true; --key:json=… is JSON. A repeated key forms
// a list. Keys override the fields of --input.
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

// add combines the values of a repeated key into a list.
func add(before, value any) any {
	switch before := before.(type) {
	case nil:
		return value
	case []any:
		return append(before, value)
	}
	return []any{before, value}
}

// readInput reads a JSON object: from a file for "@path", from standard input for "-", or from
// the text itself.
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

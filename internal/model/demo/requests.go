package demo

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/model/llm"
)

// toolRequest is a tool call that a user's message asks for.
type toolRequest struct {
	tool  string
	input map[string]string
}

func (w toolRequest) part(id string) chat.Part {
	input, _ := json.Marshal(w.input) // strings always marshal
	return chat.ToolCall(id, w.tool, input)
}

const polite = `(?:(?:please|now|then|and|also|can you|could you|would you|first|next)[\s,]+)*`

// patterns are tried in order on each line; the first match decides.
var patterns = []struct {
	re   func() *regexp.Regexp
	tool string
	// args names the input fields in the order of the groups, each with the names
	// that it may have in the tool's schema.
	args [][]string
}{
	{lazyregexp.New("(?i)\\brun\\s+`([^`]+)`\\s+in the background\\b"), "task", [][]string{command}},
	{lazyregexp.New(`(?i)^\s*` + polite + `run\s+(.+?)\s+in the background\b`), "task", [][]string{command}},
	{lazyregexp.New(`^\s*\$\s+(.+)$`), "bash", [][]string{command}},
	{lazyregexp.New("(?i)\\brun\\s+`([^`]+)`"), "bash", [][]string{command}},
	{lazyregexp.New(`(?i)^\s*` + polite + `run\s+(.+)$`), "bash", [][]string{command}},
	{lazyregexp.New(`(?i)\blist\s+(?:all\s+|the\s+|my\s+)*files(?:\s+(?:like|matching)\s+(\S+))?`), "glob", [][]string{pattern}},
	{lazyregexp.New(`(?i)^\s*` + polite + `(?:grep|search)\s+(?:for\s+)?(.+)$`), "grep", [][]string{pattern}},
	{lazyregexp.New(`(?i)^\s*` + polite + `read\s+(?:the\s+)?(?:file\s+)?(\S+)\s*$`), "read", [][]string{path}},
}

// testSuite are not a command; findTests runs those of the workspace.
var testSuite = lazyregexp.New(`(?i)^(?:all\s+|the\s+|my\s+)*(?:unit\s+)?tests?(?:\s+suite)?$`)

const runTestsCommand = "if [ -f go.mod ]; then go test ./...; elif [ -f package.json ]; then npm test; elif [ -f Cargo.toml ]; then cargo test; " +
	"elif [ -f Makefile ]; then make test; else echo 'The workspace has no tests that I know how to run.'; fi"

// write is matched against the whole message, because its text may have several lines.
var write = lazyregexp.New(`(?is)^\s*` + polite + `write\s+(?:to\s+)?(\S+?):\s*(.*)$`)

var (
	command = []string{"command", "cmd"}
	pattern = []string{"pattern", "query", "regex"}
	path    = []string{"path", "file_path", "filePath", "file"}
	content = []string{"content", "text", "contents"}
)

// maxRequests bounds the tool calls that one message triggers.
const maxRequests = 8

// parseRequests returns the tool calls that text asks for, and a sentence for each tool
// that is not available.
func parseRequests(text string, tools []llm.ToolSpec) (found []toolRequest, missing []string) {
	add := func(tool string, args [][]string, values []string) {
		i := slices.IndexFunc(tools, func(t llm.ToolSpec) bool { return t.Name == tool })
		if i < 0 {
			if len(tools) > 0 {
				missing = append(missing, "I would use the tool `"+tool+"` for that, but it is not available.")
			}
			return
		}
		input := make(map[string]string, len(args))
		for n, names := range args {
			input[fieldName(tools[i].Schema, names)] = values[n]
		}
		if tool == "task" {
			input["action"] = "start"
			if values[0] == runTestsCommand {
				input["description"] = "the tests"
			}
		}
		if len(found) < maxRequests {
			found = append(found, toolRequest{tool: tool, input: input})
		}
	}
	if m := write().FindStringSubmatch(text); m != nil {
		add("write", [][]string{path, content}, []string{strings.Trim(m[1], "`\"'"), strings.TrimRight(m[2], "\n") + "\n"})
		return found, missing
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if tool, args, values := tourRequest(line); tool != "" {
			add(tool, args, values)
			continue
		}
		for _, p := range patterns {
			m := p.re().FindStringSubmatch(line)
			if m == nil {
				continue
			}
			value := strings.TrimSpace(m[1])
			if p.tool == "task" && testSuite().MatchString(value) {
				value = runTestsCommand
			}
			if p.tool != "bash" && p.tool != "task" {
				value = strings.Trim(value, "`\"'?!")
			} else if q, ok := strings.CutPrefix(value, "`"); ok {
				value = strings.TrimSuffix(q, "`")
			}
			if p.tool == "glob" && value == "" {
				value = "**/*"
			}
			add(p.tool, p.args, []string{value})
			break
		}
	}
	return found, missing
}

// fieldName returns the name that the tool's schema uses, or the first one.
func fieldName(schema json.RawMessage, names []string) string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) == nil {
		for _, name := range names {
			if _, ok := s.Properties[name]; ok {
				return name
			}
		}
	}
	return names[0]
}

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

// wish is a tool call that a person's words ask for.
type wish struct {
	tool  string
	input map[string]string
}

func (w wish) part(id string) chat.Part {
	input, _ := json.Marshal(w.input) // strings always marshal
	return chat.ToolCall(id, w.tool, input)
}

const polite = `(?:(?:please|now|then|and|also|can you|could you|would you|first|next)[\s,]+)*`

// patterns are tried in order on each line; the first that fits decides.
var patterns = []struct {
	re   func() *regexp.Regexp
	tool string
	// args name the input's fields, in the order of the groups; each with
	// the names that it may have in the tool's schema.
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

// theTests are not a command; findTests runs those of the workspace.
var theTests = lazyregexp.New(`(?i)^(?:all\s+|the\s+|my\s+)*(?:unit\s+)?tests?(?:\s+suite)?$`)

const findTests = "if [ -f go.mod ]; then go test ./...; elif [ -f package.json ]; then npm test; elif [ -f Cargo.toml ]; then cargo test; " +
	"elif [ -f Makefile ]; then make test; else echo 'There are no tests in the workspace that I know how to run.'; fi"

// write is tried on the whole message: its text may have several lines.
var write = lazyregexp.New(`(?is)^\s*` + polite + `write\s+(?:to\s+)?(\S+?):\s*(.*)$`)

var (
	command = []string{"command", "cmd"}
	pattern = []string{"pattern", "query", "regex"}
	path    = []string{"path", "file_path", "filePath", "file"}
	content = []string{"content", "text", "contents"}
)

// maxWishes bounds how many tools one message sets off.
const maxWishes = 8

// wishes reads what text asks for. A wish for a tool that is not there is told.
func wishes(text string, tools []llm.ToolSpec) (found []wish, missing []string) {
	add := func(tool string, args [][]string, values []string) {
		i := slices.IndexFunc(tools, func(t llm.ToolSpec) bool { return t.Name == tool })
		if i < 0 {
			if len(tools) > 0 {
				missing = append(missing, "I would use the tool `"+tool+"` for that, but I have not been given it.")
			}
			return
		}
		input := make(map[string]string, len(args))
		for n, names := range args {
			input[fieldName(tools[i].Schema, names)] = values[n]
		}
		if tool == "task" {
			input["action"] = "start"
			if values[0] == findTests {
				input["description"] = "the tests"
			}
		}
		if len(found) < maxWishes {
			found = append(found, wish{tool: tool, input: input})
		}
	}
	if m := write().FindStringSubmatch(text); m != nil {
		add("write", [][]string{path, content}, []string{strings.Trim(m[1], "`\"'"), strings.TrimRight(m[2], "\n") + "\n"})
		return found, missing
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		for _, p := range patterns {
			m := p.re().FindStringSubmatch(line)
			if m == nil {
				continue
			}
			value := strings.TrimSpace(m[1])
			if p.tool == "task" && theTests().MatchString(value) {
				value = findTests
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

// fieldName picks the name that the tool's schema uses, else the first.
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

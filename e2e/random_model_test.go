package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"lilac/internal/testkit/llmtest"
)

// price is the number of input tokens that a complete answer reports. It is far above all
// estimates for answers without usage.
const price = 1_000_000

// randomModel is a model that gives random answers and breaks off at random. It validates requests as
// strictly as the provider that it imitates.
type randomModel struct {
	server *llmtest.Server
	// mark is the sleep time of its commands, by which leftover processes are found.
	mark string

	mu      sync.Mutex // guards the fields below
	rnd     *rand.Rand
	refused []string
	whole   int // complete answers that reported their usage
	trace   []string
	// calm ends the random failures.
	calm bool
}

func (m *randomModel) answer(r llmtest.Request) llmtest.Script {
	why := refusals(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(why) > 0 {
		m.refused = append(m.refused, fmt.Sprintf("request %d: %v\n%.3000s", r.N, why, r.Body))
		return llmtest.Script{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: strings.Join(why, ", ")}
	}
	s := m.script(r)
	switch {
	case s.CutAfter > 0 || s.Status != 0 || s.Reset || s.Malformed != "" || s.NoEnd || s.ErrorType != "":
		s.Usage = llmtest.Usage{}
	case s.Usage.Input > 0:
		m.whole++
	}
	m.trace = append(m.trace, fmt.Sprintf("call %d: %.500s", r.N, fmt.Sprintf("%+v", s)))
	return s
}

func (m *randomModel) script(r llmtest.Request) llmtest.Script {
	s := llmtest.Script{
		Noise: m.oneOf(4), Delay: m.upTo(3), Wait: m.upTo(30),
		Usage: llmtest.Usage{Input: price, Output: int64(m.rnd.IntN(100)), CacheRead: int64(m.rnd.IntN(100)), CacheWrite: int64(m.rnd.IntN(100))},
	}
	words := []string{"Well. ", "Ünïcödé 👩‍👩‍👧 ", "\n\n", " ", "a\x00b", "\xff\xfe", "\u2028", "<b>&amp;</b>", "```", "\r\n", "other "}
	for range m.rnd.IntN(6) {
		s.Text = append(s.Text, pick(m.rnd, words...))
	}
	if m.calm {
		s.Text = append(s.Text, "That is all.")
		return s
	}
	if m.oneOf(4) {
		s.Reasoning = []string{"I think ", "so", "\n"}[:1+m.rnd.IntN(3)]
		s.Signature = pick(m.rnd, "", "c2lnbmF0dXJl")
	}
	if m.oneOf(10) {
		s.Redacted = "cmVkYWN0ZWQ="
	}
	if !m.oneOf(3) {
		for i := range 1 + m.rnd.IntN(1+m.rnd.IntN(5)) {
			s.Calls = append(s.Calls, m.call(r.N, i))
		}
		s.Interleave = m.oneOf(2)
	} else if !m.oneOf(3) {
		s.Text = append(s.Text, fmt.Sprint("the end of ", r.N))
	}
	return m.spoilt(s)
}

// spoilt makes one answer in three fail.
func (m *randomModel) spoilt(s llmtest.Script) llmtest.Script {
	switch m.rnd.IntN(30) {
	case 0:
		s.CutAfter = 1 + m.rnd.IntN(2500)
	case 1:
		return llmtest.Script{
			Status: pick(m.rnd, 429, 529, 500, 503, 502), RetryAfter: pick(m.rnd, "", "0.05", "-1", "soon"),
			ErrorType: "overloaded_error", ErrorMessage: "busy",
		}
	case 2:
		s.Reset = true
	case 3:
		s.Malformed = pick(m.rnd, "{", `{"type":"content_block_delta","index":77,"delta":{}}`, "null", `[]`, `{"choices":null}`, `"x"`, `{"choices":[{"index":0,"delta":{"content":5}}]}`)
	case 4:
		s.Stop = pick(m.rnd, "max_tokens", "length", "refusal", "content_filter", "pause_turn", "stop", "end_turn", "tool_use", "tool_calls")
	case 5:
		s.NoEnd = true
	case 6:
		s.ErrorType, s.ErrorMessage = pick(m.rnd, "overloaded_error", "rate_limit_error", "api_error"), "inside"
	case 7:
		s.Usage = llmtest.Usage{}
	case 8:
		s.Text, s.Calls = nil, nil
	case 9:
		s.Stop = pick(m.rnd, "max_tokens", "length")
		if n := len(s.Calls); n > 0 {
			input := s.Calls[n-1].Input
			s.Calls[n-1].Input = input[:m.rnd.IntN(len(input)+1)]
		}
	}
	return s
}

func (m *randomModel) call(n, i int) llmtest.Call {
	c := llmtest.Call{ID: fmt.Sprintf("call_%d_%d", n, i), Name: "bash", Pieces: 1 + m.rnd.IntN(4)}
	if m.oneOf(4) {
		c.ID = pick(m.rnd, "same", "", "functions.bash:0")
	}
	if m.oneOf(8) {
		c.Input = pick(m.rnd, "", "{", "[]", "null", "5", `{} {}`, `{"command":5}`, `{"command":"echo \ud83d"}`, `{"command":"echo \udc00\ud800","x":{}}`,
			`{"command":"true","command":"false"}`, `{"command":"echo \u0000 x"}`, "{\"command\":\"echo \xff\"}", `{"timeout":-1,"command":"true"}`, `{"command":"true","timeout":1e99}`)
		return c
	}
	input := map[string]any{"timeout": 1 + m.rnd.IntN(3), "command": pick(m.rnd,
		"echo hello", "sleep 0.3; echo slept", "exit 7", "kill -9 $$", "cd /tmp; pwd", "echo a >> log.txt; wc -l log.txt",
		"sleep "+m.mark+" & echo back", "setsid sleep "+m.mark+" >/dev/null 2>&1 & disown; echo daemon", "( sleep "+m.mark+" & ) ; cat",
		"trap '' TERM INT HUP; sleep 0.4; echo deaf", "trap '' TERM; sleep "+m.mark, "exec 1>&-; echo closed",
		"yes | head -c 300000", "head -c 20000 /dev/urandom", `printf '\xff\x00\x1b[31m'`,
		`rm -rf ./* .[a-z]*; echo gone`, `touch -- $'odd\nname' '-rf' $'\xff\xfe' ' '; ls`, "mv ~ /tmp/x; rm -rf ~; cd ~; pwd",
		"mkdir -p a/b/c; ln -sf /etc/passwd a/link; ln -sfn . a/self", "chmod 000 . ; ls", "chmod 700 .; ls",
	)}
	if m.oneOf(3) {
		path := pick(m.rnd, "a.txt", "b/c.txt", "../x", "/etc/passwd", "a/link", "a/self/a/self/x", "", "odd\nname", "log.txt", ".", "~/z", strings.Repeat("n", 300))
		c.Name = pick(m.rnd, "write", "read", "edit", "grep", "glob", "task")
		input = map[string]any{
			"path": path, "content": strings.Repeat("line\n", m.rnd.IntN(50)), "offset": m.rnd.IntN(10) - 2, "limit": m.rnd.IntN(10) - 2,
			"old_string": "line", "new_string": "l", "replace_all": m.oneOf(2), "pattern": pick(m.rnd, "l.*", "(", "", "a{1000}", "**", "[", "../*"),
			"action": "start", "command": "sleep 0.2; echo task",
		}
	}
	if m.oneOf(5) {
		c.Name = pick(m.rnd, "nothing", "multi_tool_use.parallel", "functions.bash", "Bash ", "bäsh", strings.Repeat("long", 40), "a b\n")
	}
	raw, _ := json.Marshal(input) // strings and numbers always encode
	c.Input = string(raw)
	return c
}

// oneOf returns true once in n times on average.
func (m *randomModel) oneOf(n int) bool { return m.rnd.IntN(n) == 0 }

func (m *randomModel) upTo(ms int) time.Duration {
	return time.Duration(m.rnd.IntN(ms+1)) * time.Millisecond
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

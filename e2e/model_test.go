package e2e_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/agent/sandbox"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/webuitest"
)

// besideEachOther is how many tests run in parallel per CPU. Tests mostly wait for their
// processes.
const besideEachOther = 4

func TestMain(m *testing.M) {
	sandbox.Enter()
	effort.SideBySide(many(besideEachOther, 1) * runtime.GOMAXPROCS(0))
	effort.SkipWholeProgram()
	closeBrowser := webuitest.Share()
	code := m.Run()
	closeBrowser()
	e2e.RemoveBinary()
	if err := e2e.RemovePostgres(); err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// The texts of the model with a tool: before the call, and at the end.
const (
	toolModelStart  = "I append a line to the file, as you asked me to. "
	toolModelEnd    = "The line is there, and that is the end of it."
	toolModelAnswer = toolModelStart + "\n\n" + toolModelEnd
)

// unknownOutcome starts the result of a tool call that a crash interrupted.
const unknownOutcome = "outcome is unknown"

// toolModel gives the same conversation to each prompt: text and a bash call that appends a line
// to a file; then, after the tool result, the end.
type toolModel struct {
	server *llmtest.Server

	mu      sync.Mutex
	steps   []int // for each step, how often a model call was completed
	unknown bool
}

func newToolModel(t testing.TB, change ...func(*llmtest.Options)) *toolModel {
	m := &toolModel{steps: make([]int, 2)}
	m.server = llmtest.New(t, m.answer, change...)
	return m
}

func (m *toolModel) answer(r llmtest.Request) llmtest.Script {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := r.Messages[len(r.Messages)-1]
	if len(last.Results) == 0 {
		m.steps[0]++
		return llmtest.Script{
			Text: llmtest.Words(toolModelStart), Delay: 2 * time.Millisecond,
			Calls: []llmtest.Call{{ID: "call-1", Name: "bash", Input: `{"command":"echo line >> count.txt"}`, Pieces: 3}},
		}
	}
	m.steps[1]++
	for _, text := range last.Results {
		m.unknown = m.unknown || strings.Contains(text, unknownOutcome)
	}
	return llmtest.Script{Text: llmtest.Words(toolModelEnd), Delay: 2 * time.Millisecond}
}

func (m *toolModel) env() []string { return modelEnv(m.server.URL) }

func modelEnv(url string) []string {
	return []string{"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=test", "LILAC_MODEL=openai/test-model"}
}

func (m *toolModel) toldUnknown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unknown
}

// calls returns how often each step's model call was made.
func (m *toolModel) calls() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]int(nil), m.steps...)
}

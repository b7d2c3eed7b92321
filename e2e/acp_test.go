package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// editor is the client of the protocol's library. It answers every question with the option
// that choose names.
type editor struct {
	choose string

	mu    sync.Mutex
	text  string
	user  string
	tools []string
	asked []string
}

func (e *editor) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch u := n.Update; {
	case u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.Text != nil:
		e.text += u.AgentMessageChunk.Content.Text.Text
	case u.UserMessageChunk != nil:
		e.user += u.UserMessageChunk.Content.Text.Text
	case u.ToolCall != nil:
		e.tools = append(e.tools, u.ToolCall.Title)
	case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
		e.tools = append(e.tools, string(*u.ToolCallUpdate.Status))
	}
	return nil
}

func (e *editor) RequestPermission(_ context.Context, p sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, *p.ToolCall.Title)
	for _, o := range p.Options {
		if o.Name == e.choose {
			return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeSelected(o.OptionId)}, nil
		}
	}
	return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeCancelled()}, nil
}

func (e *editor) shown() (text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text
}

func (*editor) ReadTextFile(context.Context, sdk.ReadTextFileRequest) (sdk.ReadTextFileResponse, error) {
	return sdk.ReadTextFileResponse{}, sdk.NewMethodNotFound("fs/read_text_file")
}

func (*editor) WriteTextFile(context.Context, sdk.WriteTextFileRequest) (sdk.WriteTextFileResponse, error) {
	return sdk.WriteTextFileResponse{}, sdk.NewMethodNotFound("fs/write_text_file")
}

func (*editor) CreateTerminal(context.Context, sdk.CreateTerminalRequest) (sdk.CreateTerminalResponse, error) {
	return sdk.CreateTerminalResponse{}, sdk.NewMethodNotFound("terminal/create")
}

func (*editor) KillTerminal(context.Context, sdk.KillTerminalRequest) (sdk.KillTerminalResponse, error) {
	return sdk.KillTerminalResponse{}, sdk.NewMethodNotFound("terminal/kill")
}

func (*editor) TerminalOutput(context.Context, sdk.TerminalOutputRequest) (sdk.TerminalOutputResponse, error) {
	return sdk.TerminalOutputResponse{}, sdk.NewMethodNotFound("terminal/output")
}

func (*editor) ReleaseTerminal(context.Context, sdk.ReleaseTerminalRequest) (sdk.ReleaseTerminalResponse, error) {
	return sdk.ReleaseTerminalResponse{}, sdk.NewMethodNotFound("terminal/release")
}

func (*editor) WaitForTerminalExit(context.Context, sdk.WaitForTerminalExitRequest) (sdk.WaitForTerminalExitResponse, error) {
	return sdk.WaitForTerminalExitResponse{}, sdk.NewMethodNotFound("terminal/wait_for_exit")
}

// acpCommand is "lilac acp" for a server.
func acpCommand(t testing.TB, s *e2e.Server) *exec.Cmd {
	cmd := exec.Command(e2e.Binary(t), "acp", "--addr", s.Addr, "--data", filepath.Join(s.Dir, "data"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "LILAC_TOKEN=" + e2e.Token}
	return cmd
}

// connect starts "lilac acp" as an editor does. close ends it.
func (e *editor) connect(t testing.TB, s *e2e.Server) (conn *sdk.ClientSideConnection, closed func()) {
	t.Helper()
	cmd := acpCommand(t, s)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn = sdk.NewClientSideConnection(e, in, out)
	closed = sync.OnceFunc(func() {
		_ = in.Close()
		<-conn.Done()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the command: %v", err)
		}
	})
	t.Cleanup(closed)
	hello, err := conn.Initialize(t.Context(), sdk.InitializeRequest{ProtocolVersion: sdk.ProtocolVersionNumber})
	if err != nil || hello.ProtocolVersion != 1 || !hello.AgentCapabilities.LoadSession {
		t.Fatalf("%+v, %v", hello, err)
	}
	return conn, closed
}

func say(id sdk.SessionId, blocks ...sdk.ContentBlock) sdk.PromptRequest {
	return sdk.PromptRequest{SessionId: id, Prompt: blocks}
}

// An editor asks, approves a command, stops an answer, and finds the conversation again. What
// runs when it goes away continues.
func TestAnEditorTalksOverACP(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	hold, held := make(chan struct{}), make(chan struct{}, 8)
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case len(last.Results) > 0:
			return llmtest.Say("It ran.")
		case strings.Contains(last.Text, "run"):
			return llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: "bash", Input: `{"command":"echo out of the command"}`}}}
		case strings.Contains(last.Text, "wait for me"):
			held <- struct{}{}
			<-hold
			return llmtest.Say("Beginning. End.")
		case strings.Contains(last.Text, "wait"):
			return llmtest.Script{Text: []string{"Beginning. "}, Hang: true}
		}
		return llmtest.Say("I heard: " + last.Text)
	})
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("policy: [{tool: bash, where: acp, do: ask}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.Start(t, append(modelEnv(model.URL), "LILAC_CONFIG="+file)...)
	e := &editor{choose: "Allow once"}
	conn, closed := e.connect(t, s)
	began, err := conn.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: "/", McpServers: []sdk.McpServer{}})
	if err != nil || len(began.ConfigOptions) != 2 {
		t.Fatalf("%+v, %v", began, err)
	}
	id := began.SessionId
	picture := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	out, err := conn.Prompt(t.Context(), say(id, sdk.TextBlock("hello"), sdk.ResourceLinkBlock("a.go", "file:///a.go"), sdk.ImageBlock(picture, "image/png")))
	if err != nil || out.StopReason != sdk.StopReasonEndTurn || !strings.Contains(e.shown(), "I heard: hello\n\n[a.go](file:///a.go)") {
		t.Fatalf("%+v, %v: %q", out, err, e.shown())
	}
	if out, err = conn.Prompt(t.Context(), say(id, sdk.TextBlock("run it"))); err != nil || out.StopReason != sdk.StopReasonEndTurn || !strings.HasSuffix(e.shown(), "It ran.") {
		t.Fatalf("%+v, %v: %q", out, err, e.shown())
	}
	if len(e.asked) != 1 || strings.Join(e.tools, "|") == "" || e.tools[len(e.tools)-1] != "completed" {
		t.Errorf("asked %q, tools %q", e.asked, e.tools)
	}

	stopped := make(chan error, 1)
	go func() {
		out, err := conn.Prompt(context.WithoutCancel(t.Context()), say(id, sdk.TextBlock("wait")))
		if err == nil && out.StopReason != sdk.StopReasonCancelled {
			t.Errorf("a cancelled prompt ended with %s", out.StopReason)
		}
		stopped <- err
	}()
	e2e.Eventually(t, answerWithin, "the answer begins", func() bool { return strings.HasSuffix(e.shown(), "Beginning. ") })
	if err := conn.Cancel(t.Context(), sdk.CancelNotification{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("a cancelled prompt: %v", err)
	}

	// The editor goes away during an answer, which continues, and reads it later.
	go func() { _, _ = conn.Prompt(context.WithoutCancel(t.Context()), say(id, sdk.TextBlock("wait for me"))) }()
	<-held
	closed()
	close(hold)
	later := &editor{}
	again, _ := later.connect(t, s)
	list, err := again.ListSessions(t.Context(), sdk.ListSessionsRequest{})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionId != id {
		t.Errorf("%+v, %v", list, err)
	}
	e2e.Eventually(t, answerWithin, "the answer is complete", func() bool {
		messages := s.Messages(string(id))
		return strings.HasSuffix(messages[len(messages)-1].Text(), "Beginning. End.")
	})
	if _, err := again.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: id, Cwd: "/", McpServers: []sdk.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, answerWithin, "the conversation is shown", func() bool { return strings.HasSuffix(later.shown(), "Beginning. End.") })
	if !strings.Contains(later.user, "hello") || !strings.Contains(later.shown(), "It ran.") {
		t.Errorf("user %q, agent %q", later.user, later.shown())
	}

	// Bad input gets an error, and the connection goes on.
	if _, err := again.Prompt(t.Context(), say("nobody", sdk.TextBlock("x"))); err == nil {
		t.Error("a prompt of an unknown conversation was accepted")
	}
	if _, err := again.Prompt(t.Context(), say(id, sdk.TextBlock(" "))); err == nil {
		t.Error("an empty prompt was accepted")
	}
	if _, err := again.SetSessionConfigOption(t.Context(), sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{SessionId: id, ConfigId: "model", Value: "no/such"}}); err == nil {
		t.Error("an unknown model was chosen")
	}
	if out, err := again.Prompt(t.Context(), say(id, sdk.TextBlock("still there"))); err != nil || out.StopReason != sdk.StopReasonEndTurn {
		t.Errorf("%+v, %v", out, err)
	}
}

// acpPeerEnv names a directory in which the protocol's TypeScript library is installed.
const acpPeerEnv = "LILAC_TEST_ACP_PEER"

// The protocol's own TypeScript library, which editors use, talks to "lilac acp".
func TestTheTypeScriptLibraryTalksOverACP(t *testing.T) {
	dir := os.Getenv(acpPeerEnv)
	if dir == "" {
		t.Skip("needs a library from npm: npm install --prefix DIR @agentclientprotocol/sdk@2.4.0; then set " + acpPeerEnv + "=DIR")
	}
	t.Parallel()
	model := llmtest.New(t, func(llmtest.Request) llmtest.Script { return llmtest.Say("I heard you.") })
	s := e2e.Start(t, modelEnv(model.URL)...)
	command := acpCommand(t, s)
	script := filepath.Join(dir, "lilac-acp-test.mjs")
	if err := os.WriteFile(script, []byte(acpScript), 0o600); err != nil {
		t.Fatal(err)
	}
	node := exec.Command("node", append([]string{script, command.Path}, command.Args[1:]...)...)
	node.Env = command.Env
	var problems strings.Builder
	node.Stderr = &problems
	output, err := node.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, output, problems.String())
	}
	var got struct{ Stop, Text string }
	if err := json.Unmarshal(output, &got); err != nil || got.Stop != "end_turn" || got.Text != "I heard you." {
		t.Errorf("%s, %v", output, err)
	}
}

const acpScript = `
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const child = spawn(process.argv[2], process.argv.slice(3), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
let text = "";
const editor = acp.client({ name: "test" }).onNotification(acp.methods.client.session.update, ({ params }) => {
  if (params.update.sessionUpdate === "agent_message_chunk") text += params.update.content.text;
});
await editor.connectWith(stream, async (agent) => {
  await agent.request(acp.methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const { sessionId } = await agent.request(acp.methods.agent.session.new, { cwd: "/", mcpServers: [] });
  const { stopReason } = await agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: "hello" }] });
  console.log(JSON.stringify({ stop: stopReason, text }));
});
child.stdin.end();
`

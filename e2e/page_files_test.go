package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// drawing returns a visible PNG.
func drawing(t *testing.T) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 200, 100))
	for x := range 200 {
		for y := range 100 {
			m.Set(x, y, color.RGBA{200, uint8(x), uint8(2 * y), 255})
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// pictures returns the names of the pictures that the page shows.
const pictures = "[...document.querySelectorAll('#transcript .picture')].filter(p => p.firstChild.complete && p.firstChild.naturalWidth === 200).map(p => p.title).join()"

// A user adds a picture on the page. The agent reads it and sends back a picture and a table. All
// of them are still there after a reload and after a kill.
func TestAPictureGoesInAndComesBackOnThePage(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model, _ := steps(t, "Here they are.", fixed("write", map[string]string{"path": "report.csv", "content": "a,b\n1,2\n"}),
			fixed("attachment_download", map[string]any{}), sendBack)
		s := e2e.Start(t, append(bus(t), modelEnv(model.URL)...)...)
		p := loginTo(t, s)
		file := filepath.Join(t.TempDir(), "mine.png")
		if err := os.WriteFile(file, drawing(t), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Do(chromedp.SetUploadFiles("#picker", []string{file}))
		p.Until("the file is listed", "document.querySelector('#files')?.innerText.includes('mine.png')")
		p.Say("send it back, with a table")
		p.Until("the answer is over", lastState+" === 'done'")
		whole := func() {
			t.Helper()
			p.Until("both pictures are seen", pictures+" === 'mine.png,yours.png'")
			p.Until("the table can be saved", "document.querySelector('.given a.file[download=\"report.csv\"]')")
		}
		whole()
		p.Picture("page-files", false)
		p.Do(chromedp.Evaluate[chromedp.Void]("fetch(document.querySelector('.given a.file').href).then(async (r) => { window.saved = r.headers.get('Content-Disposition') + ' ' + await r.text(); }); 0"))
		p.Until("saving it gives its content", `window.saved === "attachment; filename=report.csv a,b\n1,2\n"`)
		p.Do(chromedp.Reload())
		whole()
		s.Kill()
		s.Restart()
		p.Do(chromedp.Reload())
		whole()
	})
}

// The API serves the files that it received, but only with the token and within their session.
func TestFilesOfTheAPIComeBackByTheirAddress(t *testing.T) {
	t.Parallel()
	model, _ := steps(t, "Done.", fixed("attachment_download", map[string]any{}), sendBack)
	s := e2e.Start(t, modelEnv(model.URL)...)
	session, other := s.NewSession(), s.NewSession()
	if err := os.WriteFile(filepath.Join(s.Workspace(session), "report.csv"), []byte("a,b"), 0o600); err != nil {
		t.Fatal(err)
	}
	var answer struct{ RequestID string }
	body := map[string]any{"content": "back, please", "attachments": []map[string]string{{"filename": "x.html", "mimeType": "text/html", "text": "<script>alert(1)</script>"}}}
	if status := s.Request("POST", "/sessions/"+session+"/prompt", body, &answer); status != http.StatusOK {
		t.Fatalf("the prompt: %d", status)
	}
	s.WaitEnded(answer.RequestID, answerWithin)
	var history struct {
		Files []struct{ RequestID, Filename, MimeType, URL string }
	}
	s.Request("GET", "/sessions/"+session+"/messages", nil, &history)
	if len(history.Files) != 2 || history.Files[0].Filename != "report.csv" || history.Files[1].RequestID != answer.RequestID {
		t.Fatalf("the files are %+v", history.Files)
	}
	get := func(path, token string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	back := history.Files[1].URL
	resp, text := get(back, e2e.Token)
	if resp.StatusCode != http.StatusOK || text != "<script>alert(1)</script>" || resp.Header.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment;") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %q %v", resp.StatusCode, text, resp.Header)
	}
	if resp, _ := get(back, "nope"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %d", resp.StatusCode)
	}
	if resp, _ := get(strings.Replace(back, session, other, 1), e2e.Token); resp.StatusCode != http.StatusNotFound {
		t.Errorf("in another session: %d", resp.StatusCode)
	}
}

// A command of the agent can do the same as the tools.
func TestACommandGivesAndTakesFiles(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	const script = `mkdir -p sub && cd sub && echo out > a.txt && cd .. && tools attachment.add --paths=sub/a.txt --filenames=b.txt --output=json; tools attachment.add --path=/etc/passwd; echo "exit code $?"; tools attachment.download --downloadDir=in --output=json`
	told := make(chan string, 1)
	model, _ := steps(t, "Done.", fixed("bash", map[string]string{"command": script}), func(result string) llmtest.Call {
		select {
		case told <- result:
		default: // asked again
		}
		return fixed("glob", map[string]string{"pattern": "in/*"})(result)
	})
	s := e2e.Start(t, modelEnv(model.URL)...)
	session := s.NewSession()
	var answer struct{ RequestID string }
	s.Request("POST", "/sessions/"+session+"/prompt", map[string]any{"content": "go", "attachments": []map[string]string{{"filename": "n.txt", "text": "note"}}}, &answer)
	s.WaitEnded(answer.RequestID, answerWithin)
	text := <-told
	for _, want := range []string{`"filename":"b.txt"`, `"bytes":4`, "outside the workspace", "exit code 3", `"sha10"`} {
		if !strings.Contains(strings.ReplaceAll(text, ": ", ":"), strings.ReplaceAll(want, ": ", ":")) {
			t.Errorf("the command's output lacks %q:\n%s", want, text)
		}
	}
	if got, _ := filepath.Glob(filepath.Join(s.Workspace(session), "in", "*.txt")); len(got) != 1 {
		t.Errorf("downloaded: %q", got)
	}
	var given []event.BinaryOutput
	for _, e := range s.WholeOutput(answer.RequestID, answerWithin) {
		if e.Type != event.OutputResponseBinary {
			continue
		}
		var f event.BinaryOutput
		if err := json.Unmarshal(e.Data, &f); err != nil {
			t.Fatal(err)
		}
		given = append(given, f)
	}
	if len(given) != 1 || given[0].Filename != "b.txt" || given[0].Blob == "" || given[0].DataBase64 != "" {
		t.Errorf("the output has %s", fmt.Sprint(given))
	}
}

// A command that sends a file is interrupted, and the model sends the file again. Users see it
// once. With a different name, it is a different file.
func TestAFileThatIsGivenAgainIsShownOnce(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			command := "echo out > a.txt; tools attachment.add --path=a.txt"
			for _, result := range r.Messages[len(r.Messages)-1].Results {
				switch {
				case strings.Contains(result, unknownOutcome): // the same again
				case strings.Contains(result, "b.txt"):
					return llmtest.Say("Done.")
				default:
					command = "tools attachment.add --path=a.txt --filename=b.txt"
				}
			}
			return llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprintf("call-%d", r.N), Name: "bash", Input: `{"command":"` + command + `"}`}}}
		})
		s := e2e.New(t, append(bus(t), modelEnv(model.URL)...)...)
		s.Restart("LILAC_KILL_AT=record:tool_end")
		session := s.NewSession()
		a := promptAndKill(t, s, session, "go")
		s.WaitEnded(a.RequestID, answerWithin)
		var names []string
		for _, e := range s.WholeOutput(a.RequestID, answerWithin) {
			if p, err := event.Decode(e); err != nil {
				t.Fatal(err)
			} else if f, ok := p.(event.BinaryOutput); ok {
				names = append(names, f.Filename)
			}
		}
		if got := strings.Join(names, " "); got != "a.txt b.txt" {
			t.Errorf("the output has the files %s", got)
		}
	})
}

package terminal

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lilac/internal/core/session"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
	"lilac/internal/operate/transcript"
)

const (
	// historyPage is the number of messages that are shown of an old conversation.
	historyPage = 60
	// listPage is the number of conversations to choose from.
	listPage = 100
	// maxFile limits an attachment, in bytes, like the server.
	maxFile = 10 << 20
	// maxNames limits the completions of a path.
	maxNames = 40
)

// do carries out one effect and returns its result.
func (s *service) do(e Effect) tea.Msg {
	switch e := e.(type) {
	case Open:
		return s.open(e.Session)
	case Create:
		created, err := s.o.Server.CreateSession(s.ctx, "terminal", "")
		if err != nil {
			return Opened{Err: err}
		}
		cursor, err := s.o.Server.Now(s.ctx, created.ID, s.waiting)
		return Opened{Session: created.ID, Title: created.Title, Model: modelOf(created), Cursor: cursor, Err: err}
	case Follow:
		s.follow(e.Session, e.Cursor)
		return nil
	case Recall:
		return s.recall()
	case Send:
		return s.send(e)
	case Stop:
		return Done{Err: s.o.Server.Cancel(s.ctx, e.Session, e.Request)}
	case Answer:
		return Done{Err: s.answer(e)}
	case Choose:
		chosen, err := s.o.Server.Choose(s.ctx, e.Session, map[string]string{"model": e.Model, "effort": e.Effort})
		return Chosen{Model: modelOf(chosen), Err: err}
	case List:
		return s.list(e)
	case Find:
		return Found{Prefix: e.Prefix, Names: s.find(e.Prefix)}
	case Export:
		return s.export(e)
	case Check:
		why := s.o.Server.OutageReason(s.ctx)
		if why == nil || s.ctx.Err() != nil {
			return Outage{}
		}
		return Outage{Reason: fault.ToWire(why).Message}
	}
	return nil
}

func (s *service) answer(e Answer) error {
	in := map[string]any{"pause": e.Number, "answer": e.Answer, "reply": e.Reply}
	return s.o.Server.Call(s.ctx, "POST", "/requests/"+url.PathEscape(e.Request)+"/answer", in, nil)
}

func (s *service) waiting(why error) { s.program.Send(Outage{Reason: fault.ToWire(why).Message}) }

func modelOf(s session.Session) string { return strings.TrimSpace(s.Model + " " + s.Effort) }

// open loads the newest messages of a conversation, and then its questions: the stream after the
// messages has the later questions.
func (s *service) open(id string) Opened {
	history, err := s.o.Server.Messages(s.ctx, id, client.Page{Limit: historyPage})
	if err == nil && history.Cursor == "" {
		if history.Cursor, err = s.o.Server.Now(s.ctx, id, s.waiting); err == nil {
			history, err = s.o.Server.Messages(s.ctx, id, client.Page{Limit: historyPage})
		}
	}
	if err != nil {
		return Opened{Err: err}
	}
	var stored struct {
		session.Session
		Questions []session.TaskQuestion
	}
	if err := s.o.Server.Call(s.ctx, "GET", "/sessions/"+url.PathEscape(id), nil, &stored); err != nil {
		return Opened{Err: err}
	}
	opened := Opened{Session: id, Title: stored.Title, Model: modelOf(stored.Session), Cursor: history.Cursor, History: transcript.Of(history, true)}
	if stored.Paused != nil {
		stored.Questions = append([]session.TaskQuestion{{RequestID: stored.ActiveRequest, Paused: stored.Paused}}, stored.Questions...)
	}
	for _, q := range stored.Questions {
		pause, err := json.Marshal(q.Paused)
		if err != nil {
			return Opened{Err: err}
		}
		opened.Questions = append(opened.Questions, OpenQuestion{Request: q.RequestID, Task: q.Description, Pause: pause})
	}
	return opened
}

// recall returns the messages of the newest conversation of a terminal. Nothing is stored
// on this machine, so they are the same wherever the user logs in.
func (s *service) recall() tea.Msg {
	sessions, _, err := s.o.Server.Sessions(s.ctx, client.Page{Limit: 20})
	if err != nil {
		return nil // without it, the up key recalls only what is typed now
	}
	i := slices.IndexFunc(sessions, func(one session.Session) bool { return one.Client == "terminal" })
	if i < 0 || sessions[i].ID == s.o.Session {
		return nil
	}
	history, err := s.o.Server.Messages(s.ctx, sessions[i].ID, client.Page{Limit: historyPage})
	if err != nil {
		return nil
	}
	var texts []string
	for _, e := range transcript.Of(history, true) {
		if e.Kind == "user" {
			texts = append(texts, e.Text)
		}
	}
	return Recalled{texts}
}

// send sends a message with the files that it mentions. What looks like a mention and is
// no file stays text.
func (s *service) send(e Send) Sent {
	message := client.Message{Content: e.Text, Queue: e.Queue}
	sent := Sent{Ref: e.Ref}
	for _, path := range mentions(e.Text) {
		name, data, err := s.read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			sent.Err = err
			return sent
		}
		message.Attachments = append(message.Attachments, client.Attachment{Filename: name, DataBase64: base64.StdEncoding.EncodeToString(data)})
		sent.Files = append(sent.Files, name)
	}
	accepted, err := s.o.Server.Send(s.ctx, e.Session, message)
	sent.RequestID, sent.MessageID, sent.Err = accepted.RequestID, accepted.MessageID, err
	return sent
}

// path returns the path of this machine that the user means.
func (s *service) path(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.o.Dir, path)
}

// read reads an attachment. Punctuation after the path belongs to the sentence if there is
// no such file. The error is fs.ErrNotExist for what is not a file.
func (s *service) read(mentioned string) (name string, data []byte, err error) {
	info, err := os.Stat(s.path(mentioned))
	if trimmed := strings.TrimRight(mentioned, ".,;:!?)"); err != nil && trimmed != mentioned && trimmed != "" {
		mentioned = trimmed
		info, err = os.Stat(s.path(mentioned))
	}
	if err != nil || !info.Mode().IsRegular() {
		return "", nil, fs.ErrNotExist
	}
	if info.Size() > maxFile {
		return "", nil, fault.New(fault.TooLarge, "%s has %s; an attachment has at most %s.", mentioned, size(info.Size()), size(maxFile))
	}
	f, err := os.Open(s.path(mentioned))
	if err != nil {
		return "", nil, fault.Wrap(fault.Invalid, err, "%s cannot be read", mentioned)
	}
	defer f.Close()
	if data, err = io.ReadAll(io.LimitReader(f, maxFile)); err != nil {
		return "", nil, fault.Wrap(fault.Invalid, err, "%s cannot be read", mentioned)
	}
	return filepath.Base(mentioned), data, nil
}

// find returns the paths that begin with a prefix; folders end in a slash. Hidden files
// need a dot.
func (s *service) find(prefix string) (names []string) {
	dir, base := filepath.Split(prefix)
	list, err := os.ReadDir(s.path(cmp.Or(dir, ".")))
	if err != nil {
		return nil
	}
	for _, entry := range list {
		name := entry.Name()
		if !strings.HasPrefix(strings.ToLower(name), strings.ToLower(base)) || name[0] == '.' && !strings.HasPrefix(base, ".") {
			continue
		}
		if entry.IsDir() {
			name += "/"
		}
		if names = append(names, dir+name); len(names) == maxNames {
			break
		}
	}
	return names
}

// list loads what a menu or a command shows.
func (s *service) list(e List) Listed {
	out := Listed{What: e.What}
	switch e.What {
	case "model":
		list, err := s.o.Server.Models(s.ctx)
		out.Err, out.Items = err, modelItems(list)
	case "session":
		sessions, _, err := s.o.Server.Sessions(s.ctx, client.Page{Limit: listPage})
		out.Err = err
		for _, one := range sessions {
			if one.ID != e.Session {
				out.Items = append(out.Items, Item{Value: one.ID, Label: cmp.Or(one.Title, "(untitled)"), Detail: age(time.Since(time.UnixMilli(one.UpdatedAt))) + " · " + one.Client + running(one)})
			}
		}
	case "rules":
		out.Text, out.Err = s.rules()
	case "tasks":
		out.Text, out.Err = s.tasks(e.Session)
	}
	return out
}

func running(s session.Session) string {
	if s.State == "running" {
		return " · running"
	}
	return ""
}

// age says how long ago something was.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// export writes all messages of a conversation to a new file.
func (s *service) export(e Export) Done {
	pages, err := transcript.Pages(func(before string, limit int) (client.History, error) {
		return s.o.Server.Messages(s.ctx, e.Session, client.Page{Limit: limit, Before: before})
	})
	if err != nil {
		return Done{Err: err}
	}
	var all []transcript.Entry
	for _, page := range pages {
		all = append(all, transcript.Of(page, false)...)
	}
	path := s.path(e.Path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return Done{Err: fault.New(fault.Conflict, "%s exists already. Choose another name: /export FILE", e.Path)}
	}
	if err == nil {
		_, err = io.WriteString(f, transcript.Markdown(e.Title, all))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return Done{Err: fault.Wrap(fault.Invalid, err, "The conversation cannot be written to %s", e.Path)}
	}
	return Done{Note: "Written to " + path}
}

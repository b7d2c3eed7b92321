package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/bus"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/httpapi"
)

// Page selects a page of a list: at most Limit entries, older than the entry with the
// id Before, or after the page whose next is Before.
type Page struct {
	Limit  int
	Before string
}

func (p Page) query() url.Values {
	v := url.Values{}
	if p.Limit > 0 {
		v.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Before != "" {
		v.Set("before", p.Before)
	}
	return v
}

func withQuery(path string, v url.Values) string {
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// CreateSession creates a conversation of the named client.
func (c *Client) CreateSession(ctx context.Context, client, title string) (session.Session, error) {
	in := map[string]string{"client": client}
	if title != "" {
		in["title"] = title
	}
	var out session.Session
	err := c.Call(ctx, "POST", "/sessions", in, &out)
	return out, err
}

// Sessions lists conversations, most recently used first. Next is the Before of the
// next page, or "".
func (c *Client) Sessions(ctx context.Context, p Page) (sessions []session.Session, next string, err error) {
	var out struct {
		Sessions []session.Session
		Next     string
	}
	err = c.Call(ctx, "GET", withQuery("/sessions", p.query()), nil, &out)
	return out.Sessions, out.Next, err
}

// Session returns one conversation.
func (c *Client) Session(ctx context.Context, id string) (session.Session, error) {
	var out session.Session
	err := c.Call(ctx, "GET", "/sessions/"+url.PathEscape(id), nil, &out)
	return out, err
}

// Choose changes what people chose for a session, such as the model; see
// PATCH /sessions/{id}.
func (c *Client) Choose(ctx context.Context, id string, change map[string]string) (s session.Session, err error) {
	err = c.Call(ctx, http.MethodPatch, "/sessions/"+url.PathEscape(id), change, &s)
	return s, err
}

// Models returns the models to choose from.
func (c *Client) Models(ctx context.Context) (list httpapi.ModelList, err error) {
	err = c.Call(ctx, http.MethodGet, "/models", nil, &list)
	return list, err
}

// DeleteSession deletes a conversation and its history.
func (c *Client) DeleteSession(ctx context.Context, id string) error {
	return c.Call(ctx, "DELETE", "/sessions/"+url.PathEscape(id), nil, nil)
}

// History is a page of a session's messages, oldest first, as JSON.
type History struct {
	Messages []json.RawMessage `json:"messages"`
	// Cursor is the position of the page in the event stream: [Client.Events] after it
	// returns everything that the page does not contain. It is empty while the bus is
	// unavailable; Waiting then says why.
	Cursor  string `json:"cursor"`
	Waiting string `json:"waiting"`
	// Running are the requests that run, or began while the page was read. The stream after Cursor
	// has their output from its beginning.
	Running []string `json:"running"`
}

// Messages returns the newest messages of a conversation.
func (c *Client) Messages(ctx context.Context, id string, p Page) (History, error) {
	var out History
	err := c.Call(ctx, "GET", withQuery("/sessions/"+url.PathEscape(id)+"/messages", p.query()), nil, &out)
	return out, err
}

// Now returns a cursor for [Client.Events] that starts now. While the bus is
// unavailable, it retries for as long as [Client.Events] does, and calls waiting once
// with the reason. It does not retry if no server answers.
func (c *Client) Now(ctx context.Context, id string, waiting func(why error)) (cursor string, err error) {
	for attempt, deadline := 0, time.Now().Add(c.patience); ; attempt++ {
		h, err := c.Messages(ctx, id, Page{Limit: 1})
		if err == nil && h.Waiting != "" {
			err = fault.New(fault.Unavailable, "%s", h.Waiting)
		}
		if !isAway(err) || NoServer(err) || time.Now().After(deadline) {
			return h.Cursor, err
		}
		if attempt == 0 {
			waiting(err)
		}
		if !delay.Wait(ctx, c.pause(attempt)) {
			return "", err
		}
	}
}

// Accepted is the response to a prompt.
type Accepted struct {
	RequestID string `json:"requestId"`
	MessageID string `json:"messageId"`
}

// promptPatience limits the time for which Send retries while no server answers.
const promptPatience = 10 * time.Second

// Message is a message to a conversation.
type Message struct {
	Content     string       `json:"content"`
	Queue       event.Queue  `json:"queue"`
	Attachments []Attachment `json:"attachments,omitempty"`
}

// Attachment is a file of a message. The server limits its size.
type Attachment struct {
	// Filename has no path.
	Filename   string `json:"filename"`
	DataBase64 string `json:"dataBase64"`
}

// Prompt sends a message without files; see [Client.Send].
func (c *Client) Prompt(ctx context.Context, id, content string, queue event.Queue) (Accepted, error) {
	return c.Send(ctx, id, Message{Content: content, Queue: queue})
}

// Send sends a message to a conversation. It retries if the connection fails; the server
// accepts the message once.
func (c *Client) Send(ctx context.Context, id string, in Message) (Accepted, error) {
	key := rand.Text()
	var out Accepted
	for attempt, deadline := 0, time.Now().Add(promptPatience); ; attempt++ {
		err := c.Call(ctx, "POST", "/sessions/"+url.PathEscape(id)+"/prompt", in, &out, "Idempotency-Key", key)
		if !isAway(err) || time.Now().After(deadline) || !delay.Wait(ctx, c.pause(attempt)) {
			return out, err
		}
	}
}

func isAway(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Kind == fault.Unavailable
}

// Cancel stops a request of a conversation; "" means the running one.
func (c *Client) Cancel(ctx context.Context, id, requestID string) error {
	in := map[string]string{"requestId": requestID}
	return c.Call(ctx, "POST", "/sessions/"+url.PathEscape(id)+"/cancel", in, nil)
}

// Answer answers the question of a paused request: with once, always, no, continue or stop,
// or with reply, a text for a question of the agent.
func (c *Client) Answer(ctx context.Context, requestID string, a session.Answer, reply string) error {
	in := map[string]string{"answer": string(a)}
	if reply != "" {
		in["reply"] = reply
	}
	return c.Call(ctx, "POST", "/requests/"+url.PathEscape(requestID)+"/answer", in, nil)
}

// Requests lists requests, newest first; an empty session means all. Next is as in
// [Client.Sessions].
func (c *Client) Requests(ctx context.Context, sessionID string, p Page) (requests []session.Request, next string, err error) {
	v := p.query()
	if sessionID != "" {
		v.Set("session_id", sessionID)
	}
	var out struct {
		Requests []session.Request
		Next     string
	}
	err = c.Call(ctx, "GET", withQuery("/requests", v), nil, &out)
	return out.Requests, out.Next, err
}

// Story returns a request with its messages and journal.
func (c *Client) Story(ctx context.Context, id string) (session.Story, error) {
	var out session.Story
	err := c.Call(ctx, "GET", "/requests/"+url.PathEscape(id), nil, &out)
	return out, err
}

// DeadLetters lists events that could not be handled, newest first.
func (c *Client) DeadLetters(ctx context.Context, p Page) ([]bus.DeadLetter, error) {
	var out struct{ DeadLetters []bus.DeadLetter }
	err := c.Call(ctx, "GET", withQuery("/dlq", p.query()), nil, &out)
	return out.DeadLetters, err
}

// DeadLetter returns one dead letter.
func (c *Client) DeadLetter(ctx context.Context, id string) (bus.DeadLetter, error) {
	var out bus.DeadLetter
	err := c.Call(ctx, "GET", "/dlq/"+url.PathEscape(id), nil, &out)
	return out, err
}

// ReplayDeadLetter delivers a dead letter to its group again.
func (c *Client) ReplayDeadLetter(ctx context.Context, id string) error {
	return c.Call(ctx, "POST", "/dlq/"+url.PathEscape(id)+"/replay", nil, nil)
}

// DropDeadLetter deletes a dead letter permanently.
func (c *Client) DropDeadLetter(ctx context.Context, id string) error {
	return c.Call(ctx, "DELETE", "/dlq/"+url.PathEscape(id), nil, nil)
}

// DropGroup drops an unused consumer group and its backlog.
func (c *Client) DropGroup(ctx context.Context, topic event.Topic, group string) error {
	return c.Call(ctx, "DELETE", "/bus/groups/"+url.PathEscape(string(topic))+"/"+url.PathEscape(group), nil, nil)
}

// Login returns a new one-time login link for the page.
func (c *Client) Login(ctx context.Context) (string, error) {
	var out struct{ URL, Code string }
	if err := c.Call(ctx, "POST", "/login-codes", nil, &out); err != nil {
		return "", err
	}
	if _, code, _ := strings.Cut(out.URL, "?code="); c.elsewhere && code != "" {
		return c.base + "/login?code=" + code, nil // the server does not know the name and path of a proxy
	}
	if out.URL != "" {
		return out.URL, nil
	}
	return c.base + "/login?code=" + url.QueryEscape(out.Code), nil
}

// Ready returns an error if the server is not ready.
func (c *Client) Ready(ctx context.Context) error {
	return c.Call(ctx, "GET", "/readyz", nil, nil)
}

// Tasks lists background tasks, newest first; an empty session means all. Next is as in
// [Client.Sessions].
func (c *Client) Tasks(ctx context.Context, sessionID string, p Page) (tasks []task.Task, next string, err error) {
	q := p.query()
	if sessionID != "" {
		q.Set("session_id", sessionID)
	}
	var answer struct {
		Tasks []task.Task
		Next  string
	}
	err = c.Call(ctx, "GET", withQuery("/tasks", q), nil, &answer)
	return answer.Tasks, answer.Next, err
}

// Task returns one background task.
func (c *Client) Task(ctx context.Context, id string) (t task.Task, err error) {
	err = c.Call(ctx, "GET", "/tasks/"+url.PathEscape(id), nil, &t)
	return t, err
}

// TaskOutput reads the output of a task from an offset; a negative one counts from the
// end.
func (c *Client) TaskOutput(ctx context.Context, id string, offset int64) (p task.OutputPart, err error) {
	err = c.Call(ctx, "GET", fmt.Sprintf("/tasks/%s/output?offset=%d", url.PathEscape(id), offset), nil, &p)
	return p, err
}

// StopTask stops a task and returns its new state.
func (c *Client) StopTask(ctx context.Context, id string) (t task.Task, err error) {
	err = c.Call(ctx, "POST", "/tasks/"+url.PathEscape(id)+"/stop", nil, &t)
	return t, err
}

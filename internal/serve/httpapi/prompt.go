package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Limits of a prompt. Content is what a person writes or pastes; larger text
// belongs in a file. The files of a prompt fit into one call of every provider;
// [Options] may allow less.
const (
	maxPromptBody  = 32 << 20
	maxContent     = 1 << 20
	maxFile        = 10 << 20
	maxFiles       = 20 << 20
	maxAttachments = 20
	maxFilename    = 255
	maxKey         = 200
)

type promptBody struct {
	Content     string             `json:"content"`
	Queue       event.Queue        `json:"queue"`
	Attachments []promptAttachment `json:"attachments"`
}

type promptAttachment struct {
	Filename   string  `json:"filename"`
	MimeType   string  `json:"mimeType"`
	DataBase64 *string `json:"dataBase64"`
	Text       *string `json:"text"`
}

// accepted is the answer to a prompt.
type accepted struct {
	Success   bool   `json:"success"`
	SessionID string `json:"sessionId"`
	RequestID string `json:"requestId"`
	MessageID string `json:"messageId"`
	Message   string `json:"message"`
}

// remembered is what the inbox keeps of a prompt with an Idempotency-Key.
type remembered struct {
	BodyHash string   `json:"bodyHash"`
	Answer   accepted `json:"answer"`
}

func (a *api) prompt(w http.ResponseWriter, r *http.Request) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return fault.InvalidField("Idempotency-Key", "An Idempotency-Key has at most %d characters.", maxKey)
	}
	raw, err := readBody(w, r, maxPromptBody)
	if err != nil {
		return err
	}
	var in promptBody
	if err := decode(raw, &in, false); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	if len(in.Attachments) > 0 { // they are stored only for a session that exists
		if _, err := a.sessionOf(r); err != nil {
			return err
		}
	}
	files, err := a.keepFiles(r.Context(), in.Attachments)
	if err != nil {
		return err
	}
	answer, err := a.accept(r.Context(), r.PathValue("id"), key, sha256.Sum256(raw), in, files)
	if err != nil {
		return err
	}
	a.stats.prompts.Add(1)
	return writeJSON(w, http.StatusOK, answer)
}

func (b *promptBody) check() error {
	if b.Queue == "" {
		b.Queue = event.Prompt
	}
	switch {
	case strings.TrimSpace(b.Content) == "":
		return fault.InvalidField("content", "Content is required.")
	case len(b.Content) > maxContent:
		return &fault.Error{Kind: fault.TooLarge, Field: "content", Message: fmt.Sprintf("Content has at most %d bytes; attach longer text as a file.", maxContent)}
	case !b.Queue.Valid():
		return fault.InvalidField("queue", "queue has to be prompt, steer, followUp or interrupt.")
	case len(b.Attachments) > maxAttachments:
		return fault.InvalidField("attachments", "A prompt takes at most %d attachments.", maxAttachments)
	}
	return nil
}

// keepFiles stores the attachments and returns them as file parts.
func (a *api) keepFiles(ctx context.Context, in []promptAttachment) ([]chat.Part, error) {
	var parts []chat.Part
	total := 0
	for i, f := range in {
		field := fmt.Sprintf("attachments[%d]", i)
		data, err := f.bytes(field, atMost(a.FileBytes, maxFile))
		if err != nil {
			return nil, err
		}
		if total += len(data); total > atMost(a.TotalBytes, maxFiles) {
			return nil, &fault.Error{Kind: fault.TooLarge, Field: "attachments", Message: fmt.Sprintf("The attachments of a prompt have at most %d bytes together.", atMost(a.TotalBytes, maxFiles))}
		}
		if a.Blobs == nil {
			return nil, fault.New(fault.Unavailable, "This server does not take attachments.")
		}
		ref, err := a.Blobs.Put(ctx, data)
		if err != nil {
			return nil, fmt.Errorf("store attachment: %w", err)
		}
		quoted, err := json.Marshal(ref)
		if err != nil {
			return nil, fmt.Errorf("encode attachment: %w", err)
		}
		parts = append(parts, chat.Part{Type: chat.TypeFile, Data: quoted, MediaType: f.mediaType(data), Filename: f.Filename})
	}
	return parts, nil
}

// atMost is what is allowed, zero for as much as can be.
func atMost(allowed int64, possible int) int {
	if allowed > 0 && allowed < int64(possible) {
		return int(allowed)
	}
	return possible
}

func (f promptAttachment) bytes(field string, most int) ([]byte, error) {
	switch {
	case f.Filename == "" || len(f.Filename) > maxFilename || !utf8.ValidString(f.Filename) ||
		strings.ContainsAny(f.Filename, "/\\\x00\r\n") || f.Filename == "." || f.Filename == "..":
		return nil, fault.InvalidField(field+".filename", "An attachment needs a file name of at most %d bytes, without a path.", maxFilename)
	case (f.Text == nil) == (f.DataBase64 == nil):
		return nil, fault.InvalidField(field, "An attachment has either text or dataBase64.")
	}
	if f.MimeType != "" {
		if _, _, err := mime.ParseMediaType(f.MimeType); err != nil || !strings.Contains(f.MimeType, "/") {
			return nil, fault.InvalidField(field+".mimeType", "%q is not a media type.", f.MimeType)
		}
	}
	name, data := "text", []byte(nil)
	if f.Text != nil {
		data = []byte(*f.Text)
	} else {
		var err error
		name = "dataBase64"
		if data, err = base64.StdEncoding.DecodeString(*f.DataBase64); err != nil {
			return nil, fault.InvalidField(field+".dataBase64", "The data is not base64.")
		}
	}
	if len(data) > most {
		return nil, &fault.Error{Kind: fault.TooLarge, Field: field + "." + name, Message: fmt.Sprintf("An attachment has at most %d bytes.", most)}
	}
	return data, nil
}

func (f promptAttachment) mediaType(data []byte) string {
	if f.MimeType != "" {
		return f.MimeType
	}
	if f.Text != nil {
		return "text/plain"
	}
	t := mime.TypeByExtension(strings.ToLower(filepath.Ext(f.Filename)))
	if t == "" {
		t = http.DetectContentType(data)
	}
	t, _, _ = strings.Cut(t, ";")
	return t
}

// accept makes the prompt a user_query, once for each key, and returns the
// answer. It is durable when accept returns.
func (a *api) accept(ctx context.Context, sessionID, key string, hash [sha256.Size]byte, in promptBody, files []chat.Part) (accepted, error) {
	messageID := newID()
	var answer accepted
	err := a.DB.Update(ctx, func(tx *db.Tx) error {
		s, err := a.Store.Session(tx, sessionID)
		if err != nil {
			return err
		}
		query, err := userQuery(s, messageID, in, files)
		if err != nil {
			return err
		}
		answer = accepted{Success: true, SessionID: s.ID, RequestID: query.RequestID, MessageID: messageID, Message: "Processing started"}
		if key != "" {
			prior, err := a.remember(tx, s.ID+":"+key, remembered{BodyHash: hex.EncodeToString(hash[:]), Answer: answer})
			if err != nil {
				return err
			}
			if prior != nil {
				answer = *prior
				return nil
			}
		}
		if err := a.hasRoom(tx, s.ID); err != nil {
			return err
		}
		if err := a.Store.Accept(tx, s.ID, messageID); err != nil {
			return err
		}
		if err := a.Store.ReferFiles(tx, s.ID, files); err != nil {
			return err
		}
		payload, err := json.Marshal(query)
		if err != nil {
			return fmt.Errorf("encode user query: %w", err)
		}
		_, err = environment.PublishTraced(tx, a.Store, event.EnvEvent{
			ID:       "user_query:" + messageID,
			Type:     event.UserQuery,
			Metadata: event.EnvMetadata{TriggerSessionID: s.ID, Source: "user"},
			Payload:  payload,
		}, event.TraceParent(ctx))
		return err
	})
	return answer, err
}

// hasRoom refuses a prompt when too many wait already: what was accepted has to
// be answered.
func (a *api) hasRoom(tx *db.Tx, sessionID string) error {
	state, err := a.Store.State(tx, sessionID)
	if err != nil || state.WaitingMessages() < session.MaxWaiting {
		return err
	}
	return &fault.Error{
		Kind: fault.RateLimited, Code: "too_many_waiting", RetryAfter: 30 * time.Second,
		Message: fmt.Sprintf("%d messages wait in this conversation already. Send this one again when some are answered.", state.WaitingMessages()),
	}
}

// userQuery chooses the ids: a prompt is a new request; anything else goes to
// what runs, and becomes a new request when nothing does. So does a prompt
// that answers the question of a request that waits at a limit.
func userQuery(s session.Session, messageID string, in promptBody, files []chat.Part) (event.UserQueryPayload, error) {
	if s.Paused != nil && len(files) == 0 && session.AnswerOf([]chat.Message{chat.Text(chat.User, in.Content)}) != session.NoAnswer {
		in.Queue = event.Steer
	}
	fresh := event.RequestID{Surface: s.Client, Session: s.ID, Specific: messageID}.String()
	q := event.UserQueryPayload{SessionID: s.ID, Content: in.Content, RequestID: fresh, MessageID: messageID, Queue: in.Queue, Client: s.Client}
	if in.Queue != event.Prompt {
		q.ElseRequestID = fresh
		if s.ActiveRequest != "" {
			q.RequestID = s.ActiveRequest
		}
	}
	if len(files) > 0 {
		raw, err := json.Marshal(files)
		if err != nil {
			return q, fmt.Errorf("encode attachments: %w", err)
		}
		q.Attachments = raw
	}
	return q, nil
}

// remember keeps the answer under the key, or returns the one that it finds.
func (a *api) remember(tx *db.Tx, externalID string, now remembered) (*accepted, error) {
	value, err := json.Marshal(now)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	raw, seen, err := a.Store.Seen(tx, "http", externalID, value)
	if err != nil || !seen {
		return nil, err
	}
	var prior remembered
	if err := json.Unmarshal(raw, &prior); err != nil {
		return nil, fmt.Errorf("decode remembered answer: %w", err)
	}
	if prior.BodyHash != now.BodyHash {
		return nil, &fault.Error{Kind: fault.Conflict, Code: "idempotency_key_reused", Field: "Idempotency-Key", Message: "This Idempotency-Key was used for another prompt."}
	}
	return &prior.Answer, nil
}

package openaiapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/prompting"
)

const (
	// maxBody bounds a request, in bytes: a long conversation with pictures.
	maxBody = 32 << 20
	// maxKey bounds an Idempotency-Key and a name of a conversation, in characters.
	maxKey = 200
	// sessionHeader selects a conversation, and names that of the answer.
	sessionHeader = "Lilac-Session"
)

// Client is a program that may call.
type Client struct {
	Name  string
	Token string
	// IgnoreTools answers calls with tools of the program without them.
	IgnoreTools bool
}

// Model is something that a call can name as its model: the agent, or a profile of it.
type Model struct {
	ID string
	// Choice is that of conversations that begin with the model.
	Choice session.Choice
	// Plain makes it the model without the agent: it has no tools, and begins no conversation.
	Plain bool
}

// Sessions stores conversations.
type Sessions interface {
	CreateSession(tx *db.Tx, s session.Session) error
	Session(q db.Queryer, id string) (session.Session, error)
	SetChoice(tx *db.Tx, id string, c session.Choice) error
}

// Requests reads requests.
type Requests interface {
	Request(q db.Queryer, id string) (session.Request, error)
}

// Blobs stores the bytes of files.
type Blobs interface {
	Put(ctx context.Context, data []byte) (ref string, err error)
}

// Options configure a [Handler].
type Options struct {
	DB       *db.DB
	Bus      bus.Log
	Tables   prompting.Tables
	Sessions Sessions
	Requests Requests
	Blobs    Blobs
	Attempts Attempts
	// Plain asks the model of a client without the agent.
	Plain func(ctx context.Context, client, instructions, prompt string) (string, chat.Usage, error)
	// FinalOutput rebuilds the output of a request that has ended.
	FinalOutput func(q db.Queryer, sessionID, requestID string) ([]event.Payload, error)
	// Clients lists the programs that may call; without any, the API is off. Models lists the
	// models; the first is the default.
	Clients func() []Client
	Models  func() []Model
	// Stopping ends calls that wait for an answer. The work goes on.
	Stopping context.Context
	// Heartbeat is the interval of comments on a silent stream.
	Heartbeat time.Duration
	Now       func() time.Time
	Logger    *slog.Logger
}

// Handler serves the API.
type Handler struct {
	o   Options
	mux *http.ServeMux
	// process names this process, which began at began, in milliseconds since 1970.
	process string
	began   int64
	// plainCalls holds a value for each call of the plain model that runs.
	plainCalls chan struct{}
}

// New returns a handler of all paths below /v1/.
func New(o Options) *Handler {
	if o.Heartbeat <= 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.Stopping == nil {
		o.Stopping = context.Background()
	}
	h := &Handler{o: o, mux: http.NewServeMux(), process: newID(), began: o.Now().UnixMilli(), plainCalls: make(chan struct{}, maxPlain)}
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request, Client) error{
		"POST /v1/chat/completions": h.chat,
		"POST /v1/responses":        h.responses,
		"GET /v1/responses/{id}":    h.retrieve,
		"GET /v1/models":            h.models,
		"GET /v1/models/{id...}":    h.model,
		"/v1/": func(_ http.ResponseWriter, r *http.Request, _ Client) error {
			return fault.New(fault.NotFound, "There is no %s %s here: use chat/completions, responses, or models.", r.Method, r.URL.Path)
		},
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			client, err := h.authenticate(r)
			if err == nil {
				err = serve(w, r, client)
			}
			if err != nil {
				h.refuse(w, r, err)
			}
		})
	}
	return h
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := "req_" + newID()
	w.Header().Set("X-Request-Id", id)
	h.mux.ServeHTTP(w, r)
}

func newID() string { return strings.ToLower(ulid.Make().String()) }

// authenticate finds the client of a request by its token.
func (h *Handler) authenticate(r *http.Request) (Client, error) {
	clients := h.o.Clients()
	if len(clients) == 0 {
		return Client{}, fault.New(fault.NotFound, "This API is off. The operator can turn it on with a token under v1.tokens.")
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	var found *Client
	for i, c := range clients {
		want := sha256.Sum256([]byte(c.Token))
		if subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
			found = &clients[i]
		}
	}
	if found == nil || token == "" || !strings.EqualFold(scheme, "Bearer") {
		return Client{}, &fault.Error{Kind: fault.Unauthenticated, Code: "invalid_api_key", Message: "The API key is missing or wrong. Use a token of v1.tokens of Lilac's configuration."}
	}
	return *found, nil
}

// apiError is the form of OpenAI's errors.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

type errorBody struct {
	Error apiError `json:"error"`
}

// errorOf translates an error.
func errorOf(err error) (status int, body errorBody) {
	wire := fault.ToWire(err)
	status = wire.Kind.HTTPStatus()
	out := apiError{Message: wire.Message, Type: "invalid_request_error"}
	switch {
	case status >= 500:
		out.Type = "server_error"
	case status == http.StatusTooManyRequests:
		out.Type = "rate_limit_error"
	}
	code := wire.Code
	if code == "" {
		code = string(wire.Kind)
	}
	out.Code = &code
	if wire.Field != "" {
		out.Param = &wire.Field
	}
	return status, errorBody{out}
}

// refuse answers with an error.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, body := errorOf(err)
	if status >= 500 && r.Context().Err() == nil {
		h.o.Logger.ErrorContext(r.Context(), "request of the OpenAI API failed", "path", r.URL.Path, "error", err)
	}
	var known *fault.Error
	if errors.As(err, &known) && known.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(known.RetryAfter.Seconds())+1))
	}
	if known != nil && known.Code == codeQuestionOpen {
		noRetry(w)
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="lilac"`)
	}
	writeJSON(w, status, body)
}

// writeJSON writes a response. A client that is gone needs none.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// readBody reads and decodes a request. Unknown fields are ignored, because newer clients
// have them.
func readBody(w http.ResponseWriter, r *http.Request, into any) (hash [sha256.Size]byte, err error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return hash, fault.New(fault.TooLarge, "The request has more than %d bytes.", maxBody)
	case err != nil:
		return hash, fault.Wrap(fault.Invalid, err, "The request could not be read.")
	}
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(raw, into); {
	case errors.As(err, &wrong):
		return hash, fault.InvalidField(wrong.Field, "%s cannot be a %s.", wrong.Field, wrong.Value)
	case err != nil:
		return hash, fault.Wrap(fault.Invalid, err, "The request is not valid JSON.")
	}
	return sha256.Sum256(raw), nil
}

// modelEntry is a model in lists.
type modelEntry struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (h *Handler) entry(m Model) modelEntry {
	return modelEntry{ID: m.ID, Object: "model", Created: h.began / 1000, OwnedBy: "lilac"}
}

func (h *Handler) models(w http.ResponseWriter, _ *http.Request, _ Client) error {
	list := struct {
		Object string       `json:"object"`
		Data   []modelEntry `json:"data"`
	}{Object: "list"}
	for _, m := range h.o.Models() {
		list.Data = append(list.Data, h.entry(m))
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

func (h *Handler) model(w http.ResponseWriter, r *http.Request, _ Client) error {
	m, err := h.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, h.entry(m))
	return nil
}

// find returns a model by its id.
func (h *Handler) find(id string) (Model, error) {
	var known []string
	for _, m := range h.o.Models() {
		if m.ID == id {
			return m, nil
		}
		known = append(known, m.ID)
	}
	return Model{}, &fault.Error{Kind: fault.NotFound, Code: "model_not_found", Field: "model", Message: "There is no model \"" + id + "\" here. The models are: " + strings.Join(known, ", ") + "."}
}

package discordtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

const apiPrefix = "/api/v10"

// maxBody bounds the bytes that the server reads from a request. It is larger than
// Discord's limit of 25 MiB, so that the handlers can check that limit.
const maxBody = 64 << 20

// Request records a received REST request.
type Request struct {
	At time.Time
	// Route is the route name, for example "POST /channels/{channel}/messages". Path is
	// the requested path.
	Route, Path string
	// Status is the HTTP status of the response, or 0 if the connection was cut.
	Status int
	Body   string
}

// Carried is a request that the server has executed but not yet responded to.
type Carried struct {
	Route, Path string
	Status      int
	// Message is the message that the request created or changed.
	Message Message
}

// call is a request in progress.
type call struct {
	s     *core
	r     *http.Request
	route string
	body  []byte
	// touched is the message that the call created or changed.
	touched *message
}

func (c *call) path(name string) string { return c.r.PathValue(name) }

func (c *call) query() url.Values { return c.r.URL.Query() }

// answer is the response to a call.
type answer struct {
	status int
	body   any
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

var done = answer{status: http.StatusNoContent}

// refusal builds an error response in Discord's format (Opcodes and Status Codes, "JSON
// Error Codes"). Discord does not document the HTTP status of each code; these are the
// statuses that users have reported.
func refusal(status, code int, message string) answer {
	return answer{status: status, body: object{"code": code, "message": message}}
}

var (
	unauthorized       = refusal(http.StatusUnauthorized, 0, "401: Unauthorized")
	unknownChannel     = refusal(http.StatusNotFound, 10003, "Unknown Channel")
	unknownGuild       = refusal(http.StatusNotFound, 10004, "Unknown Guild")
	unknownMember      = refusal(http.StatusNotFound, 10007, "Unknown Member")
	unknownMessage     = refusal(http.StatusNotFound, 10008, "Unknown Message")
	unknownUser        = refusal(http.StatusNotFound, 10013, "Unknown User")
	unknownEmoji       = refusal(http.StatusBadRequest, 10014, "Unknown Emoji")
	unknownWebhook     = refusal(http.StatusNotFound, 10015, "Unknown Webhook")
	unknownInteraction = refusal(http.StatusNotFound, 10062, "Unknown interaction")
	tooLarge           = refusal(http.StatusRequestEntityTooLarge, 40005, "Request entity too large")
	acknowledged       = refusal(http.StatusBadRequest, 40060, "Interaction has already been acknowledged.")
	missingAccess      = refusal(http.StatusForbidden, 50001, "Missing Access")
	notAuthor          = refusal(http.StatusForbidden, 50005, "Cannot edit a message authored by another user")
	emptyMessage       = refusal(http.StatusBadRequest, 50006, "Cannot send an empty message")
	missingPermissions = refusal(http.StatusForbidden, 50013, "Missing Permissions")
	notThere           = refusal(http.StatusBadRequest, 50024, "Cannot execute action on this channel type")
	threadLocked       = refusal(http.StatusForbidden, 50083, "Thread is archived")
	threadArchived     = refusal(http.StatusBadRequest, 50083, "Thread is archived")
	bodyNotJSON        = refusal(http.StatusBadRequest, 50109, "The request body contains invalid JSON.")
	noHistory          = refusal(http.StatusForbidden, 160002, "Cannot reply without permission to read message history")
)

// invalid builds error 50035, "Invalid Form Body", for a field.
func invalid(field, code, message string) answer {
	errs := object{"_errors": []object{{"code": code, "message": message}}}
	parts := strings.Split(field, ".")
	for i := len(parts) - 1; i >= 0; i-- {
		errs = object{parts[i]: errs}
	}
	return answer{status: http.StatusBadRequest, body: object{"code": 50035, "message": "Invalid Form Body", "errors": errs}}
}

type handler func(*call) answer

func (s *core) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+gatewayPath, s.serveGateway)
	mux.HandleFunc("GET "+gatewayPath+"/{$}", s.serveGateway)
	mux.HandleFunc("GET /cdn/attachments/{channel}/{attachment}/{name}", s.serveFile)
	handlers := map[string]handler{
		"GET /gateway":                                                        getGateway,
		"GET /gateway/bot":                                                    getGatewayBot,
		"GET /users/@me":                                                      getSelf,
		"GET /users/{user}":                                                   getUser,
		"GET /users/@me/guilds":                                               listOwnGuilds,
		"POST /users/@me/channels":                                            openDM,
		"GET /applications/@me":                                               getApplication,
		"GET /guilds/{guild}":                                                 getGuild,
		"GET /guilds/{guild}/channels":                                        listChannels,
		"GET /guilds/{guild}/roles":                                           listRoles,
		"GET /guilds/{guild}/members":                                         listMembers,
		"GET /guilds/{guild}/members/{id}":                                    getMember,
		"GET /guilds/{guild}/threads/active":                                  listThreads,
		"POST /attachments/refresh-urls":                                      refreshURLs,
		"GET /channels/{channel}":                                             getChannel,
		"GET /channels/{channel}/threads/archived/public":                     listArchived,
		"GET /channels/{channel}/users/@me/threads/archived/private":          listJoinedArchived,
		"POST /channels/{channel}/typing":                                     typing,
		"GET /channels/{channel}/messages":                                    listMessages,
		"POST /channels/{channel}/messages":                                   createMessage,
		"GET /channels/{channel}/messages/{message}":                          getMessage,
		"PATCH /channels/{channel}/messages/{message}":                        editMessage,
		"DELETE /channels/{channel}/messages/{message}":                       deleteMessage,
		"POST /channels/{channel}/messages/bulk-delete":                       bulkDelete,
		"PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me":    react,
		"DELETE /channels/{channel}/messages/{message}/reactions/{emoji}/@me": unreact,
		"GET /channels/{channel}/messages/{message}/reactions/{emoji}":        listReactions,
		"GET /applications/{application}/commands":                            listCommands,
		"PUT /applications/{application}/commands":                            putCommands,
		"GET /applications/{application}/guilds/{guild}/commands":             listGuildCommands,
		"POST /interactions/{interaction}/{token}/callback":                   interactionCallback,
		"POST /webhooks/{application}/{token}":                                followUp,
		"GET /webhooks/{application}/{token}/messages/{message}":              getResponse,
		"PATCH /webhooks/{application}/{token}/messages/{message}":            editResponse,
		"DELETE /webhooks/{application}/{token}/messages/{message}":           deleteResponse,
	}
	for route, handle := range handlers {
		method, path, _ := strings.Cut(route, " ")
		public := strings.HasPrefix(path, "/interactions/") || strings.HasPrefix(path, "/webhooks/") || path == "/gateway"
		mux.HandleFunc(method+" "+apiPrefix+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, route, public, handle) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.violateLocked("%s %s: the fake Discord has no such route", r.Method, r.URL.Path)
		s.mu.Unlock()
		w.Header().Set("Via", via)
		writeJSON(w, refusal(http.StatusNotFound, 0, "404: Not Found"))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			panic(http.ErrAbortHandler)
		}
		defer s.running.Done()
		mux.ServeHTTP(w, r)
	})
}

// enter registers a request so that Close waits for it. It returns false after Close.
func (s *core) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// via is the Via header of Discord's proxy, which is not documented. Clients treat a 429
// without it as a ban by the network in front of Discord.
const via = "1.1 google"

// userAgent matches the required User-Agent format (API Reference, "User Agent").
var userAgent = regexp.MustCompile(`^DiscordBot \(\S+, \S+\)`)

func (s *core) serve(w http.ResponseWriter, r *http.Request, route string, public bool, handle handler) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client has disconnected
	}
	c := &call{s: s, r: r, route: route, body: body}
	w.Header().Set("Via", via)

	s.mu.Lock()
	f := s.takeFaultLocked(route, r.URL.Path)
	if f == nil {
		f = &Fault{}
	}
	s.mu.Unlock()
	if f.Delay > 0 && !s.pause(r, f.Delay) {
		return
	}
	if f.Cut {
		c.violate(c.checkCall())
		s.record(c, 0, nil)
		panic(http.ErrAbortHandler)
	}
	if f.Page != "" {
		w.Header().Del("Via")
		if json.Valid([]byte(f.Page)) {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Page) // the client may have disconnected
		s.record(c, f.Status, w.Header())
		return
	}

	s.mu.Lock()
	if !userAgent.MatchString(r.UserAgent()) {
		s.violateLocked("%s: User-Agent %q is not DiscordBot (url, version)", route, r.UserAgent())
	}
	a, limited := s.limitLocked(w.Header(), c, *f)
	if !limited {
		switch {
		case f.Status != 0:
			a = refusal(f.Status, f.Code, f.message())
		case !public && r.Header.Get("Authorization") != "Bot "+s.o.Token:
			a = unauthorized
		default:
			a = handle(c)
		}
	}
	var touched Message
	if c.touched != nil {
		touched = c.touched.copied()
	}
	hooks := s.hooks
	s.notifyLocked()
	s.mu.Unlock()

	if a.status != http.StatusBadRequest { // which says that the call is wrong
		c.violate(c.checkCall())
	}
	c.violate(c.checkAnswer(a))

	if a.status < http.StatusBadRequest {
		for _, hook := range hooks {
			hook(Carried{Route: route, Path: r.URL.Path, Status: a.status, Message: touched})
		}
	}
	if f.CutAfter {
		s.record(c, 0, nil)
		panic(http.ErrAbortHandler)
	}
	writeJSON(w, a)
	s.record(c, a.status, w.Header())
}

// violate records a violation, unless it is "".
func (c *call) violate(wrong string) {
	if wrong == "" {
		return
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.violateLocked("%s", wrong)
}

// pause sleeps for d. It returns false if the client disconnects or the server stops
// first.
func (s *core) pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-s.ctx.Done():
	}
	return false
}

// record appends a request to the log and notes that the client could read its headers.
func (s *core) record(c *call, status int, header http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status != 0 {
		s.limits.answeredLocked(c, s.o.Now())
		s.countInvalidLocked(status, header, s.o.Now())
	}
	if len(s.requests) < maxRecorded {
		req := Request{At: s.o.Now(), Route: c.route, Path: c.r.URL.Path, Status: status}
		if !strings.HasPrefix(c.r.Header.Get("Content-Type"), "multipart/") {
			req.Body = string(c.body)
		}
		s.requests = append(s.requests, req)
	}
	s.notifyLocked()
}

func writeJSON(w http.ResponseWriter, a answer) {
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(a.body); err != nil {
		panic("discordtest: encode an answer: " + err.Error()) // our own responses always encode
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = w.Write(out.Bytes()) // the client may have disconnected
}

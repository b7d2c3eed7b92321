package webui_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/serve/httpapi"
	"lilac/internal/serve/webui"
	"lilac/internal/testkit/freeport"
)

type object = map[string]any

// fake implements the API that the page needs. Tests define its state; the fake only stores and streams it.
type fake struct {
	t    *testing.T
	addr string

	mu       sync.Mutex
	sessions []object
	messages []object
	// files are the files that requests produced. bytes are the contents that the server has.
	files    []object
	bytes    map[string][]byte
	running  []string
	requests []object
	events   []object
	// from is the index of the first event of the running requests.
	from    int
	changed chan struct{}
	prompts []object
	keys    map[string]object
	// dropAnswers is the number of responses to prompts that get lost.
	dropAnswers int
	// busy is the number of prompts to reject with a request to retry later.
	busy      int
	signedOut bool
	// refuseDeletion, if not empty, is the reason why conversations cannot be deleted. trouble, if not
	// empty, is the reason why the event stream cannot be read.
	refuseDeletion, trouble string
	// cancels are the requests that the page asked to stop.
	cancels []string
	// branches are the branches that were asked for.
	branches []object
	// answers are the answers given to paused requests.
	answers []string
	// held, if not nil, blocks the responses with messages until it is closed.
	held chan struct{}
	// waiting is the number of calls that held or late blocks.
	waiting int
	// late has a channel for each route whose next response is delayed: the fake makes the response at
	// once, and sends it when the channel is closed.
	late map[string]chan struct{}
	// making, if not nil, blocks the creation of conversations until it is closed.
	making chan struct{}
	// deleted reports whether the conversation was deleted.
	deleted bool
	// loads counts how often the messages were loaded together with the output of running requests. It
	// does not count older pages, or what a page shows while it waits for the event stream.
	loads int
	// streams counts how often the event stream was opened. open is the number of streams that are open
	// now.
	streams, open int
	views         views
	setup         setup
	folk          folk
	server        *http.Server
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, addr: freeport.Loopback(t), changed: make(chan struct{}), keys: map[string]object{}}
	f.up()
	t.Cleanup(f.down)
	return f
}

func (f *fake) up() {
	f.t.Helper()
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.server = &http.Server{Handler: f.routes()}
	go func() { _ = f.server.Serve(l) }()
}

// down stops the server and drops all connections immediately.
func (f *fake) down() { _ = f.server.Close() }

func (f *fake) url(hash string) string { return "http://" + f.addr + "/" + hash }

// listened waits until the page reads the event stream and has requested the messages. Events that are
// emitted after that are streamed to it.
func (f *fake) listened() {
	f.t.Helper()
	f.until("the page reads the event stream and the messages", func() bool { return f.streams > 0 && f.loads > 0 })
}

// streaming waits until the page reads the event stream.
func (f *fake) streaming() { f.t.Helper(); f.opened(1) }

// opened waits until the event stream was opened n times.
func (f *fake) opened(n int) {
	f.t.Helper()
	f.until(fmt.Sprintf("the event stream was opened %d times", n), func() bool { return f.streams >= n })
}

// until waits until reached returns true. It calls reached with the lock held.
func (f *fake) until(what string, reached func() bool) {
	f.t.Helper()
	deadline := time.After(time.Minute)
	for {
		f.mu.Lock()
		done, changed := reached(), f.changed
		f.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			f.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// set changes the state and wakes everything that waits for a change.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// emit streams an event.
func (f *fake) emit(kind string, payload object) {
	f.set(func() {
		f.events = append(f.events, object{
			"id": kind + strconv.Itoa(len(f.events)), "type": kind, "timestamp": 1,
			"metadata": object{"trigger_session_id": "s1"}, "payload": payload,
		})
	})
}

func (f *fake) text(request, content string, offset int) {
	f.emit("stream.text", object{"requestId": request, "content": content, "offset": offset})
}

func (f *fake) conversation(title string) {
	f.set(func() {
		f.sessions = append(f.sessions, object{"id": "s" + strconv.Itoa(len(f.sessions)+1), "client": "web", "title": title, "createdAt": 1, "updatedAt": 1, "state": "idle"})
	})
}

func (f *fake) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", webui.Handler())
	api := func(pattern string, h func(w http.ResponseWriter, r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			out := f.signedOut
			f.mu.Unlock()
			if out {
				refuse(w, http.StatusUnauthorized, "unauthenticated", "A token is required.")
				return
			}
			if answer := h(w, r); answer != nil {
				f.mu.Lock() // the test may change the data that the answer refers to
				text, err := json.Marshal(answer)
				f.mu.Unlock()
				if err != nil {
					f.t.Errorf("answer %s: %v", pattern, err)
				}
				f.holdBack(pattern)
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(text)
			}
		})
	}
	api("GET /sessions", func(_ http.ResponseWriter, r *http.Request) any {
		f.mu.Lock()
		defer f.mu.Unlock()
		filter := r.URL.Query().Get("filter")
		shown := slices.DeleteFunc(slices.Clone(f.sessions), func(s object) bool {
			return (s["archived"] == true) != (filter == "archived") || filter == "pinned" && s["pinned"] != true
		})
		return newest(r, "sessions", shown)
	})
	api("POST /sessions", func(w http.ResponseWriter, r *http.Request) any {
		var in object
		_ = json.NewDecoder(r.Body).Decode(&in)
		f.mu.Lock()
		making := f.making
		f.mu.Unlock()
		if making != nil {
			<-making
		}
		f.conversation(fmt.Sprint(in["title"]))
		w.WriteHeader(http.StatusCreated)
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.sessions[len(f.sessions)-1]
	})
	api("DELETE /sessions/{id}", func(w http.ResponseWriter, r *http.Request) any {
		f.mu.Lock()
		reason := f.refuseDeletion
		f.mu.Unlock()
		if reason != "" {
			refuse(w, http.StatusConflict, "conflict", reason)
			return nil
		}
		f.set(func() {
			kept := f.sessions[:0]
			for _, s := range f.sessions {
				if s["id"] != r.PathValue("id") {
					kept = append(kept, s)
				}
			}
			f.sessions = kept
		})
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
	api("GET /sessions/{id}/messages", f.listMessages)
	api("GET /requests", func(_ http.ResponseWriter, r *http.Request) any {
		f.mu.Lock()
		defer f.mu.Unlock()
		return newest(r, "requests", f.requests)
	})
	mux.HandleFunc("GET /sessions/{id}/files/{file}", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		data, ok := f.bytes[r.PathValue("file")]
		f.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", http.DetectContentType(data))
		_, _ = w.Write(data)
	})
	api("POST /sessions/{id}/prompt", f.prompt)
	api("POST /sessions/{id}/branch", func(w http.ResponseWriter, r *http.Request) any {
		var in object
		_ = json.NewDecoder(r.Body).Decode(&in)
		f.conversation("Branch")
		w.WriteHeader(http.StatusCreated)
		f.mu.Lock()
		defer f.mu.Unlock()
		in["of"] = r.PathValue("id")
		f.branches = append(f.branches, in)
		made := f.sessions[len(f.sessions)-1]
		made["branch"] = object{"of": in["of"], "at": in["before"]}
		return object{"sessionId": made["id"]}
	})
	api("POST /sessions/{id}/cancel", func(_ http.ResponseWriter, r *http.Request) any {
		var in struct{ RequestID string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		f.set(func() { f.cancels = append(f.cancels, in.RequestID) })
		return object{"success": true}
	})
	api("POST /render", func(_ http.ResponseWriter, r *http.Request) any {
		var in struct{ Text string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		html, err := httpapi.RenderMarkdown(in.Text)
		if err != nil {
			return err
		}
		return object{"html": html}
	})
	api("GET /events", f.stream)
	f.viewRoutes(api)
	f.peopleRoutes(api)
	f.setupRoutes(api)
	api("POST /requests/{id}/answer", func(_ http.ResponseWriter, r *http.Request) any {
		var in struct{ Answer, Reply string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		f.set(func() { f.answers = append(f.answers, strings.TrimSpace(in.Answer+" "+r.PathValue("id")+" "+in.Reply)) })
		return object{"success": true}
	})
	return mux
}

// holdBack waits if the next response to a route is delayed.
func (f *fake) holdBack(route string) {
	f.mu.Lock()
	late := f.late[route]
	delete(f.late, route)
	f.mu.Unlock()
	if late != nil {
		f.set(func() { f.waiting++ })
		<-late
	}
}

// listMessages returns a page of messages. The first page also contains the output of running requests so
// far.
func (f *fake) listMessages(w http.ResponseWriter, r *http.Request) any {
	whole := r.URL.Query().Get("replay") == "1"
	f.mu.Lock()
	held, trouble, deleted := f.held, f.trouble, f.deleted
	f.mu.Unlock()
	if deleted {
		refuse(w, http.StatusNotFound, "not_found", "There is no such conversation.")
		return nil
	}
	if whole && trouble != "" {
		refuse(w, http.StatusServiceUnavailable, "unavailable", trouble)
		return nil
	}
	if whole && held != nil {
		f.set(func() { f.waiting++ })
		<-held
	}
	defer f.set(func() {})
	f.mu.Lock()
	defer f.mu.Unlock()
	if whole {
		f.loads++
	}
	var replay bytes.Buffer
	if len(f.running) > 0 && whole {
		for i, e := range f.events[f.from:] {
			writeFrame(&replay, f.from+i+1, e)
		}
	}
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to := len(f.messages)
	if before := r.URL.Query().Get("before"); before != "" {
		to = slices.IndexFunc(f.messages, func(m object) bool { return m["id"] == before })
	}
	page := append([]object{}, f.messages[max(0, to-limit):to]...)
	return object{"messages": page, "cursor": strconv.Itoa(len(f.events)), "running": append([]string{}, f.running...), "files": append([]object{}, f.files...), "replay": replay.String()}
}

func writeFrame(w io.Writer, at int, e object) {
	data, _ := json.Marshal(e)
	_, _ = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", at, e["type"], data)
}

func (f *fake) prompt(w http.ResponseWriter, r *http.Request) any {
	var in object
	_ = json.NewDecoder(r.Body).Decode(&in)
	key := r.Header.Get("Idempotency-Key")
	var answer object
	drop, busy := false, false
	f.set(func() {
		if busy = f.busy > 0; busy {
			f.busy--
			return
		}
		if answer = f.keys[key]; answer == nil {
			n := strconv.Itoa(len(f.prompts) + 1)
			answer = object{"success": true, "sessionId": r.PathValue("id"), "requestId": "web:s1:m" + n, "messageId": "m" + n}
			f.keys[key] = answer
			f.prompts = append(f.prompts, in)
		}
		if f.dropAnswers > 0 {
			f.dropAnswers--
			drop = true
		}
	})
	if drop {
		panic(http.ErrAbortHandler)
	}
	if busy {
		refuse(w, http.StatusServiceUnavailable, "unavailable", "Later.")
		return nil
	}
	if in["content"] == "refuse me" {
		refuse(w, http.StatusBadRequest, "invalid", "Content is not liked today.")
		return nil
	}
	return answer
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"error": object{"kind": kind, "message": message}})
}

// heartbeat is the interval of stream heartbeats. The page treats a stream that is silent for a while as
// dead, and a test may take longer than that.
const heartbeat = 5 * time.Second

func (f *fake) stream(w http.ResponseWriter, r *http.Request) any {
	f.mu.Lock()
	at, trouble := len(f.events), f.trouble
	f.mu.Unlock()
	if trouble != "" {
		refuse(w, http.StatusServiceUnavailable, "unavailable", trouble)
		return nil
	}
	if cursor := r.Header.Get("Last-Event-ID"); cursor != "" {
		var err error
		if at, err = strconv.Atoi(cursor); err != nil {
			refuse(w, http.StatusBadRequest, "invalid", "This is not a cursor.")
			return nil
		}
	}
	f.set(func() { f.streams++; f.open++ })
	defer f.set(func() { f.open-- })
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "id: %d\n\n", at)
	for {
		f.mu.Lock()
		events, changed := f.events[at:], f.changed
		f.mu.Unlock()
		for _, e := range events {
			at++
			writeFrame(w, at, e)
		}
		if http.NewResponseController(w).Flush() != nil {
			return nil
		}
		select {
		case <-changed:
		case <-beat.C:
			_, _ = io.WriteString(w, ": alive\n\n")
		case <-r.Context().Done():
			return nil
		}
	}
}

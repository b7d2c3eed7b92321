package openaiapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// attemptHeader is the header in which OpenAI's libraries count their repetitions of a call. They
// repeat failed calls by themselves, and send no Idempotency-Key. Libraries that use them, such as
// LangChain, repeat calls themselves, too, and let them count 0 each time.
const attemptHeader = "X-Stainless-Retry-Count"

// chatHeader names the conversation in calls of opencode and Crush. They repeat a failed call with the
// same words, and count nothing or always 0. The words of a new call in the conversation differ, because
// each call repeats all that was said before.
const chatHeader = "X-Session-Id"

const (
	// attemptAge bounds the time between a call and a repetition that says that it is one: the
	// libraries wait ten minutes for an answer, and seconds between two attempts.
	attemptAge = 15 * time.Minute
	// lostAge bounds the time between the loss of an answer and a repetition that nothing marks. The
	// libraries wait up to a minute; later, the same words are rather those of a person.
	lostAge = 2 * time.Minute
	// maxAlike bounds how many calls with the same words are remembered.
	maxAlike = 100
)

// The inbox sources of calls: those with a key, and those without whose answer has not been delivered.
const (
	keyedCalls = "v1"
	openCalls  = "v1-open"
)

// Attempts stores calls, to recognize their repetitions.
type Attempts interface {
	Seen(tx *db.Tx, source, id string, value []byte) (prior []byte, seen bool, err error)
	Replace(tx *db.Tx, source, id string, value []byte) error
	Forget(tx *db.Tx, source, id string, value []byte) error
}

// attempt says how a repetition of a call is recognized.
type attempt struct {
	client string
	// hash is the hash of the body. id is the same in all attempts of a call: the client with its key, or
	// without a key, with the hash and the conversation.
	hash, id string
	// keyed reports that the call has an Idempotency-Key, and again that it says that it may not be the
	// first attempt.
	keyed, again bool
	// answered reports that the client has the answer.
	answered bool
}

// attemptOf reads how a repetition of a call is recognized.
func attemptOf(client Client, r *http.Request, hash [sha256.Size]byte) (a attempt, err error) {
	key, chat := r.Header.Get("Idempotency-Key"), r.Header.Get(chatHeader)
	if len(key) > maxKey {
		return a, fault.InvalidField("Idempotency-Key", "An Idempotency-Key has at most %d characters.", maxKey)
	}
	if len(chat) > maxKey {
		chat = ""
	}
	a = attempt{client: client.Name, hash: hex.EncodeToString(hash[:]), id: client.Name + ":" + key, keyed: key != ""}
	if !a.keyed {
		a.id = strings.Join([]string{client.Name, a.hash, chat, strings.TrimSpace(r.Header.Get(sessionHeader))}, ":")
		n, _ := strconv.Atoi(r.Header.Get(attemptHeader))
		a.again = n > 0 || chat != ""
	}
	return a, nil
}

// safe reports that the client may repeat the call: it is recognized.
func (a attempt) safe() bool { return a.id != "" }

// present has the time, the start of this process (both in milliseconds since 1970), and its name. Stored calls
// are compared with it. One process at a time serves the API.
type present struct {
	now, began int64
	process    string
}

func (h *Handler) present() present {
	p := present{h.o.Now().UnixMilli(), h.began, h.process}
	if h.o.Stopping.Err() != nil { // it breaks all connections now
		p.process, p.began = "", p.now
	}
	return p
}

// lost reports that the connection of a call broke before its answer was delivered, and that it may
// still be repeated. If its process is gone, the connection broke before this one began.
func (p present) lost(r *run) bool {
	since := r.LostAt
	if since == 0 && r.Process != p.process {
		since = p.began
	}
	return since != 0 && p.now-since <= lostAge.Milliseconds()
}

// kept reports that a call whose answer was not delivered may still be repeated.
func (p present) kept(r *run) bool {
	open := r.LostAt == 0 && r.Process == p.process
	return open || p.lost(r) || p.now-r.At <= attemptAge.Milliseconds()
}

// repeated returns which of the calls with the same words an attempt repeats, or -1: one that was lost,
// but not one that another client waits for, unless the attempt says that it is not the first.
func (a attempt) repeated(alike []*run, p present) int {
	at := slices.IndexFunc(alike, p.lost)
	if at < 0 && a.again {
		at = slices.IndexFunc(alike, func(r *run) bool { return p.now-r.At <= attemptAge.Milliseconds() })
	}
	return at
}

// remember stores a call, or returns the one that it repeats.
func (h *Handler) remember(tx *db.Tx, a attempt, now run) (prior *run, err error) {
	if a.keyed {
		return h.rememberKey(tx, a, now)
	}
	p := h.present()
	err = h.alike(tx, openCalls, a.id, func(alike []*run) []*run {
		alike = slices.DeleteFunc(alike, func(r *run) bool { return !p.kept(r) })
		at := a.repeated(alike, p)
		if at < 0 {
			return append(alike[max(0, len(alike)-maxAlike+1):], &now)
		}
		prior = alike[at]
		prior.Process, prior.LostAt = now.Process, 0
		return alike
	})
	return prior, err
}

func (h *Handler) rememberKey(tx *db.Tx, a attempt, now run) (*run, error) {
	value, err := json.Marshal(now)
	if err != nil {
		return nil, fmt.Errorf("encode a call: %w", err)
	}
	raw, seen, err := h.o.Attempts.Seen(tx, keyedCalls, a.id, value)
	if err != nil || !seen {
		return nil, err
	}
	var prior run
	if err := json.Unmarshal(raw, &prior); err != nil {
		return nil, fmt.Errorf("decode a call: %w", err)
	}
	if prior.BodyHash != now.BodyHash {
		return nil, &fault.Error{Kind: fault.Conflict, Code: "idempotency_key_reused", Field: "Idempotency-Key", Message: "This Idempotency-Key was used for another request."}
	}
	return &prior, nil
}

// alike changes the calls that are stored together.
func (h *Handler) alike(tx *db.Tx, source, id string, change func([]*run) []*run) error {
	none := []byte("[]")
	raw, seen, err := h.o.Attempts.Seen(tx, source, id, none)
	if err != nil {
		return err
	}
	if !seen {
		raw = none
	}
	var calls []*run
	if err := json.Unmarshal(raw, &calls); err != nil {
		return fmt.Errorf("decode calls: %w", err)
	}
	calls = change(calls)
	if len(calls) == 0 {
		return h.o.Attempts.Forget(tx, source, id, raw)
	}
	value, err := json.Marshal(calls)
	if err != nil {
		return fmt.Errorf("encode calls: %w", err)
	}
	return h.o.Attempts.Replace(tx, source, id, value)
}

// delivered notes that the client has the answer, as far as the connection tells.
func (c *call) delivered(w http.ResponseWriter, r *http.Request) {
	c.answered = http.NewResponseController(w).Flush() == nil && r.Context().Err() == nil
}

// failed returns the error of a call whose answer did not begin. The client may repeat a call that
// is recognized, unless its request has failed.
func (c *call) failed(w http.ResponseWriter, err, ofRequest error) error {
	if ofRequest != nil || !c.safe() {
		noRetry(w)
	}
	if err != nil {
		return err
	}
	c.answered = true
	return ofRequest
}

// settle ends a call. If its answer was delivered, it is forgotten: the same words are a new call then.
// Otherwise, the connection is lost. When the process ends, it loses all connections anyway.
func (h *Handler) settle(ctx context.Context, c *call) {
	var said string // the transcript that the next call may repeat
	if c.answered && c.unselected && c.text != "" {
		said = c.transcript(append(c.said, &message{Role: "assistant", Content: content{{Text: c.text}}}))
	}
	if !c.safe() || said == "" && (c.keyed || !c.answered && h.o.Stopping.Err() != nil) {
		return
	}
	err := h.o.DB.Update(context.WithoutCancel(ctx), func(tx *db.Tx) error {
		if said != "" {
			if err := h.noteTranscript(tx, said, c); err != nil {
				return err
			}
		}
		if c.keyed {
			return nil
		}
		return h.alike(tx, openCalls, c.id, func(alike []*run) []*run {
			at := slices.IndexFunc(alike, func(r *run) bool { return r.MessageID == c.MessageID })
			switch {
			case at < 0:
			case c.answered:
				alike = slices.Delete(alike, at, at+1)
			default:
				alike[at].LostAt = h.o.Now().UnixMilli()
			}
			return alike
		})
	})
	if err != nil {
		h.o.Logger.ErrorContext(ctx, "the end of a call could not be stored: the same call may get its answer again", "error", err)
	}
}

// noRetry tells OpenAI's clients not to repeat a call by themselves: its request has run.
func noRetry(w http.ResponseWriter) { w.Header().Set("X-Should-Retry", "false") }

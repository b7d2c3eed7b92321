package openaiapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// attemptHeader is the header in which OpenAI's libraries count their repetitions of a call. They
// repeat failed calls by themselves, and send no Idempotency-Key.
const attemptHeader = "X-Stainless-Retry-Count"

// chatHeader names the conversation in calls of opencode and Crush. They repeat a failed call with the
// same words, and count nothing or always 0. The words of a new call in the conversation differ, because
// each call repeats all that was said before.
const chatHeader = "X-Session-Id"

// attemptAge bounds the time between a call and its repetition: the libraries wait ten minutes for
// an answer, and seconds between two attempts.
const attemptAge = 15 * time.Minute

// The inbox sources of calls: those with a key, and those that a client counts and whose answer has
// not been delivered.
const (
	keyedCalls   = "v1"
	countedCalls = "v1-attempt"
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
	// key is the Idempotency-Key, or "".
	key  string
	hash string // of the body
	// counted reports that an attempt can be recognized without a key, and again that this may not be
	// the first. chat is the client's name for the conversation, or "".
	counted, again bool
	chat           string
}

// attemptOf reads how a repetition of a call is recognized.
func attemptOf(client Client, r *http.Request, hash [sha256.Size]byte) (a attempt, err error) {
	a = attempt{client: client.Name, key: r.Header.Get("Idempotency-Key"), hash: hex.EncodeToString(hash[:])}
	if len(a.key) > maxKey {
		return a, fault.InvalidField("Idempotency-Key", "An Idempotency-Key has at most %d characters.", maxKey)
	}
	n, err := strconv.Atoi(r.Header.Get(attemptHeader))
	if chat := r.Header.Get(chatHeader); len(chat) <= maxKey {
		a.chat = chat
	}
	a.counted = (err == nil && n >= 0 || a.chat != "") && a.key == ""
	a.again = a.counted && (n > 0 || a.chat != "")
	return a, nil
}

// safe reports that the client may repeat the call: it is recognized.
func (a attempt) safe() bool { return a.key != "" || a.counted }

func (a attempt) countedID() string {
	id := a.client + ":" + a.hash
	if a.chat != "" {
		id += ":" + a.chat
	}
	return id
}

// remember stores a call that can be recognized, or returns the one that it repeats.
func (h *Handler) remember(tx *db.Tx, a attempt, now run) (*run, error) {
	value, err := json.Marshal(now)
	if err != nil {
		return nil, fmt.Errorf("encode a call: %w", err)
	}
	var raw []byte
	var seen bool
	switch {
	case a.key != "":
		raw, seen, err = h.o.Attempts.Seen(tx, keyedCalls, a.client+":"+a.key, value)
	case a.again:
		raw, seen, err = h.o.Attempts.Seen(tx, countedCalls, a.countedID(), value)
	case a.counted:
		return nil, h.o.Attempts.Replace(tx, countedCalls, a.countedID(), value)
	}
	if err != nil || !seen {
		return nil, err
	}
	var prior run
	if err := json.Unmarshal(raw, &prior); err != nil {
		return nil, fmt.Errorf("decode a call: %w", err)
	}
	switch {
	case prior.BodyHash != now.BodyHash:
		return nil, &fault.Error{Kind: fault.Conflict, Code: "idempotency_key_reused", Field: "Idempotency-Key", Message: "This Idempotency-Key was used for another request."}
	case a.again && now.At-prior.At > attemptAge.Milliseconds():
		return nil, h.o.Attempts.Replace(tx, countedCalls, a.countedID(), value)
	}
	return &prior, nil
}

// delivered forgets a call whose answer the client has: the same words are a new call then.
func (h *Handler) delivered(w http.ResponseWriter, r *http.Request, c *call) {
	if c.counted && r.Context().Err() == nil {
		_ = http.NewResponseController(w).Flush() // the client need not wait
		h.forget(r, c)
	}
}

// failed returns the error of a call whose answer did not begin. The client may repeat a call that
// is recognized, unless its request has failed.
func (h *Handler) failed(w http.ResponseWriter, r *http.Request, c *call, err, ofRequest error) error {
	if ofRequest != nil || !c.safe() {
		noRetry(w)
	}
	if err != nil {
		return err
	}
	h.forget(r, c)
	return ofRequest
}

func (h *Handler) forget(r *http.Request, c *call) {
	if !c.counted {
		return
	}
	value, err := json.Marshal(c.run)
	if err == nil {
		err = h.o.DB.Update(context.WithoutCancel(r.Context()), func(tx *db.Tx) error {
			return h.o.Attempts.Forget(tx, countedCalls, c.countedID(), value)
		})
	}
	if err != nil {
		h.o.Logger.ErrorContext(r.Context(), "a call whose answer was delivered could not be forgotten", "error", err)
	}
}

// noRetry tells OpenAI's clients not to repeat a call by themselves: its request has run.
func noRetry(w http.ResponseWriter) { w.Header().Set("X-Should-Retry", "false") }

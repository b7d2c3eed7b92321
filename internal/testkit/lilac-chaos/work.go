package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
)

const (
	hookSecret = "a-secret-of-the-webhook-0123456789"
	// pause is the time between two messages of one person: people, not a storm.
	pause = 200 * time.Millisecond
	// hookPause is the time between two webhooks, and mentionPause that between two mentions. Their
	// answers go to one channel on Discord, which takes one message a second. Answers that still
	// wait at the end of a long run would count as lost.
	hookPause    = time.Second
	mentionPause = 5 * time.Second
	// talkLength limits the prompts in one conversation, because an answer costs as much as its
	// conversation is long.
	talkLength = 50
	// callWithin bounds one call of a client; a node that hangs answers never.
	callWithin = 10 * time.Second
)

// work sends input to the program. Accepted input must be answered.
type work struct {
	c       *cluster
	ctx     context.Context
	end     context.CancelFunc
	senders sync.WaitGroup

	mu sync.Mutex
	// prompts are the texts of accepted prompts, hooks the ids of accepted deliveries, and
	// mentions the messages on Discord, by id.
	prompts, hooks []string
	mentions       map[string]string
	// sessions are the conversations of the people, and order the prompts of each as its person saw
	// them.
	sessions []string
	order    [][]appended
}

func startWork(h *host, c *cluster, people int) *work {
	w := &work{c: c, mentions: map[string]string{}}
	w.ctx, w.end = context.WithCancel(h.Context())
	c.awaitActive()
	for i := range people {
		w.senders.Go(func() { w.write(i) })
	}
	w.senders.Go(w.deliver)
	w.senders.Go(w.mention)
	h.Cleanup(w.stop)
	return w
}

func (w *work) stop() {
	w.end()
	w.senders.Wait()
}

// each calls send for 0, 1, 2 and so on, each time at another node, again and again until it is
// accepted, with a pause after each call. What is not accepted when the work stops is nobody's promise.
func (w *work) each(pause time.Duration, send func(i int, s *e2e.Server) (accepted bool)) {
	for i, at := 0, 0; ; at++ {
		if send(i, w.c.nodes[at%len(w.c.nodes)]) {
			i++
		}
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// write sends prompts of one person, who begins another conversation when everything is answered
// in the one before.
func (w *work) write(person int) {
	talk, session, next := 0, "", 0
	w.each(pause, func(i int, s *e2e.Server) bool {
		if i == next {
			if session != "" && !w.answered(s, session) {
				return false
			}
			fresh, ok := w.begin(s)
			if !ok {
				return false
			}
			talk, session, next = w.add(fresh), fresh, next+talkLength
		}
		text := fmt.Sprintf("prompt-%d-%d", person, i)
		w.note(talk, i%talkLength, text)
		body := fmt.Sprintf(`{"content":%q,"queue":%q}`, text, event.Prompt)
		if !w.post(s, "/sessions/"+session+"/prompt", []byte(body), nil, "Authorization", "Bearer "+e2e.Token, "Idempotency-Key", text) {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.prompts = append(w.prompts, text)
		w.order[talk][i%talkLength].returned = time.Now()
		return true
	})
}

// begin begins a conversation.
func (w *work) begin(s *e2e.Server) (session string, ok bool) {
	var made struct{ ID string }
	ok = w.post(s, "/sessions", []byte("{}"), &made, "Authorization", "Bearer "+e2e.Token)
	return made.ID, ok
}

// answered reports whether all prompts of a conversation are answered.
func (w *work) answered(s *e2e.Server, session string) bool {
	var list struct{ Requests []struct{ EndedAt int64 } }
	ok := w.call(http.MethodGet, s, fmt.Sprintf("/requests?limit=%d&session_id=%s", talkLength, session), nil, &list, "Authorization", "Bearer "+e2e.Token)
	return ok && len(list.Requests) == talkLength && !slices.ContainsFunc(list.Requests, func(r struct{ EndedAt int64 }) bool { return r.EndedAt == 0 })
}

// add adds a conversation and returns its number.
func (w *work) add(session string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions, w.order = append(w.sessions, session), append(w.order, nil)
	return len(w.sessions) - 1
}

// note records that a prompt is sent for the first time.
func (w *work) note(talk, i int, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order[talk]) == i {
		w.order[talk] = append(w.order[talk], appended{text: text, called: time.Now()})
	}
}

// deliver sends webhooks as GitHub does.
func (w *work) deliver() {
	w.each(hookPause, func(i int, s *e2e.Server) bool {
		id := fmt.Sprintf("delivery-%d", i)
		body, err := json.Marshal(map[string]string{"text": id})
		if err != nil {
			return false
		}
		mac := hmac.New(sha256.New, []byte(hookSecret))
		mac.Write(body)
		if !w.post(s, "/webhooks/ci", body, nil, "X-GitHub-Delivery", id, "X-GitHub-Event", "ping", "X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil))) {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hooks = append(w.hooks, id)
		return true
	})
}

// mention writes to the bot on Discord, which keeps what the bot misses.
func (w *work) mention() {
	for i := 0; ; i++ {
		text := fmt.Sprintf("mention-%d", i)
		id := w.c.discord.MentionUs(w.c.discord.General, w.c.discord.Ada, text)
		w.mu.Lock()
		w.mentions[id] = text
		w.mu.Unlock()
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(mentionPause):
		}
	}
}

func (w *work) post(s *e2e.Server, path string, body []byte, into any, header ...string) bool {
	return w.call(http.MethodPost, s, path, body, into, header...)
}

// call reports whether a node accepted a call. It decodes the answer, unless into is nil.
func (w *work) call(method string, s *e2e.Server, path string, body []byte, into any, header ...string) bool {
	ctx, cancel := context.WithTimeout(w.ctx, callWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr+path, bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	if !slices.Contains([]int{http.StatusOK, http.StatusCreated, http.StatusAccepted}, res.StatusCode) {
		return false
	}
	return into == nil || json.NewDecoder(res.Body).Decode(into) == nil
}

// grows waits until more is accepted.
func (w *work) grows(h *host) {
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.prompts)
	}
	before := count()
	if !e2e.Poll(w.c.o.patience, func() bool { return count() > before+2 || h.Context().Err() != nil }) {
		h.Fatalf("a node works, but no prompt is accepted within %s", w.c.o.patience)
	}
}

func (w *work) sent() sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return sent{prompts: w.prompts, hooks: w.hooks, mentions: w.mentions, order: w.order}
}

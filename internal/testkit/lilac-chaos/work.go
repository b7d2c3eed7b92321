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
	"sync"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
)

const (
	hookSecret = "a-secret-of-the-webhook-0123456789"
	// pause is the time between two messages of one person: people, not a storm.
	pause = 200 * time.Millisecond
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
	// sessions are the conversations of the people, and order their prompts as they saw them.
	sessions []string
	order    [][]appended
}

func startWork(h *host, c *cluster, people int) *work {
	w := &work{c: c, mentions: map[string]string{}}
	w.ctx, w.end = context.WithCancel(h.Context())
	active := c.awaitActive()
	for i := range people {
		session := active.NewSession()
		w.sessions, w.order = append(w.sessions, session), append(w.order, nil)
		w.senders.Go(func() { w.write(i, session) })
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
// accepted. What is not accepted when the work stops is nobody's promise.
func (w *work) each(send func(i int, s *e2e.Server) (accepted bool)) {
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

// write sends prompts of one person.
func (w *work) write(person int, session string) {
	w.each(func(i int, s *e2e.Server) bool {
		text := fmt.Sprintf("prompt-%d-%d", person, i)
		w.note(person, i, text)
		body := fmt.Sprintf(`{"content":%q,"queue":%q}`, text, event.Prompt)
		if !w.post(s, "/sessions/"+session+"/prompt", []byte(body), "Authorization", "Bearer "+e2e.Token, "Idempotency-Key", text) {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.prompts = append(w.prompts, text)
		w.order[person][i].returned = time.Now()
		return true
	})
}

// note records that a person sends a prompt for the first time.
func (w *work) note(person, i int, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order[person]) == i {
		w.order[person] = append(w.order[person], appended{text: text, called: time.Now()})
	}
}

// deliver sends webhooks as GitHub does.
func (w *work) deliver() {
	w.each(func(i int, s *e2e.Server) bool {
		id := fmt.Sprintf("delivery-%d", i)
		body, err := json.Marshal(map[string]string{"text": id})
		if err != nil {
			return false
		}
		mac := hmac.New(sha256.New, []byte(hookSecret))
		mac.Write(body)
		if !w.post(s, "/webhooks/ci", body, "X-GitHub-Delivery", id, "X-GitHub-Event", "ping", "X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil))) {
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
		case <-time.After(5 * time.Second): // Discord's limits are for a channel
		}
	}
}

func (w *work) post(s *e2e.Server, path string, body []byte, header ...string) bool {
	ctx, cancel := context.WithTimeout(w.ctx, callWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Addr+path, bytes.NewReader(body))
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
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK || res.StatusCode == http.StatusAccepted
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

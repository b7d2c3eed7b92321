package discord_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lilac/internal/testkit/discordtest"
)

// After any odd event from Discord, the adapter still receives messages, and every log entry is one
// line.
func FuzzOddEventsDoNoHarm(f *testing.F) {
	for _, kind := range []string{
		"MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK", "MESSAGE_REACTION_ADD", "GUILD_CREATE",
		"CHANNEL_UPDATE", "THREAD_CREATE", "CHANNEL_DELETE", "INTERACTION_CREATE", "RESUMED", "SOMETHING_NEW",
	} {
		for _, data := range []string{
			`null`, `[]`, `"text"`, `7`, `{}`, `{"id":7}`, `{"id":"7","channel_id":"8","author":null}`,
			`{"id":"7","channel_id":"x","author":{"id":"9"},"content":"\u0000\u202e\n{\"level\":\"ERROR\"}"}`,
			`{"id":"99999999999999999999999","channel_id":"8","author":{"id":"9"},"timestamp":"yesterday","edited_timestamp":"never"}`,
			`{"id":"7","channel_id":"8","author":{"id":"9"},"message_reference":{"message_id":"7"},"referenced_message":{"id":"7","message_reference":{"message_id":"7"}}}`,
			`{"id":"7","token":"t","type":2,"data":{"name":"stop\nstop"}}`, `{"id":"7","channels":[null,{"id":"","type":-1}],"threads":null}`,
			`{"ids":["","x",null]}`,
		} {
			f.Add(kind, data)
		}
	}
	w := newWorld(f, discordtest.Options{AnswerWithin: 1 << 40})
	w.connected(w.options())
	n := 0
	f.Fuzz(func(t *testing.T, kind, data string) {
		if kind == "READY" || !json.Valid([]byte(data)) {
			t.Skip() // a second READY is another session, and invalid JSON ends the connection
		}
		w.t = t
		w.server.Tell(kind, json.RawMessage(data))
		n++
		text := fmt.Sprint("message ", n)
		w.server.Say(w.channel, w.ann, text, discordtest.SayOptions{})
		w.hears(text)
		w.mu.Lock()
		w.events = nil
		w.mu.Unlock()
	})
	for _, line := range strings.Split(strings.TrimSpace(w.log.String()), "\n") {
		if line != "" && !strings.HasPrefix(line, "time=") {
			f.Errorf("a line of the log was forged: %q", line)
		}
	}
}

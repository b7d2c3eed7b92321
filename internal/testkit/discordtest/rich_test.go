package discordtest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// All kinds of content are listed as Discord describes them; [New] reports differences from its description.
func TestRichMessagesMatchDiscordsDescription(t *testing.T) {
	s := New(t, Options{})
	ann := s.User("Ann")
	guild := s.Guild("home", ann)
	channel := s.Channel(guild, "general")
	hook := s.User("CI")
	first := s.Say(channel, ann, "look at this", SayOptions{Files: []File{{Name: "a.txt", ContentType: "text/plain", Data: []byte("a")}}})
	original, _ := s.Message(channel, first)
	for what, r := range map[string]Rich{
		"embeds":     {Webhook: true, Embeds: json.RawMessage(`[{"type":"rich","title":"Build 7","description":"green","url":"https://ci.example","fields":[{"name":"Commit","value":"1a2b","inline":false}],"footer":{"text":"in 5 s"},"author":{"name":"CI"}}]`)},
		"components": {Webhook: true, Components: json.RawMessage(`[{"type":10,"content":"## Outage"},{"type":1,"components":[{"type":2,"style":5,"label":"Open","url":"https://x.example"}]}]`)},
		"poll":       {Poll: &Poll{Question: "Tea?", Answers: []string{"yes", "no"}, Votes: []int{2}}},
		"stickers":   {Stickers: []string{"wave"}},
		"forward":    {Forward: &original},
	} {
		s.Say(channel, hook, "", SayOptions{Rich: Rich{Webhook: true}})
		r.Webhook = true
		s.Say(channel, hook, what, SayOptions{Rich: r})
	}
	s.Say(channel, ann, "", SayOptions{Files: []File{{Name: "voice-message.ogg", ContentType: "audio/ogg", Data: []byte("o")}}, Rich: Rich{Voice: true}})
	for _, kind := range []int{6, 7, 8, 12, 18} { // a pin, a new member, a boost, a followed channel, a new thread
		s.Say(channel, ann, "", SayOptions{Rich: Rich{System: kind}})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.APIURL+"/channels/"+channel+"/messages?limit=100", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bot "+DefaultToken)
	req.Header.Set("User-Agent", "DiscordBot (https://lilac.invalid, 1)")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"webhook_id"`, `"Build 7"`, `"## Outage"`, `"answer_counts"`, `"sticker_items"`, `"message_snapshots"`, `"duration_secs"`, `"type":7`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the list lacks %s: %.300s", want, body)
		}
	}
}

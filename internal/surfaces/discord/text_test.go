package discord_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"lilac/internal/testkit/discordtest"
)

// Content without message text is converted to text: embeds of bots, forwards, stickers and polls.
// Link previews are not, because the user did not write them.
func TestWhatIsSaidWithoutWordsIsHeard(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	for i, c := range []struct{ message, want string }{
		{`"content":"","embeds":[{"title":"Build failed","description":"main is red","fields":[{"name":"Commit","value":"1a2b3c"}]}]`, "Build failed\nmain is red\nCommit: 1a2b3c"},
		{`"content":"look at https://example.org","embeds":[{"title":"Example","description":"A preview"}]`, "look at https://example.org"},
		{`"content":"","message_snapshots":[{"message":{"content":"","embeds":[{"description":"The disk is full"}]}}]`, "The disk is full"},
		{`"content":"and this?","message_snapshots":[{"message":{"content":"It rains."}}]`, "and this?\nIt rains."},
		{`"content":"","sticker_items":[{"name":"wave"}]`, "[sticker: wave]"},
		{`"content":"","poll":{"question":{"text":"Which one?"},"answers":[{"answer_id":1,"poll_media":{"text":"red"}},{"answer_id":2,"poll_media":{"text":"blue"}}]}`, "[poll: Which one? (red / blue)]"},
	} {
		id := fmt.Sprint(1900000000000000000 + i)
		w.server.Tell("MESSAGE_CREATE", json.RawMessage(fmt.Sprintf(`{"id":%q,"channel_id":%q,"guild_id":%q,"author":{"id":%q},%s}`, id, w.channel, w.guild, w.ann.ID, c.message)))
		if m, _ := w.hears(c.want); m.MessageID != id {
			t.Errorf("%q was heard as %s, want %s", c.want, m.MessageID, id)
		}
	}
}

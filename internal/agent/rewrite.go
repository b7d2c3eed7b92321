package agent

import (
	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// rewrittenMessages returns the messages of sent that differ from those of conv, by their
// index. Functions that rewrite a message give it new parts.
func rewrittenMessages(conv, sent []chat.Message) map[int]chat.Message {
	var out map[int]chat.Message
	for i := range min(len(conv), len(sent)) {
		if len(conv[i].Parts) == 0 || &conv[i].Parts[0] == &sent[i].Parts[0] {
			continue
		}
		if out == nil {
			out = map[int]chat.Message{}
		}
		out[i] = sent[i]
	}
	return out
}

// dropThinking removes the thinking from messages. Its signature is valid only behind the
// conversation in which the model wrote it. It does not modify its argument.
func dropThinking(messages []chat.Message) []chat.Message {
	out := make([]chat.Message, len(messages))
	for i, m := range messages {
		out[i] = llm.DropThinking(m)
	}
	return out
}

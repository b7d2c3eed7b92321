package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// A model that is not known to accept documents is told of one, as of an image.
func TestADocumentIsSentToModelsThatTakeIt(t *testing.T) {
	part := chat.Part{Type: chat.TypeFile, Data: json.RawMessage(`"JVBERi0xLg=="`), MediaType: "application/pdf", Filename: "d.pdf"}
	for accepts, want := range map[bool]string{true: `"file_data":"data:application/pdf`, false: "A file that you cannot see here: d.pdf"} {
		w := writer{accepted: llm.Accepted{PDFs: accepts}}
		raw, err := json.Marshal(w.mediaContent(llm.ParseMedia(part)))
		if err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%v: %s, %v", accepts, raw, err)
		}
	}
}

package chat_test

import (
	"encoding/json"
	"testing"

	"lilac/internal/foundation/chat"
)

func TestAResultWithPictures(t *testing.T) {
	p := chat.MediaResult("c", "read", "a.png is a picture.", []chat.Part{chat.ResultImage("blob:sha256:ab", "image/png")})
	want := `{"type":"tool-result","toolCallId":"c","toolName":"read","output":{"type":"content","value":[{"type":"text","text":"a.png is a picture."},{"type":"image-data","data":"blob:sha256:ab","mediaType":"image/png"}]}}`
	raw, err := json.Marshal(p)
	if err != nil || string(raw) != want {
		t.Fatalf("%s, %v", raw, err)
	}
	var back chat.Part
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if text, failed := back.OutputText(); text != "a.png is a picture.\n[image/png]" || failed {
		t.Errorf("as text: %q, %v", text, failed)
	}
	content, ok := back.Content()
	if !ok || len(content) != 2 {
		t.Fatalf("the content is %v", content)
	}
	if data, mediaType, ok := content[1].ResultData(); !ok || data != "blob:sha256:ab" || mediaType != "image/png" {
		t.Errorf("the picture is %q, %q", data, mediaType)
	}
	inline := content[1].WithResultData("cG5n")
	if data, _, _ := content[1].ResultData(); data != "blob:sha256:ab" {
		t.Error("the original picture has changed")
	}
	if data, _, _ := inline.ResultData(); data != "cG5n" {
		t.Errorf("the picture has %q", data)
	}
	if _, ok := chat.ToolResult("c", "read", "text", false).Content(); ok {
		t.Error("a text has content")
	}
}

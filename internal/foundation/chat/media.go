package chat

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
)

// typeImageData is the type of a picture in the content of a tool result, as the AI SDK has
// it. Its data are base64, or the reference of a blob.
const typeImageData PartType = "image-data"

// contentOutput is the output of a tool result that is not only a text.
type contentOutput struct {
	Type  string `json:"type"`
	Value []Part `json:"value"`
}

// contentStart begins an output of the type content as this package writes it.
var contentStart = []byte(`{"type":"content"`)

// ResultImage returns a picture for [MediaResult]. data is base64, or the reference of a blob.
func ResultImage(data, mediaType string) Part {
	return Part{Type: typeImageData, Extra: map[string]json.RawMessage{"data": quoted(data), "mediaType": quoted(mediaType)}}
}

func quoted(s string) json.RawMessage {
	out, _ := json.Marshal(s) // strings always marshal
	return out
}

// MediaResult returns a tool-result part with a text and pictures.
func MediaResult(id, name, text string, pictures []Part) Part {
	p := Part{Type: TypeToolResult, ToolCallID: id, ToolName: name}
	return p.WithContent(append([]Part{TextPart(text)}, pictures...))
}

// Content returns the parts of the output of a tool-result that is not only a text; ok is
// false for any other part.
func (p Part) Content() (parts []Part, ok bool) {
	if p.Type != TypeToolResult || !bytes.HasPrefix(p.Output, contentStart) {
		return nil, false
	}
	var out contentOutput
	if json.Unmarshal(p.Output, &out) != nil {
		return nil, false
	}
	return out.Value, true
}

// WithContent returns the tool-result with other parts as its output.
func (p Part) WithContent(parts []Part) Part {
	p.Output, _ = json.Marshal(contentOutput{"content", parts}) // parts that were decoded always marshal
	return p
}

// ResultData returns the data of a picture in the content of a tool result.
func (p Part) ResultData() (data, mediaType string, ok bool) {
	if p.Type != typeImageData || json.Unmarshal(p.Extra["data"], &data) != nil {
		return "", "", false
	}
	_ = json.Unmarshal(p.Extra["mediaType"], &mediaType) // "" if it is missing
	return data, mediaType, true
}

// WithResultData returns the picture with other data.
func (p Part) WithResultData(data string) Part {
	p.Extra = maps.Clone(p.Extra)
	p.Extra["data"] = quoted(data)
	return p
}

// contentText is the content of a tool result as text: pictures are named by their types.
func contentText(parts []Part) string {
	var texts []string
	for _, p := range parts {
		if _, mediaType, ok := p.ResultData(); ok {
			texts = append(texts, "["+mediaType+"]")
		} else if p.Type == TypeText {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

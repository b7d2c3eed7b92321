package openai

import (
	"encoding/json"
)

// mergeField joins the pieces in which a field that this package does not know is
// streamed: strings and lists are continued, the items of a list that have the
// same index and type are one item, objects are joined field by field, and
// of everything else the last one counts.
func mergeField(fields map[string]json.RawMessage, name string, piece json.RawMessage) {
	if len(piece) == 0 || string(piece) == "null" {
		return
	}
	fields[name] = mergeValue(name, fields[name], piece)
}

// streamedStrings are the names of fields whose string is streamed in pieces; other
// strings (types, formats, signatures) come whole.
var streamedStrings = map[string]bool{"text": true, "summary": true, "data": true, "content": true}

func mergeValue(name string, old, piece json.RawMessage) json.RawMessage {
	if len(old) == 0 || string(old) == "null" {
		return append(json.RawMessage(nil), piece...)
	}
	if string(piece) == "null" {
		return old
	}
	var a, b string
	if streamedStrings[name] && json.Unmarshal(old, &a) == nil && json.Unmarshal(piece, &b) == nil {
		return mustJSON(a+b, piece)
	}
	var oldList, list []json.RawMessage
	if json.Unmarshal(old, &oldList) == nil && json.Unmarshal(piece, &list) == nil {
		return mustJSON(mergeLists(oldList, list), piece)
	}
	var oldObject, object map[string]json.RawMessage
	if json.Unmarshal(old, &oldObject) == nil && json.Unmarshal(piece, &object) == nil {
		return mustJSON(mergeObjects(oldObject, object), piece)
	}
	return append(json.RawMessage(nil), piece...)
}

func mergeObjects(old, piece map[string]json.RawMessage) map[string]json.RawMessage {
	for name, v := range piece {
		old[name] = mergeValue(name, old[name], v)
	}
	return old
}

func mergeLists(old, pieces []json.RawMessage) []json.RawMessage {
	for _, piece := range pieces {
		var p map[string]json.RawMessage
		if json.Unmarshal(piece, &p) != nil || len(p["index"]) == 0 {
			old = append(old, piece)
			continue
		}
		at := -1
		for i, item := range old {
			var o map[string]json.RawMessage
			if json.Unmarshal(item, &o) == nil && string(o["index"]) == string(p["index"]) && string(o["type"]) == string(p["type"]) {
				at = i
				old[i] = mustJSON(mergeObjects(o, p), piece)
				break
			}
		}
		if at < 0 {
			old = append(old, piece)
		}
	}
	return old
}

// mustJSON encodes what was decoded a moment ago, so it cannot fail; the
// piece stands in should that ever change.
func mustJSON(v any, piece json.RawMessage) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		return piece
	}
	return out
}

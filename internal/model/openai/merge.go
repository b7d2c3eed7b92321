package openai

import "encoding/json"

// mergeField adds a streamed piece of a field that this package does not interpret. It
// appends strings and lists, merges objects field by field and list items with the same
// index and type, and replaces everything else.
func mergeField(fields map[string]json.RawMessage, name string, piece json.RawMessage) {
	if len(piece) == 0 || string(piece) == "null" {
		return
	}
	fields[name] = mergeValue(name, fields[name], piece)
}

// streamedStrings names the fields whose strings arrive in pieces. Other strings (types,
// formats, signatures) arrive whole.
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

// mustJSON encodes a decoded value, which cannot fail, and returns piece if it does.
func mustJSON(v any, piece json.RawMessage) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		return piece
	}
	return out
}

package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// calls puts the tool calls of an answer together. Servers disagree about every field that
// could tell them apart: the index may be missing or always 0, and ids may be missing,
// empty, or repeated. So a piece belongs to the call that its id and index, its name, and
// the completeness of the JSON so far allow.
type calls struct {
	seed  []byte // of generated ids
	known map[string]bool
	emit  func(llm.Chunk)
	all   []*call
}

type call struct {
	index     int    // -1 if the server sent none
	wireID    string // "" if the server sent none
	id        string // unique in the answer
	name      string
	arguments strings.Builder
	joiner    llm.Joiner
	announced bool
	data      map[string]json.RawMessage
}

// piece is one delta of a tool call.
type piece struct {
	index           int
	id, name, input string
	data            map[string]json.RawMessage
}

func parsePiece(fields map[string]json.RawMessage) piece {
	p := piece{index: integer(fields["index"]), id: str(fields["id"]), data: map[string]json.RawMessage{}}
	function := object(fields["function"])
	if function == nil {
		function = fields // some servers flatten it
	}
	p.name = str(function["name"])
	p.input = input(function["arguments"])
	if p.input == "" {
		p.input = input(function["parameters"])
	}
	for name, v := range fields {
		if slices.Contains(callData, name) {
			p.data[name] = v
		}
	}
	return p
}

// input returns arguments as JSON text. Some servers send the object itself.
func input(raw json.RawMessage) string {
	if s, ok := llm.DecodeString(raw); ok {
		return s
	}
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	return string(raw)
}

func (s *calls) add(fields map[string]json.RawMessage) error {
	p := parsePiece(fields)
	c := s.find(p)
	if c == nil {
		if p.id == "" && p.name == "" && p.input == "" {
			return nil
		}
		if len(s.all) >= llm.MaxParts {
			return fmt.Errorf("more than %d tool calls in one answer", llm.MaxParts)
		}
		s.announceAll() // a new call completes the names of the others
		c = &call{index: p.index, wireID: p.id, id: s.uniqueID(p.id, p.name), data: map[string]json.RawMessage{}}
		s.all = append(s.all, c)
	}
	if c.wireID == "" {
		c.wireID = p.id
	}
	c.addName(p.name, s.known)
	for name, v := range p.data {
		mergeField(c.data, name, v)
	}
	if delta := c.joiner.Add(p.input); delta != "" && !c.repeats(p, delta) {
		c.arguments.WriteString(delta)
		if c.announced {
			s.emit(llm.Chunk{Kind: llm.ChunkToolInput, ToolCallID: c.id, ToolName: c.name, Text: delta})
		} else if c.name != "" {
			s.announce(c)
		}
	}
	return nil
}

// find returns the call that a piece belongs to, or nil for a new call.
func (s *calls) find(p piece) *call {
	var byBoth, byID, byIndex *call
	for _, c := range s.all {
		sameID, sameIndex := p.id != "" && c.wireID == p.id, p.index >= 0 && c.index == p.index
		if sameID && sameIndex {
			byBoth = c
		}
		if sameID {
			byID = c
		}
		if sameIndex {
			byIndex = c
		}
	}
	switch {
	case byBoth != nil:
		return s.continuedOrNil(byBoth, p)
	case byID != nil && p.index >= 0 && p.name != "" && byIndex == nil && (byID.name != p.name || byID.isComplete()):
		return nil // another call with a repeated id
	case byID != nil:
		return s.continuedOrNil(byID, p)
	case p.id != "" && byIndex != nil && byIndex.wireID == "" && p.name == "":
		return byIndex // its id came late
	case p.id != "":
		if p.name == "" && byIndex != nil && !byIndex.isComplete() {
			return byIndex // the id changes with every piece
		}
		return nil
	case byIndex != nil:
		return s.continuedOrNil(byIndex, p)
	case p.name == "" && len(s.all) > 0: // arguments alone, with a wrong index or none
		return s.lastOpen()
	case p.index < 0 && len(s.all) > 0:
		return s.continuedOrNil(s.all[len(s.all)-1], p)
	}
	return nil
}

// lastOpen returns the last call whose arguments are incomplete, or the last one.
func (s *calls) lastOpen() *call {
	for _, c := range slices.Backward(s.all) {
		if !c.isComplete() {
			return c
		}
	}
	return s.all[len(s.all)-1]
}

// continuedOrNil returns c unless the piece starts another call with the same id or index.
func (s *calls) continuedOrNil(c *call, p piece) *call {
	switch {
	case p.name == "" && c.isComplete() && strings.HasPrefix(p.input, "{"):
		return s.lastOpen() // of several calls with one index
	case p.name == "" || c.name == "":
		return c
	case c.isComplete(): // a name after the end of the arguments
		if p.name == c.name && (p.input == "" || p.id != "" && p.id == c.wireID && strings.TrimSpace(p.input) == strings.TrimSpace(c.arguments.String())) {
			return c // a summary of the call
		}
		return nil
	case p.name == c.name:
		if c.arguments.Len() == 0 && p.id == "" && p.index < 0 {
			return nil // another call of the same tool, without arguments
		}
		return c
	case c.arguments.Len() > 0:
		return nil
	case s.known[p.name] && s.known[c.name] && !s.known[c.name+p.name]:
		return nil // two calls without arguments
	case p.index < 0 && p.id == "" && s.known[c.name]:
		return nil
	}
	return c // a piece of the name
}

// isComplete reports whether the arguments so far are a whole JSON object.
func (c *call) isComplete() bool {
	input := strings.TrimSpace(c.arguments.String())
	return strings.HasSuffix(input, "}") && json.Valid([]byte(input))
}

// addName adds a piece of the name. Some servers repeat the whole name in every piece, or
// send the name so far.
func (c *call) addName(name string, known map[string]bool) {
	switch {
	case c.announced || name == "" || name == c.name && !known[c.name+name]:
	case known[name] || strings.HasPrefix(name, c.name) && !known[c.name+name]:
		c.name = name
	default:
		c.name += name
	}
}

// repeats reports whether a piece sends the complete arguments once more.
func (c *call) repeats(p piece, delta string) bool {
	return c.isComplete() && (strings.TrimSpace(delta) == strings.TrimSpace(c.arguments.String()) || p.name != "" && json.Valid([]byte(delta)))
}

func (s *calls) announce(c *call) {
	c.announced = true
	s.emit(llm.Chunk{Kind: llm.ChunkToolStart, ToolCallID: c.id, ToolName: c.name})
	if c.arguments.Len() > 0 {
		s.emit(llm.Chunk{Kind: llm.ChunkToolInput, ToolCallID: c.id, ToolName: c.name, Text: c.arguments.String()})
	}
}

// announceAll announces the calls that have a name and no arguments.
func (s *calls) announceAll() {
	for _, c := range s.all {
		if !c.announced && c.name != "" {
			s.announce(c)
		}
	}
}

func (s *calls) uniqueID(id, name string) string {
	if id != "" && !slices.ContainsFunc(s.all, func(c *call) bool { return c.id == id }) {
		return id
	}
	h := sha256.New()
	h.Write(s.seed)
	fmt.Fprintf(h, "%d\x00%s\x00%s", len(s.all), id, name)
	return "call_" + hex.EncodeToString(h.Sum(nil)[:12])
}

// unnamed is the name of a call for which the server sent none. The agent reports to the
// model that there is no such tool.
const unnamed = "unnamed"

// parts returns the finished calls. hasData reports whether one has provider data.
func (s *calls) parts() (parts []chat.Part, hasData bool) {
	for _, c := range s.all {
		if c.name == "" {
			c.name = unnamed
			s.announce(c)
		}
		c.arguments.WriteString(c.joiner.Flush())
		part := llm.NewToolCall(c.id, c.name, c.arguments.String())
		part.ProviderOptions = llm.AddProviderData(part.ProviderOptions, options, c.data)
		hasData = hasData || len(c.data) > 0
		parts = append(parts, part)
	}
	return parts, hasData
}

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
// could tell them apart: the index may be missing or always 0, ids may be missing, empty,
// repeated, or late, and names may come once, in pieces, or with every piece. Each piece is
// placed as it arrives, by what the pieces so far have shown (see habits). If a later piece
// shows that the server has another habit, the pieces are placed again at the end, and only the
// streamed inputs were wrong.
type calls struct {
	seed  []byte // of generated ids
	known map[string]bool
	emit  func(llm.Chunk)

	all    []*call
	pieces []piece
	seen   seen
	habits habits
	// placed are the habits by which the pieces so far were placed. mixed means that not
	// all were placed by the same ones.
	placed habits
	mixed  bool
	// settling means that the pieces are placed again, without chunks.
	settling bool
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

// habits are what the pieces of an answer have in common.
type habits struct {
	// indexes means that indexes differ, ids that every piece has an id and they differ.
	indexes, ids bool
	// noise means that ids change within calls.
	noise bool
	// names means that every piece with arguments has a name.
	names bool
}

// seen counts what the habits follow from.
type seen struct {
	indexes, ids map[string]bool
	named        int
	withoutID    bool
	withoutName  bool // arguments came without a name
}

func (s *seen) add(p piece) habits {
	if s.ids == nil {
		s.indexes, s.ids = map[string]bool{}, map[string]bool{}
	}
	if p.index >= 0 && len(s.indexes) < 2 {
		s.indexes[fmt.Sprint(p.index)] = true
	}
	if p.id != "" && len(s.ids) < 2*llm.MaxParts {
		s.ids[p.id] = true
	}
	if p.name != "" {
		s.named++
	}
	s.withoutID = s.withoutID || p.id == ""
	s.withoutName = s.withoutName || p.name == "" && p.input != ""
	noise := s.named > 0 && len(s.ids) > s.named
	return habits{
		indexes: len(s.indexes) > 1, noise: noise, names: !s.withoutName,
		ids: !noise && !s.withoutID && len(s.ids) > 1,
	}
}

func parsePiece(fields map[string]json.RawMessage) piece {
	p := piece{index: integer(fields["index"]), id: str(fields["id"])}
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
			if p.data == nil {
				p.data = map[string]json.RawMessage{}
			}
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
	s.habits = s.seen.add(p)
	s.mixed = s.mixed || len(s.pieces) > 0 && s.habits != s.placed
	s.placed = s.habits
	s.pieces = append(s.pieces, p)
	return s.place(p)
}

// place adds a piece to the call that it belongs to.
func (s *calls) place(p piece) error {
	c := s.find(p)
	if c == nil {
		if p.id == "" && p.name == "" && p.input == "" {
			return nil
		}
		if len(s.all) >= llm.MaxParts {
			return fmt.Errorf("more than %d tool calls in one answer", llm.MaxParts)
		}
		s.announceAll() // a new call completes the names of the others
		c = &call{index: p.index, wireID: p.id, id: s.uniqueID(p.id, p.name)}
		s.all = append(s.all, c)
	}
	if c.wireID == "" {
		c.wireID = p.id
	}
	if c.index < 0 || c.arguments.Len() == 0 && p.name == "" && s.byIndex(p.index) == nil {
		c.index = p.index // arguments may have another index than the name
	}
	s.mixed = s.mixed || c.announced && p.name != "" && p.name != c.name // announced too early
	c.addName(p.name, s.known)
	for name, v := range p.data {
		if c.data == nil {
			c.data = map[string]json.RawMessage{}
		}
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
	if len(s.all) == 0 {
		return nil
	}
	if s.habits.noise {
		p.id = ""
	}
	byID, byIndex := s.byID(p.id), s.byIndex(p.index)
	switch {
	case byID != nil && s.habits.indexes && p.name != "" && byIndex != byID && (byID.name != p.name || byID.isComplete() || byID.arguments.Len() == 0):
		if byIndex == nil {
			return nil // another call with a repeated id
		}
		return s.continuedOrNil(byIndex, p, true)
	case byID != nil && (s.habits.ids || p.name == "") && (byIndex == nil || byIndex.wireID != p.id):
		return s.continuedOrNil(byID, p, true)
	case s.habits.ids:
		return s.continuedOrNil(byID, p, true)
	case s.habits.indexes && byIndex != nil:
		return s.continuedOrNil(byIndex, p, true)
	case s.habits.indexes && p.index >= 0 && (p.name != "" || p.id != ""):
		return nil
	}
	last := s.all[len(s.all)-1]
	switch {
	case byID != nil:
		return s.continuedOrNil(byID, p, false)
	case p.id != "" && last.wireID != "" && (p.name != "" || last.isComplete()):
		return nil
	case p.name == "" && (s.habits.indexes || last.isComplete()): // arguments alone, with a wrong index
		return s.lastOpen()
	}
	return s.continuedOrNil(last, p, false)
}

// byID returns the last call with an id, byIndex that with an index.
func (s *calls) byID(id string) *call {
	return s.last(func(c *call) bool { return id != "" && c.wireID == id })
}

func (s *calls) byIndex(index int) *call {
	return s.last(func(c *call) bool { return index >= 0 && c.index == index })
}

func (s *calls) last(is func(*call) bool) *call {
	for _, c := range slices.Backward(s.all) {
		if is(c) {
			return c
		}
	}
	return nil
}

// lastOpen returns the last call whose arguments are incomplete, or the last one.
func (s *calls) lastOpen() *call {
	if c := s.last(func(c *call) bool { return !c.isComplete() }); c != nil {
		return c
	}
	return s.all[len(s.all)-1]
}

// continuedOrNil returns c unless the piece starts another call. trusted means that the id or
// the index says that the piece belongs to c.
func (s *calls) continuedOrNil(c *call, p piece, trusted bool) *call {
	switch {
	case c == nil:
		return nil
	case p.id != "" && c.wireID != "" && p.id != c.wireID && p.name != "":
		return nil
	case p.name == "" && c.isComplete() && !trusted && strings.HasPrefix(p.input, "{"):
		return s.lastOpen() // of several calls with one index
	case p.name == "" || c.name == "":
		return c
	}
	same := trusted || p.id != "" && p.id == c.wireID
	isNew := false
	switch {
	case c.isComplete():
		isNew = s.beginsBehind(c, p, same)
	case c.arguments.Len() > 0 && p.name == c.name:
		isNew = !s.habits.names && !same && strings.HasPrefix(p.input, "{")
	case c.arguments.Len() > 0:
		isNew = true
	case p.name == c.name: // perhaps another call of the same tool, without arguments
		isNew = p.input == "" && !same && p.index < 0
	case s.known[p.name] && s.known[c.name] && !s.known[c.name+p.name]:
		isNew = true // two calls without arguments
	default: // a piece of the name, or another call without arguments
		isNew = !same && p.index < 0 && s.known[c.name] && !s.known[c.name+p.name]
	}
	if isNew {
		return nil
	}
	return c
}

// beginsBehind reports whether a piece with a name begins another call behind a complete one.
func (s *calls) beginsBehind(c *call, p piece, same bool) bool {
	if p.name != c.name {
		return true
	}
	arguments, more := strings.TrimSpace(c.arguments.String()), strings.TrimSpace(p.input)
	switch {
	case more == "": // the name comes with every piece, or with the first one
		return !same && !s.habits.names || same && !s.habits.indexes && !s.habits.ids && !s.habits.names
	case more == arguments:
		return !same // a summary of the call
	case arguments == "{}":
		return !same || !s.habits.indexes && p.id == ""
	}
	return true
}

// isComplete reports whether the arguments so far are a whole JSON object.
func (c *call) isComplete() bool {
	input := strings.TrimSpace(c.arguments.String())
	if strings.HasPrefix(input, `"`) { // encoded twice
		return len(input) > 1 && strings.HasSuffix(input, `"`) && json.Valid([]byte(input))
	}
	return strings.HasSuffix(input, "}") && json.Valid([]byte(input))
}

// areBroken reports whether the arguments of a call end in their middle.
func (s *calls) areBroken() bool {
	return slices.ContainsFunc(s.all, func(c *call) bool { return c.arguments.Len() > 0 && !c.isComplete() })
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
	return c.isComplete() && (strings.TrimSpace(delta) == strings.TrimSpace(c.arguments.String()) || p.name != "" && json.Valid([]byte(delta)) && c.arguments.String() != "{}")
}

func (s *calls) announce(c *call) {
	if s.settling {
		return
	}
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

// settle places the pieces again if they were placed by different habits.
func (s *calls) settle() {
	if !s.mixed {
		return
	}
	again := calls{seed: s.seed, known: s.known, habits: s.habits, settling: true}
	for _, p := range s.pieces {
		if again.place(p) != nil { // too many
			return
		}
	}
	s.all = again.all
}

// parts returns the finished calls. hasData reports whether one has provider data.
func (s *calls) parts() (parts []chat.Part, hasData bool) {
	s.settle()
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

package relay

import (
	"slices"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

const (
	// maxTools bounds the tool calls in memory; only the latest are shown.
	maxTools = 20
	// maxBinaries bounds the files of one answer.
	maxBinaries = 100
	// maxText bounds the text of one answer in memory, in bytes; cutShort replaces
	// the rest.
	maxText  = 1 << 20
	cutShort = "\n\n" + tooLong
)

// Output is the output of a request so far, reduced from its output topic.
// Applying an event again changes nothing.
type Output struct {
	Text string
	// Tools are the latest tool calls, in the order of their start.
	Tools    []event.ToolCallOutput
	Binaries []event.BinaryOutput
	// Anchors are the offsets at which messages were applied, by message id.
	Anchors map[string]int64
	// Notes are remarks about the answer, which are shown below it.
	Notes []string
	// Final reports that the output is complete, Skip that it is not to be shown.
	Final, Skip bool
}

// Apply adds one event of the topic.
func (o *Output) Apply(p event.Payload) {
	switch p := p.(type) {
	case event.TextDelta:
		if o.Final || p.Offset < 0 || p.Offset > int64(len(o.Text)) || p.Offset+int64(len(p.Delta)) <= int64(len(o.Text)) {
			return // applied before, or behind a gap that the final text fills
		}
		o.Text = bounded(o.Text[:p.Offset]+p.Delta, "")
	case event.TextReset:
		if !o.Final && p.Offset >= 0 && p.Offset < int64(len(o.Text)) {
			o.Text = o.Text[:p.Offset]
		}
	case event.OutputAnchor:
		if o.Anchors == nil {
			o.Anchors = map[string]int64{}
		}
		o.Anchors[p.MessageID] = p.Offset
	case event.ToolCallOutput:
		o.tool(p)
	case event.BinaryOutput:
		if len(o.Binaries) < maxBinaries && !slices.ContainsFunc(o.Binaries, func(b event.BinaryOutput) bool { return b.BinaryID == p.BinaryID }) {
			o.Binaries = append(o.Binaries, p)
		}
	case event.FinalText:
		o.Notes = p.Notes
		o.Text, o.Final, o.Skip = bounded(p.FinalText, cutShort), true, p.Delivery == "skip"
	}
}

// bounded shortens a text that is too long, and ends it with end.
func bounded(s, end string) string {
	if len(s) <= maxText {
		return s
	}
	return text.Truncate(s, maxText-len(end)) + end
}

func (o *Output) tool(p event.ToolCallOutput) {
	// Only the one-line display is shown; the rest can be large.
	p.Args, p.Output = nil, ""
	i := slices.IndexFunc(o.Tools, func(t event.ToolCallOutput) bool { return t.ToolCallID == p.ToolCallID })
	switch {
	case i < 0:
		o.Tools = append(o.Tools, p)
	case o.Tools[i].Status != event.ToolEnd || p.Status == event.ToolEnd:
		if p.Display == "" {
			p.Display = o.Tools[i].Display
		}
		o.Tools[i] = p
	}
	if len(o.Tools) > maxTools {
		o.Tools = slices.Delete(o.Tools, 0, len(o.Tools)-maxTools)
	}
}

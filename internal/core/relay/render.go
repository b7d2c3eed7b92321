package relay

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

const (
	// statusRoom is the room for the status lines below a running answer, in UTF-16
	// units. It stays free after the end, so that the text is always cut at the same
	// places.
	statusRoom = 250
	// statusTools is the number of tool calls that are shown during an answer.
	statusTools = 3
	// statusLine bounds the line of one tool call, in UTF-16 units.
	statusLine = 60
	// reasonLine bounds the reason why a file was not sent, in UTF-16 units.
	reasonLine = 200
	// maxMessages bounds the messages that show the text of an answer: platforms
	// accept about one per second, and other messages for the channel wait behind
	// them. A part that was moved below another message always gets two.
	maxMessages = 20
	// maxSource bounds the text that is rendered, in bytes; maxMessages hold less.
	maxSource = 128 << 10
	// tooLong replaces the rest of a text.
	tooLong = "*(The answer is longer than what is shown here; the page has all of it.)*"
	// restInFile replaces it at the end, when the rest follows as a file.
	restInFile = "*(The rest is in the file below; the page has all of it.)*"
	restName   = "rest-of-the-answer.md"
	restPrefix = "rest-"
)

// Cut is a place where a running answer continues in a new message.
type Cut struct {
	// ID is the id of the re-anchoring event.
	ID string `json:"id"`
	// MessageID is the message that was applied there; the cut has no effect until
	// the output has an anchor for it. Without it, the cut is at Offset, or at the
	// end of the text so far if that is -1.
	MessageID string `json:"messageId,omitempty"`
	Offset    int64  `json:"offset"`
	// ReplyTo is the message that the new message replies to. With Inherit, it
	// replies to MessageID if the answer was a reply so far.
	ReplyTo string `json:"replyTo,omitempty"`
	Inherit bool   `json:"inherit,omitempty"`
}

// End is how a request ended.
type End struct {
	State  event.RequestState `json:"state"`
	Detail string             `json:"detail,omitempty"`
	// At is when the end became known, in Unix milliseconds.
	At int64 `json:"at,omitempty"`
}

// Settings are the facts that rendering depends on besides the output.
type Settings struct {
	// MaxText is the longest message in UTF-16 units. MaxFiles is the number of files
	// per message, MaxFileBytes the size of one, and MaxMessageBytes of all of them.
	MaxText, MaxFiles             int
	MaxFileBytes, MaxMessageBytes int64
	// Rewrite replaces names with mentions and returns the ids of the users; nil
	// leaves the text as it is.
	Rewrite func(text string) (out string, users []string)
	// Scrub removes secrets from a text; nil leaves it as it is.
	Scrub func(text string) string
	// Mention is the id of the user that the answer mentions first, "" for none.
	Mention string
	// Questions are the questions to people, and Asker the user whom they notify.
	Questions []Question
	Asker     string
	// Early reports that the answer has just begun. Its first message then waits for
	// text: files that are added before that belong to it.
	Early bool
	// Size returns the size of a file in bytes; nil means unknown.
	Size func(event.BinaryOutput) int64
}

// View is the intended content of one message.
type View struct {
	// Key names the message within its request; it never changes.
	Key     string
	Text    string
	ReplyTo string
	// ReplyToKey is the key of another message of the answer that it replies to.
	ReplyToKey string
	Users      []string
	Files      []event.BinaryOutput
	// Stop adds a button that stops the answer, and Question those that answer it.
	Stop     bool
	Question *Question
	// Bare reports that the message has no text any more and stays for its files.
	Bare bool
}

// Made has facts about the messages that were planned before.
type Made struct {
	// Messages has the keys of the messages.
	Messages map[string]bool
	// Files has the key of the message of each file.
	Files map[string]string
	// Refused has the reasons of the files that were not sent.
	Refused map[string]string
}

// Render returns the views that show an output. ReplyTo is the message that asked,
// "" for none. End is nil while the request runs.
func Render(o Output, replyTo string, cuts []Cut, end *End, made Made, s Settings) []View {
	if s.Scrub == nil {
		s.Scrub = func(text string) string { return text }
	}
	segments := segment(o, replyTo, cuts)
	var views []View
	parts, ids := make([][]View, len(segments)), make([]string, len(segments))
	for i, seg := range segments {
		ids[i] = seg.cutID
		last := i == len(segments)-1
		source := text.Truncate(seg.text, maxSource)
		hidden := seg.text[len(source):]
		source = withoutNoReply(source, last && end == nil)
		text, users := readable(source), []string(nil)
		if s.Rewrite != nil {
			text, users = s.Rewrite(text)
		}
		text = s.Scrub(text) // before a cut can split a secret
		foot := ""
		switch {
		case last && end != nil:
			foot = s.Scrub(ending(*end, !blank(text), len(views) > 0 || len(o.Binaries) > 0, o.Skip))
			foot = strings.TrimPrefix(foot+notes(o, s.Scrub), "\n")
		case last && (i == 0 && !waitsForText(o, text, made, s) || !blank(text)):
			foot = status(o, s.Scrub)
		}
		if i == 0 && s.Mention != "" && (text != "" || foot != "") {
			text, users = greeting(text, s.Mention), append(users, s.Mention)
		}
		most := max(maxMessages-len(views), 2)
		pieces := split(text, s.MaxText-statusRoom, most+1)
		if len(pieces) > most || hidden != "" {
			pieces = pieces[:min(len(pieces), most-1)]
			note := tooLong
			if rest := restOf(text, pieces, s.Scrub(hidden)); end != nil && s.MaxFiles > 0 && (s.MaxFileBytes == 0 || int64(len(rest)) <= s.MaxFileBytes) {
				note = restInFile
				o.Binaries = append(slices.Clip(o.Binaries), event.BinaryOutput{
					BinaryID: fmt.Sprint(restPrefix, i), Filename: restName, MimeType: "text/markdown", DataBase64: base64.StdEncoding.EncodeToString([]byte(rest)),
				})
			}
			pieces = append(pieces, Piece{Source: note})
		}
		for j, p := range under(pieces, foot, s.MaxText) {
			v := View{Key: fmt.Sprintf("%d.%d", i, j), Text: p.String(), Users: mentioned(p.String(), users)}
			if j == 0 {
				v.ReplyTo = seg.replyTo
			}
			views, parts[i] = append(views, v), append(parts[i], v)
		}
	}
	if held(o, end) {
		views, parts = nil, nil
	}
	if len(views) > 0 && end == nil {
		last := slices.IndexFunc(parts, func(p []View) bool { return len(p) > 0 && p[len(p)-1].Key == views[len(views)-1].Key })
		shown := &parts[last][len(parts[last])-1]
		shown.Stop, shown.Question = true, openQuestion(s.Questions)
	}
	views = withQuestions(parts, ids, s.Questions, s.Asker, s)
	return withFiles(views, o, end, made, s)
}

// waitsForText reports whether the first message of a running answer waits for
// text, although a tool runs: the answer has just begun, or has files, or adds one, that
// are to be sent with the text.
func waitsForText(o Output, text string, made Made, s Settings) bool {
	return blank(text) && !made.Messages["0.0"] && (s.Early || len(o.Binaries) > 0 || addsFile(o))
}

// addsFile reports whether the newest call adds a file to the answer.
func addsFile(o Output) bool {
	return len(o.Tools) > 0 && o.Tools[len(o.Tools)-1].Name == fileTool && o.Tools[len(o.Tools)-1].Status == event.ToolStart
}

// fileTool is the tool that adds files to an answer (the specification's attachment tool).
const fileTool = "attachment_add"

// restOf returns the part of a text behind its pieces, with what was not rendered.
func restOf(text string, pieces []Piece, hidden string) string {
	shown := 0
	for _, p := range pieces {
		shown += len(p.Source)
	}
	return strings.TrimLeft(text[shown:]+hidden, "\n")
}

// greeting puts a mention before a text, on its own line if the text may begin
// with Markdown that needs the start of a line.
func greeting(text, userID string) string {
	between := "\n"
	if first, _ := utf8.DecodeRuneInString(text); text == "" || unicode.IsLetter(first) {
		between = " "
	}
	return "<@" + userID + ">" + between + text
}

// held reports whether nothing is to be shown: the model did not reply, or the
// text may still become that.
func held(o Output, end *End) bool {
	if end != nil || o.Final {
		return o.Skip && (end == nil || end.State == event.StateDone)
	}
	return !blank(o.Text) && blank(withoutNoReply(o.Text, true))
}

type part struct{ text, replyTo, cutID string }

// segment divides the text at the cuts, which are in the order of their requests.
// A cut before an earlier one moves to it.
func segment(o Output, replyTo string, cuts []Cut) []part {
	parts := []part{{replyTo: replyTo}}
	from := int64(0)
	for _, c := range cuts {
		at := c.Offset
		if c.MessageID != "" {
			offset, applied := o.Anchors[c.MessageID]
			if !applied {
				continue
			}
			at = offset
		}
		if at < 0 {
			continue
		}
		at = min(max(at, from), int64(len(o.Text)))
		parts[len(parts)-1].text = o.Text[from:at]
		next := part{replyTo: c.ReplyTo, cutID: c.ID}
		if c.Inherit && replyTo != "" {
			next.replyTo = c.MessageID
		}
		parts, from = append(parts, next), at
	}
	parts[len(parts)-1].text = o.Text[from:]
	return parts
}

// ending returns the last line of an answer that failed, was cancelled, or shows
// nothing.
func ending(end End, said, more, skip bool) string {
	detail := strings.TrimSpace(end.Detail)
	switch {
	case end.State == event.StateFailed:
		return "⚠️ " + cmp.Or(detail, "Something went wrong.")
	case end.State == event.StateCancelled && (said || !skip):
		return "⏹️ " + cmp.Or(detail, "Stopped.")
	case end.State == event.StateCancelled || said || more || skip:
		return ""
	}
	return "*(no answer)*"
}

// status returns the lines below a running answer.
func status(o Output, scrub func(string) string) string {
	var lines []string
	for _, t := range o.Tools[max(0, len(o.Tools)-statusTools):] {
		mark := "⏳"
		if t.Status == event.ToolEnd {
			mark = "✅"
			if t.OK != nil && !*t.OK {
				mark = "❌"
			}
		}
		lines = append(lines, "-# "+mark+" "+oneLine(scrub(t.Display), statusLine))
	}
	return strings.Join(lines, "\n")
}

// notes returns a line for each note, after a line break.
func notes(o Output, scrub func(string) string) (out string) {
	if o.Skip {
		return ""
	}
	for _, note := range o.Notes {
		out += "\n-# ↪️ " + oneLine(scrub(note), reasonLine)
	}
	return out
}

// oneLine removes formatting and mentions from an untrusted text, joins its lines,
// and shortens it to most UTF-16 units.
func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case strings.ContainsRune("`*_~|<>[]\\", r):
			return -1
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return ' '
		}
		return r
	}, s)), " ")
	s = strings.ReplaceAll(s, "@", "@\u200b")
	if units(s) > most {
		s = s[:prefixOf(s, most-1)] + "…"
	}
	return s
}

// under adds a footer of at most one message to the last message, or as a message
// if there is none or no room.
func under(pieces []Piece, foot string, maxText int) []Piece {
	feet, n := split(foot, maxText-statusRoom, 1), len(pieces)
	if len(feet) == 0 || n == 0 {
		return append(pieces, feet...)
	}
	below := "\n\n" + feet[0].String()
	if units(pieces[n-1].String())+units(below) > maxText {
		return append(pieces, feet[0])
	}
	pieces[n-1].Suffix += below
	return pieces
}

// mentioned returns the users that the text mentions.
func mentioned(text string, users []string) (out []string) {
	for _, id := range users {
		if strings.Contains(text, "<@"+id+">") {
			out = append(out, id)
		}
	}
	return out
}

// withFiles adds the files. Files that exist when the first message is planned are
// sent with it. The others follow at the end, in messages that reply to the last
// one. A planned message keeps its files, and stays for them even if its text,
// such as a tool's line, is gone.
func withFiles(views []View, o Output, end *End, made Made, s Settings) []View {
	byKey, bytes := map[string][]event.BinaryOutput{}, map[string]int64{}
	var order []string
	size := func(b event.BinaryOutput) int64 {
		if s.Size == nil {
			return 0
		}
		return s.Size(b)
	}
	add := func(key string, b event.BinaryOutput) {
		if byKey[key] == nil {
			order = append(order, key)
		}
		byKey[key] = append(byKey[key], b)
		bytes[key] += size(b)
	}
	fits := func(key string, b event.BinaryOutput) bool {
		return len(byKey[key]) < s.MaxFiles && (s.MaxMessageBytes == 0 || bytes[key]+size(b) <= s.MaxMessageBytes)
	}
	var notes []string
	unsent := func(b event.BinaryOutput, why string) {
		notes = append(notes, fmt.Sprintf("-# 📎 %s was not sent: %s", oneLine(s.Scrub(b.Filename), statusLine), oneLine(s.Scrub(why), reasonLine)))
	}
	late := ""
	for _, b := range o.Binaries {
		key, placed := made.Files[b.BinaryID]
		switch {
		case made.Refused[b.BinaryID] != "":
			unsent(b, made.Refused[b.BinaryID])
			continue
		case placed:
		case s.MaxFileBytes > 0 && size(b) > s.MaxFileBytes:
			unsent(b, fmt.Sprintf("%s, the limit is %s.", bytesText(size(b)), bytesText(s.MaxFileBytes)))
			continue
		case len(views) > 0 && !strings.HasPrefix(b.BinaryID, restPrefix) && !made.Messages[views[0].Key] && fits(views[0].Key, b):
			key = views[0].Key
		case end == nil:
			continue // sent at the end
		default:
			if late == "" || !fits(late, b) {
				late = "files." + strings.ReplaceAll(b.BinaryID, ":", "-")
			}
			key = late
		}
		add(key, b)
	}
	lastText := ""
	if len(views) > 0 {
		lastText = views[len(views)-1].Key
	}
	for i := range views {
		views[i].Files = byKey[views[i].Key]
	}
	for _, key := range order {
		switch {
		case strings.HasPrefix(key, "files."):
			views = append(views, View{Key: key, Files: byKey[key], ReplyToKey: lastText})
		case end != nil && !slices.ContainsFunc(views, func(v View) bool { return v.Key == key }):
			views = append(views, View{Key: key, Files: byKey[key], Bare: true})
		}
	}
	if end != nil {
		for i, p := range Split(strings.Join(notes, "\n"), s.MaxText) {
			views = append(views, View{Key: fmt.Sprintf("large.%d", i), Text: p.String(), ReplyToKey: lastText})
		}
	}
	return views
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

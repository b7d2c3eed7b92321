package relay_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"lilac/internal/core/relay"
	"lilac/internal/foundation/event"
)

// most is how many messages show a text that goes on in one place, with one for
// what does not fit under the last.
const most = 21

var (
	words   = regexp.MustCompile(`w[0-9]+`)
	fencing = regexp.MustCompile("^ {0,3}(```+|~~~+)(.*)")
)

// faults is what is wrong with the messages that show a text.
func faults(text string, views []relay.View) (out []string) {
	short := false
	left := map[string]int{}
	for _, w := range words.FindAllString(text, -1) {
		left[w]++
	}
	for _, v := range views {
		if n := len(utf16.Encode([]rune(v.Text))); n > settings.MaxText {
			out = append(out, fmt.Sprintf("message %s has %d characters", v.Key, n))
		}
		if openAtTheEnd(v.Text) {
			out = append(out, fmt.Sprintf("message %s ends inside code: %q", v.Key, v.Text))
		}
		for _, w := range words.FindAllString(v.Text, -1) {
			left[w]--
		}
		short = short || strings.Contains(v.Text, "the page has all of it")
	}
	if len(views) > most {
		out = append(out, fmt.Sprintf("there are %d messages", len(views)))
	}
	for w, n := range left {
		if n > 0 && !short {
			out = append(out, fmt.Sprintf("%s is missing %d times", w, n))
		}
	}
	if short && len(views) < most-1 {
		out = append(out, fmt.Sprintf("%d messages do not hold all", len(views)))
	}
	return out
}

// openAtTheEnd reads fenced blocks as CommonMark has them, apart from how it is
// done in what is tested.
func openAtTheEnd(text string) bool {
	open := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if open == "" { // a block may begin in a spoiler, and end with it
			line = strings.TrimPrefix(line, "||")
		} else {
			line = strings.TrimSuffix(line, "||")
		}
		m := fencing.FindStringSubmatch(line)
		switch {
		case m == nil:
		case open == "" && (m[1][0] == '~' || !strings.Contains(m[2], "`")):
			open = m[1]
		case open != "" && strings.HasPrefix(m[1], open) && strings.TrimSpace(m[2]) == "":
			open = ""
		}
	}
	return open != ""
}

// markdown draws a text of what models write, and of what they write wrong.
func markdown(t *rapid.T) string {
	n := 0
	oneOf := func(forms ...string) string {
		form := rapid.SampledFrom(forms).Draw(t, "form")
		for strings.Contains(form, "@") {
			n++
			form = strings.Replace(form, "@", fmt.Sprint("w", n), 1)
		}
		return form
	}
	times := func(most int) int { return rapid.IntRange(0, most).Draw(t, "times") }
	inline := func() string {
		return oneOf("@", "@ @ @.", "`@ || @`", "`` @`|@ ``", `@ \| @`, "[@](https://e.org/@)", "**@**", "", "日本 @ 😀", "@"+strings.Repeat(" @", times(40)), "`", "~~@~~")
	}
	row := func(columns int) string {
		cells := make([]string, columns)
		for i := range cells {
			cells[i] = inline()
		}
		line := strings.Join(cells, " | ")
		return rapid.SampledFrom([]string{"| " + line + " |", line, "|" + line}).Draw(t, "borders") + "\n"
	}
	block := func() string {
		switch rapid.IntRange(0, 4).Draw(t, "block") {
		case 0:
			columns := 1 + times(4)
			table := row(columns) + "|" + strings.Repeat(oneOf("---|", ":-:|"), columns) + "\n"
			for range times(8) {
				table += row(times(columns + 2))
			}
			return table + oneOf("", "\n", "@\n")
		case 1:
			fence := rapid.SampledFrom([]string{"```", "````", "~~~", "   ```"}).Draw(t, "fence")
			code := fence + oneOf("", "go", " sh") + "\n" + strings.Repeat(oneOf("x := @\n", "    @ | @\n", "|-|\n", "```\n", "\n"), times(30))
			return code + rapid.SampledFrom([]string{fence + "\n", "", fence + "` \n"}).Draw(t, "its end")
		case 2:
			return oneOf("# @\n", "- @\n  - @\n", "> @\n", "\n\n", "@ | @\n", strings.Repeat("@\n", times(30)))
		default:
			text := ""
			for range times(20) {
				text += inline() + " "
			}
			return text + oneOf("\n", "\n\n", "")
		}
	}
	text := ""
	for range times(12) {
		text += strings.Repeat(block(), rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 2, 30}).Draw(t, "repeated"))
	}
	return text
}

// Any text is shown completely, or the answer names the page that has the rest. No
// message is too long or ends inside code, and their number is limited.
func TestEveryTextIsShownWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := markdown(t)
		end := rapid.SampledFrom([]*relay.End{nil, {State: event.StateDone}, {State: event.StateCancelled, Detail: "Stopped by @ada."}, {State: event.StateFailed, Detail: strings.Repeat("why ", 500)}}).Draw(t, "end")
		o := relay.Output{Text: text, Final: end != nil, Tools: []event.ToolCallOutput{{ToolCallID: "1", Status: event.ToolStart, Display: strings.Repeat("bash ", 20)}}}
		for _, fault := range faults(text, relay.Render(o, "5", nil, end, relay.Made{}, settings)) {
			t.Errorf("%s\n%q", fault, text)
		}
	})
}

// Control: the check detects lost text, open code blocks, and long messages.
func TestControlIncompleteMessagesAreDetected(t *testing.T) {
	text := strings.Repeat("w1 w2 ", 500) + "\n```\nw3\n"
	views := relay.Render(relay.Output{Text: text}, "5", nil, nil, relay.Made{}, settings)
	last := len(views) - 1
	if got := faults(text, views); last < 1 || len(got) != 0 {
		t.Fatalf("%d messages without a damage have faults: %v", len(views), got)
	}
	for name, damage := range map[string]func(v []relay.View) []relay.View{
		"is missing":       func(v []relay.View) []relay.View { return v[1:] },
		"ends inside code": func(v []relay.View) []relay.View { v[last].Text = strings.TrimSuffix(v[last].Text, "```"); return v },
		"characters":       func(v []relay.View) []relay.View { v[0].Text += strings.Repeat("😀", 200); return v },
		"there are":        func(v []relay.View) []relay.View { return slices.Repeat(v, most) },
		"do not hold all":  func(v []relay.View) []relay.View { v[0].Text = "the page has all of it"; return v },
	} {
		if got := faults(text, damage(slices.Clone(views))); !strings.Contains(strings.Join(got, "\n"), name) {
			t.Errorf("messages of which one %s have the faults %v", name, got)
		}
	}
}

// An answer that needs thousands of messages is truncated with a note, followed by
// the way it ended.
func TestALongAnswerIsLimitedToFewMessages(t *testing.T) {
	heading := strings.Repeat("heading ", 400)
	failed := &relay.End{State: event.StateFailed, Detail: "The model is overloaded."}
	for name, c := range map[string]struct {
		text  string
		whole bool
	}{
		"as many words as there is room for": {strings.Repeat("words ", 5000), true},
		"more words":                         {strings.Repeat("words ", 50_000), false},
		"words after a lot of nothing":       {"words" + strings.Repeat(" ", 200_000) + "words", false},
		"code":                               {"```\n" + strings.Repeat("words\n", 50_000) + "```", false},
		"a table with a long head":           {"| a | " + heading + " |\n|---|---|\n" + strings.Repeat("| 1 | 2 |\n", 1000), true},
		"many tables with a head":            {strings.Repeat("| a | "+heading+" |\n|---|---|\n| 1 | 2 |\n\n", 100), false},
		"a table of many columns":            {strings.Repeat("|a", 20_000) + "|\n" + strings.Repeat("|-", 20_000) + "|\n" + strings.Repeat("|1|\n", 20_000), false},
	} {
		t.Run(name, func(t *testing.T) {
			views := relay.Render(relay.Output{Text: c.text, Final: true}, "5", nil, failed, relay.Made{}, settings)
			last := views[len(views)-1].Text
			if said := strings.Contains(last, "the page has all of it.)*\n\n"); len(views) > most || said == c.whole || !strings.HasSuffix(last, failed.Detail) {
				t.Errorf("%d messages, the last is %q", len(views), last)
			}
		})
	}
}

// The part of an answer below a steering message is always shown, however long the
// part before it is.
func TestALongAnswerContinuesAfterASteer(t *testing.T) {
	long := strings.Repeat("words ", 50_000)
	o := relay.Output{Text: long + "and after", Anchors: map[string]int64{"7": int64(len(long))}, Final: true}
	views := relay.Render(o, "5", []relay.Cut{{MessageID: "7", Offset: -1, ReplyTo: "7"}}, &relay.End{State: event.StateDone}, relay.Made{}, settings)
	if last := views[len(views)-1]; len(views) != most || last.Text != "and after" || last.ReplyTo != "7" {
		t.Errorf("%d messages, the last is %+v", len(views), last)
	}
}

// Secrets are removed from the whole text before it is cut, and from a tool's line
// before it is shortened.
func TestSecretsAreRemovedBeforeCutting(t *testing.T) {
	const secret = "MTk4_NjIy.Cl2FMQ.ZnCjm1XVW7"
	s := settings
	s.Scrub = func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	display := "bash: export A_LONG_NAME_OF_A_TOKEN=" + secret
	shown := func(before int, end *relay.End) (all string) {
		o := relay.Output{Text: strings.Repeat("x", before) + secret + strings.Repeat("y", 100), Final: end != nil, Tools: []event.ToolCallOutput{{ToolCallID: "1", Status: event.ToolStart, Display: display}}}
		for _, v := range relay.Render(o, "5", nil, end, relay.Made{}, s) {
			all += v.Text
		}
		return all
	}
	parts := []string{secret[:12], strings.ReplaceAll(secret[:12], "_", ""), secret[len(secret)-12:]}
	for before := 1700; before < 1760; before++ {
		for _, all := range []string{shown(before, nil), shown(before, &relay.End{State: event.StateFailed, Detail: "The key " + secret + " is not valid."})} {
			if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(all, part) }) {
				t.Fatalf("behind %d letters is seen %q", before, all[before:])
			}
		}
	}
	s.Scrub = nil
	if all := shown(1742, nil); !strings.Contains(all, secret) {
		t.Errorf("the secret would not be seen anyway: %q", all)
	}
}

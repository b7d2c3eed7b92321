package agent

import (
	"fmt"
	"hash/maphash"
	"unicode"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

const (
	// maxCycle is the largest number of sentences or tool calls in a repeated cycle.
	maxCycle = 8
	// minSentence is the length, in letters and digits, from which a sentence counts:
	// lines of code and of tables repeat, too.
	minSentence = 10
)

var hashSeed = maphash.MakeSeed()

// cycles counts how often the end of a sequence has repeated. The zero value is an empty
// sequence.
type cycles struct {
	last [maxCycle]uint64
	runs [maxCycle]int // by the length of the cycle, minus one
	n    int
}

// add appends a member and returns how often in a row the sequence ends with the same one
// to maxCycle members.
func (c *cycles) add(h uint64) int {
	times := 1
	for p := 1; p <= maxCycle; p++ {
		if c.n < p || c.last[(c.n-p)%maxCycle] != h {
			c.runs[p-1] = 0
			continue
		}
		c.runs[p-1]++
		times = max(times, 1+c.runs[p-1]/p)
	}
	c.last[c.n%maxCycle] = h
	c.n++
	return times
}

// sentences finds repeated sentences in text that arrives in pieces.
type sentences struct {
	seen cycles
	// hash and letters are those of the letters and digits of the current sentence.
	hash    uint64
	letters int
}

// add returns an error if the model has repeated the same sentences more than limit times.
func (s *sentences) add(text string, limit int) error {
	if limit <= 0 {
		return nil
	}
	for _, r := range text {
		switch r {
		case '.', '!', '?', '\n', '…', '。', '！', '？':
			if s.letters >= minSentence && s.seen.add(s.hash) > limit {
				return codedError(fault.LimitReached, CodeRepeats, fmt.Sprintf(
					"The model repeated the same sentences more than %d times in a row, so the answer was stopped (limits.repeats). Ask again, or ask differently.", limit))
			}
			s.hash, s.letters = 0, 0
			continue
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			s.hash = (s.hash ^ uint64(r)) * 1099511628211 // FNV-1a
			s.letters++
		}
	}
	return nil
}

// toolCalls finds repeated tool calls.
type toolCalls struct{ seen cycles }

// add returns an error if the model has repeated the same calls more than limit times.
func (t *toolCalls) add(calls []chat.Part, limit int) error {
	if limit <= 0 {
		return nil
	}
	for _, c := range calls {
		input := string(c.Input)
		if invalid, is := inputError(c); is {
			input = invalid
		}
		if t.seen.add(maphash.String(hashSeed, c.ToolName+"\x00"+input)) > limit {
			return codedError(fault.LimitReached, CodeRepeats, fmt.Sprintf(
				"The model called the tool %s more than %d times in a row with the same arguments, so the request was ended (limits.repeats). Ask again, or ask differently.", c.ToolName, limit))
		}
	}
	return nil
}

// recallCalls returns the calls of a conversation since the last message of a person or an
// event.
func recallCalls(conv []chat.Message, limit int) (t toolCalls) {
	for _, m := range conv {
		switch m.Role {
		case chat.User:
			t = toolCalls{}
		case chat.Assistant:
			_ = t.add(m.ToolCalls(), limit) // the next call reports it
		}
	}
	return t
}

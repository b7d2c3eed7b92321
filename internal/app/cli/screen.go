package cli

import "strings"

// screen tracks what the terminal shows of one answer. A terminal cannot delete text.
// If the server resets the text, the screen prints nothing while the new text equals
// the printed one, and prints a mark where it starts to differ.
type screen struct {
	text  string // current text of the answer
	shown string // text on the terminal
}

// resetMark is printed before text that replaces printed text.
const resetMark = "\n[the answer was reset; it continues from here]\n"

// Delta adds text at a byte offset of the answer and returns what to print.
func (s *screen) Delta(offset int, delta string) string {
	if offset < 0 || offset > len(s.text) {
		offset = len(s.text) // a gap: the end of the answer contains the complete text
	}
	s.text = s.text[:offset] + delta
	if delta == "" {
		return ""
	}
	return s.catchUp()
}

// End sets the complete text and returns what is left to print.
func (s *screen) End(final string) string {
	s.text = final
	return s.catchUp()
}

func (s *screen) catchUp() string {
	switch {
	case strings.HasPrefix(s.shown, s.text):
		return ""
	case strings.HasPrefix(s.text, s.shown):
		out := s.text[len(s.shown):]
		s.shown = s.text
		return out
	}
	same := 0
	for same < len(s.text) && same < len(s.shown) && s.text[same] == s.shown[same] {
		same++
	}
	line := strings.LastIndexByte(s.text[:same], '\n') + 1
	s.shown = s.text
	return resetMark + s.text[line:]
}

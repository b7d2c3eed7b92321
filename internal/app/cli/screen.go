package cli

import "strings"

// screen is what the terminal shows of one answer. A terminal cannot take
// text back, so when the server cuts the text and says it again, the screen
// stays silent as long as what is said again is the same, and marks the place
// where it is not.
type screen struct {
	text  string // what the answer is now
	shown string // what stands on the terminal
}

// retake stands before text that replaces what was shown.
const retake = "\n[taken back; again from here]\n"

// Delta takes a piece of the answer that begins at a byte offset and returns
// what to print.
func (s *screen) Delta(offset int, delta string) string {
	if offset < 0 || offset > len(s.text) {
		offset = len(s.text) // a gap cannot be shown; the end brings the whole text
	}
	s.text = s.text[:offset] + delta
	if delta == "" {
		return ""
	}
	return s.catchUp()
}

// End takes the whole text and returns what is still to print.
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
	return retake + s.text[line:]
}

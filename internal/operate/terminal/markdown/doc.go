// Package markdown renders Markdown as lines of a terminal.
//
// [Render] parses the text as the page does, so both show the same document, and wraps it
// at a width in cells. Its lines contain no control characters except the sequences of
// their styles: control characters of the text, also those that entities such as &#27;
// encode, are removed. [Complete] finds how much of a text that is still growing can no
// longer change its appearance.
//
// All functions are pure and safe for concurrent use.
package markdown

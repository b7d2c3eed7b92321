package llmtest

import (
	"bytes"
	"fmt"
)

// EscapeJSON writes every character of a JSON text outside ASCII as an escape, as some hosts do.
func EscapeJSON(data []byte) []byte {
	var b bytes.Buffer
	for _, c := range string(data) {
		switch {
		case c < 0x80:
			b.WriteRune(c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+c>>10, 0xDC00+c&0x3FF)
		}
	}
	return b.Bytes()
}

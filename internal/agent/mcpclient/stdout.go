package mcpclient

import (
	"bytes"
	"encoding/json"
	"io"
)

// messageWriter passes on the lines of a server's standard output that are messages. Servers may write
// nothing else there, but many print a greeting, logs, or the output of a program that they start, which ends
// the connection of the SDK, while other clients skip it. Only the goroutine that reads the output
// uses it.
type messageWriter struct {
	to, other io.Writer
	// limit bounds a line, in bytes. A longer one is passed on, and refused there.
	limit int

	line []byte
}

// Write implements [io.Writer].
func (w *messageWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		w.line = append(w.line, b[:end+1]...)
		if end < 0 {
			w.line = append(w.line, b...)
			if len(w.line) <= w.limit {
				break
			}
			end = len(b) - 1
		}
		b = b[end+1:]
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// flush passes the line on, which may be the last one without its end.
func (w *messageWriter) flush() error {
	line, to := w.line, w.other
	if w.line = nil; len(line) == 0 {
		return nil
	}
	if len(line) > w.limit || isMessage(line) {
		to = w.to
	}
	_, err := to.Write(line)
	return err
}

// isMessage reports whether a line is a message of JSON-RPC, or a list of them as in older revisions.
func isMessage(line []byte) bool {
	type message struct {
		Version string `json:"jsonrpc"`
	}
	var list []message
	if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte("{")) {
		list = make([]message, 1)
		return json.Unmarshal(line, &list[0]) == nil && list[0].Version != ""
	}
	return bytes.HasPrefix(line, []byte("[")) && json.Unmarshal(line, &list) == nil && len(list) > 0 && list[0].Version != ""
}

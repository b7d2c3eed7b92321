package remote

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"lilac/internal/agent/builtin"
	"lilac/internal/foundation/fault"
)

const (
	// Path is the path of the route for commands.
	Path = "/node/v1/commands"
	// KeyHeader is the header with the key of the nodes.
	KeyHeader = "Lilac-Node-Key"
	// protocol is the name of the protocol in the header Upgrade.
	protocol = "lilac-command"
	// maxLine bounds a line of the protocol: an order with the longest command, or a frame with
	// the longest output.
	maxLine = 512 << 10
	// maxOutput bounds the output in one frame, in bytes.
	maxOutput = 64 << 10
	// DefaultSilence is the time after which a side that says nothing counts as lost. Another node
	// takes over 8 seconds after the active one has stopped, at the earliest.
	DefaultSilence = 6 * time.Second
	// signals is the number of signals that each side sends within that time.
	signals = 4
)

// Key derives the key with which the nodes recognize each other from the operator's token.
func Key(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("lilac node key v1"))
	return hex.EncodeToString(mac.Sum(nil))
}

// HasKey reports whether a request comes from a node. It compares in constant time.
func HasKey(r *http.Request, key string) bool {
	return subtle.ConstantTimeCompare([]byte(r.Header.Get(KeyHeader)), []byte(key)) == 1
}

// order is the first line of a connection.
type order struct {
	ID        string `json:"id"`
	CallID    string `json:"callId"`
	RequestID string `json:"requestId"`
	SessionID string `json:"sessionId"`
	Client    string `json:"client"`
	Workspace string `json:"workspace"`
	Command   string `json:"command"`
	Dir       string `json:"dir,omitempty"`
	TimeoutMS int64  `json:"timeoutMs,omitempty"`
	// Token is the command's token of the tool server.
	Token string `json:"token"`
	// Marks are files that both nodes see if they share a file system.
	Marks []Mark `json:"marks"`
}

// signal is a further line from the active node. An empty one only says that it is there.
type signal struct {
	Cancel bool `json:"cancel,omitempty"`
}

// frame is a line from the node that runs the command. An empty one only says that it is there.
type frame struct {
	// Started says that the command begins; before that, the node may refuse it.
	Started bool           `json:"started,omitempty"`
	Output  []byte         `json:"output,omitempty"`
	Ended   *builtin.Ended `json:"ended,omitempty"`
	Error   *fault.Wire    `json:"error,omitempty"`
}

// stream sends and receives the lines of a connection.
type stream struct {
	conn    net.Conn
	in      *bufio.Scanner
	silence time.Duration

	mu sync.Mutex // one line at a time
}

func newStream(conn net.Conn, in *bufio.Reader, silence time.Duration) *stream {
	s := &stream{conn: conn, in: bufio.NewScanner(in), silence: silence}
	s.in.Buffer(nil, maxLine)
	return s
}

func (s *stream) send(line any) error {
	data, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.silence)); err != nil {
		return err
	}
	_, err = s.conn.Write(append(data, '\n'))
	return err
}

var errClosed = errors.New("the connection was closed")

// receive reads the next line. It fails if the other side says nothing within the time.
func (s *stream) receive(into any) error {
	if err := s.conn.SetReadDeadline(time.Now().Add(s.silence)); err != nil {
		return err
	}
	if !s.in.Scan() {
		if err := s.in.Err(); err != nil {
			return err
		}
		return errClosed
	}
	if err := json.Unmarshal(s.in.Bytes(), into); err != nil {
		return fmt.Errorf("decode a line: %w", err)
	}
	return nil
}

// keepSaying sends empty lines until done is closed.
func (s *stream) keepSaying(line any, done <-chan struct{}) {
	tick := time.NewTicker(s.silence / signals)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if s.send(line) != nil {
				return // the reader notices, too
			}
		}
	}
}

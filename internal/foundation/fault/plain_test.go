package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
)

func TestPlainDoesNotSpeakGo(t *testing.T) {
	_, missing := os.Open("/does/not/exist")
	_, refused := http.Get("http://127.0.0.1:1/x")
	_, noPort := net.Dial("tcp", "127.0.0.1:99999")
	_, noNumber := strconv.Atoi("x")
	_, noBool := strconv.ParseBool("x")
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	r, err := http.NewRequestWithContext(late, "GET", "http://127.0.0.1:1/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, tooLate := http.DefaultClient.Do(r)
	var v struct {
		Title string `json:"title"`
		At    time.Duration
	}
	parse := func(text string) error { return json.Unmarshal([]byte(text), &v) }
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a file":                 {fmt.Errorf("read file: %w", missing), "read file: /does/not/exist: no such file or directory"},
		"a file in a message":    {fault.Wrap(fault.Invalid, missing, "The file /does/not/exist cannot be read"), "The file /does/not/exist cannot be read: no such file or directory"},
		"a connection":           {refused, "127.0.0.1:1: connection refused"},
		"in a message":           {fault.Wrap(fault.Unavailable, refused, "No server answers at 127.0.0.1:1. Start one."), "No server answers at 127.0.0.1:1. Start one. (connection refused)"},
		"a port":                 {noPort, "address 99999: invalid port"},
		"a name":                 {&net.OpError{Op: "dial", Err: &net.DNSError{Name: "db", Err: "no such host"}}, "lookup db: no such host"},
		"a number":               {noNumber, "it is not a number, or too large"},
		"a switch":               {noBool, "it is neither true nor false"},
		"a limit":                {tooLate, "it took too long"},
		"a type":                 {parse(`{"title": 5}`), "title must be of type string, not number"},
		"the type of all":        {parse(`[]`), "it must be of type object, not array"},
		"no JSON":                {parse(`{"title": x}`), "it is not valid JSON (at byte 11)"},
		"half of it":             {parse(`{"title": `), "it ends too early"},
		"nothing":                {parse(``), "it ends too early"},
		"the end":                {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), "read: it ends too early"},
		"inside":                 {fmt.Errorf("carry out %T: %w", v, fault.Wrap(fault.Invalid, parse(`{"At": "x"}`), "The event has another shape")), "The event has another shape: At must be of type whole number, not string"},
		"two messages":           {fault.Wrap(fault.Invalid, fault.New(fault.Invalid, "It is bad."), "No."), "No. (It is bad.)"},
		"without a Go type":      {errors.New("the clock is late"), "the clock is late"},
		"a message without more": {fault.New(fault.Invalid, "No."), "No."},
	} {
		if got := fault.Plain(c.err); got != c.want {
			t.Errorf("%s: %q, want %q (of %v)", name, got, c.want, c.err)
		}
	}
}

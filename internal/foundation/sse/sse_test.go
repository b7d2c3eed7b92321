package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/sse"
)

type event struct {
	ID, Type, Data string
	Retry          time.Duration
}

func readAll(r io.Reader, limit int) (out []event, err error) {
	d := sse.NewDecoder(r, limit)
	for {
		ev, err := d.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, event{ev.ID, ev.Type, string(ev.Data), ev.Retry})
	}
}

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []event
	}{
		"one line":                    {"data: a\n\n", []event{{Data: "a"}}},
		"no space after the colon":    {"data:a\n\n", []event{{Data: "a"}}},
		"only one space is dropped":   {"data:  a\n\n", []event{{Data: " a"}}},
		"several lines":               {"data: a\ndata:\ndata: b\n\n", []event{{Data: "a\n\nb"}}},
		"a field without colon":       {"data\n\n", []event{{Data: ""}}},
		"CRLF":                        {"event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []event{{Type: "x", Data: "a"}, {Data: "b"}}},
		"CR":                          {"data: a\r\rdata: b\r\r", []event{{Data: "a"}, {Data: "b"}}},
		"mixed ends":                  {"data: a\rdata: b\r\ndata: c\n\n", []event{{Data: "a\nb\nc"}}},
		"byte order mark":             {"\xef\xbb\xbfdata: a\n\n", []event{{Data: "a"}}},
		"a mark is one only at first": {"data: a\n\n\xef\xbb\xbfdata: b\n\n", []event{{Data: "a"}}},
		"comments":                    {": hi\n\n:\ndata: a\n: b\n\n", []event{{Data: "a"}}},
		"ids persist":                 {"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []event{{ID: "1", Data: "a"}, {ID: "1", Data: "b"}, {Data: "c"}}},
		"an id without data counts":   {"id: 7\n\ndata: a\n\n", []event{{ID: "7", Data: "a"}}},
		"an id with NUL does not":     {"id: a\x00b\ndata: a\n\n", []event{{Data: "a"}}},
		"retry":                       {"retry: 1500\ndata: a\n\nretry: 1s\ndata: b\n\n", []event{{Data: "a", Retry: 1500 * time.Millisecond}, {Data: "b"}}},
		"unknown fields":              {"colour: red\ndata: a\n\n", []event{{Data: "a"}}},
		"a type without data is none": {"event: x\n\ndata: a\n\n", []event{{Data: "a"}}},
		"cut off by the end":          {"data: a\n\ndata: b\n", []event{{Data: "a"}}},
		"longer than the buffer":      {"data: " + strings.Repeat("x", 10_000) + "\n\n", []event{{Data: strings.Repeat("x", 10_000)}}},
		"nothing":                     {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"whole":        strings.NewReader(c.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(c.in)),
			} {
				got, err := readAll(r, 0)
				if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
					t.Errorf("%s: %v %s", how, err, diff)
				}
			}
		})
	}
}

func TestAnEventEndsWithItsLastByte(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r"} {
		r, w := io.Pipe()
		wrote := make(chan error, 1)
		go func() {
			_, err := io.WriteString(w, "data: a"+end)
			wrote <- err
		}()
		// The stream stays open without further data, so a decoder that waits would hang here.
		ev, err := sse.NewDecoder(r, 0).Next()
		if err != nil || string(ev.Data) != "a" {
			t.Errorf("got %q, %v", ev.Data, err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
		_ = w.Close()
	}
}

func TestSizesAreBounded(t *testing.T) {
	for name, in := range map[string]string{
		"one line":      "data: " + strings.Repeat("x", 200) + "\n\n",
		"many lines":    strings.Repeat("data: xxxxxxxx\n", 20) + "\n",
		"no end at all": strings.Repeat("x", 200),
	} {
		if _, err := readAll(strings.NewReader(in), 100); !errors.Is(err, sse.ErrTooLarge) {
			t.Errorf("%s: error is %v", name, err)
		}
		if _, err := readAll(strings.NewReader(in), 1000); err != nil { // control
			t.Errorf("%s: under a larger limit: %v", name, err)
		}
	}
	// The limit is for one event, not for the whole stream.
	if got, err := readAll(strings.NewReader(strings.Repeat("data: xxxxxxxx\n\n", 50)), 100); err != nil || len(got) != 50 {
		t.Errorf("%d events, error %v", len(got), err)
	}
}

func TestAnErrorOfTheReaderIsToldAndStays(t *testing.T) {
	broken := errors.New("broken")
	d := sse.NewDecoder(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 0)
	if _, err := d.Next(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := d.Next(); !errors.Is(err, broken) {
			t.Errorf("error is %v", err)
		}
	}
}

func TestEncode(t *testing.T) {
	var b bytes.Buffer
	e := sse.NewEncoder(&b)
	for _, err := range []error{
		e.Retry(2 * time.Second),
		e.WriteEvent("1", "x", []byte(`{"a":1}`)),
		e.Comment("still here"),
		e.WriteEvent("", "", []byte("a\r\nb\rc\n")),
		e.WriteEvent("", "", nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := "retry: 2000\n\nid: 1\nevent: x\ndata: {\"a\":1}\n\n: still here\n\ndata: a\ndata: b\ndata: c\ndata: \n\ndata: \n\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"a\nb", "a\rb", "a\x00b"} {
		if e.WriteEvent(bad, "", nil) == nil {
			t.Errorf("the id %q was accepted", bad)
		}
	}
	if e.WriteEvent("", "a\ndata: forged", nil) == nil {
		t.Error("a type with a line break was accepted")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("id: 1\nevent: x\r\ndata: a\rdata: b\n\n"))
	f.Add([]byte("\xef\xbb\xbf\r\n:\n\ndata\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err1 := readAll(bytes.NewReader(in), 64)
		split, err2 := readAll(iotest.OneByteReader(bytes.NewReader(in)), 64)
		if (err1 == nil) != (err2 == nil) || !cmp.Equal(whole, split) {
			t.Errorf("whole %v %v, split %v %v", whole, err1, split, err2)
		}
		for _, ev := range whole {
			if len(ev.Data) > 64 {
				t.Errorf("an event of %d bytes passed", len(ev.Data))
			}
			if ev.ID == "" && strings.ContainsRune(ev.Data, '\r') {
				t.Error("a CR came through")
			}
		}
	})
}

func FuzzEncodedIsDecoded(f *testing.F) {
	f.Add("1", "x", "a\nb")
	f.Fuzz(func(t *testing.T, id, kind, data string) {
		var b bytes.Buffer
		if sse.NewEncoder(&b).WriteEvent(id, kind, []byte(data)) != nil {
			return
		}
		data = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
		got, err := readAll(&b, 0)
		if diff := cmp.Diff([]event{{ID: id, Type: kind, Data: data}}, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	})
}

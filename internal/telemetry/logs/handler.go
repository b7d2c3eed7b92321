package logs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/lmittmann/tint"

	"lilac/internal/foundation/text"
)

// maxText bounds one value, in bytes. An error can contain a whole response, and log
// collectors reject long lines.
const maxText = 16 << 10

// Options configure a logger.
type Options struct {
	// Level may change while the logger is in use.
	Level slog.Leveler
	// Text writes text instead of JSON; Colour adds colors.
	Text, Colour bool
	// Secrets are removed from everything; nil removes only texts that look like secrets.
	Secrets *Secrets
}

// New returns a logger that writes to w, with one Write per line.
func New(w io.Writer, o Options) *slog.Logger {
	if o.Secrets == nil {
		o.Secrets = &Secrets{}
	}
	var next slog.Handler
	if o.Text {
		next = tint.NewTextHandler(w, &tint.Options{Level: o.Level, TimeFormat: time.TimeOnly, NoColor: !o.Colour})
	} else {
		next = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: o.Level})
	}
	return slog.New(&handler{next: next, secrets: o.Secrets, oneLine: o.Text})
}

// handler redacts and escapes a record before it passes the record on.
type handler struct {
	next    slog.Handler
	secrets *Secrets
	// oneLine also escapes line breaks, which JSON escapes anyway.
	oneLine bool
}

// Enabled implements [slog.Handler].
func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// Handle implements [slog.Handler].
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = h.attr(a)
	}
	clone := *h
	clone.next = h.next.WithAttrs(out)
	return &clone
}

// WithGroup implements [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler {
	clone := *h
	clone.next = h.next.WithGroup(h.text(name))
	return &clone
}

func (h *handler) attr(a slog.Attr) slog.Attr {
	return slog.Attr{Key: h.text(a.Key), Value: h.value(a.Value)}
}

func (h *handler) value(v slog.Value) slog.Value {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.StringValue(h.text(v.String()))
	case slog.KindGroup:
		members := v.Group()
		out := make([]slog.Attr, len(members))
		for i, a := range members {
			out[i] = h.attr(a)
		}
		return slog.GroupValue(out...)
	case slog.KindAny:
		return h.any(v.Any())
	}
	return v
}

// any converts a value to text or plain JSON, whose strings can be redacted.
func (h *handler) any(v any) (out slog.Value) {
	defer func() {
		if r := recover(); r != nil { // a method of the value panicked
			out = slog.StringValue(h.text(fmt.Sprintf("(%T cannot be logged)", v)))
		}
	}()
	switch v := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case error:
		return slog.StringValue(h.text(v.Error()))
	case []byte:
		return slog.StringValue(h.text(string(v)))
	case fmt.Stringer:
		return slog.StringValue(h.text(v.String()))
	}
	data, err := json.Marshal(v)
	var plain any
	if err != nil || json.Unmarshal(data, &plain) != nil {
		return slog.StringValue(h.text(fmt.Sprintf("%v", v)))
	}
	plain = h.plain(plain)
	if text, ok := plain.(string); ok {
		return slog.StringValue(text)
	}
	if !h.oneLine {
		return slog.AnyValue(plain)
	}
	data, _ = json.Marshal(plain) // decoded JSON always encodes
	return slog.StringValue(h.text(string(data)))
}

// plain redacts the strings in decoded JSON.
func (h *handler) plain(v any) any {
	switch v := v.(type) {
	case string:
		return h.text(v)
	case []any:
		for i := range v {
			v[i] = h.plain(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[h.text(key)] = h.plain(member)
		}
		return out
	}
	return v
}

// text removes secrets before it escapes characters, because escaping could hide a
// secret from the search.
func (h *handler) text(s string) string {
	s = text.TruncateWith(h.secrets.Redact(s), maxText, "… (cut)")
	return visible(strings.ToValidUTF8(s, "\uFFFD"), h.oneLine)
}

func visible(s string, oneLine bool) string {
	escaped := func(r rune) bool {
		if r == '\n' || r == '\t' {
			return oneLine
		}
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	}
	if !strings.ContainsFunc(s, escaped) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !escaped(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

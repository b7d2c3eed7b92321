package tracing

import (
	"encoding/binary"
	"math"
	"strings"
)

// The numbers of fields are those of opentelemetry/proto/trace/v1/trace.proto,
// collector/trace/v1/trace_service.proto and common/v1/common.proto (1.x, which
// are stable).

// message is a protobuf message being written.
type message []byte

func (m *message) key(field, wireType int) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|uint64(wireType))
}

func (m *message) varint(field int, v uint64) {
	m.key(field, 0)
	*m = binary.AppendUvarint(*m, v)
}

func (m *message) fixed64(field int, v uint64) {
	m.key(field, 1)
	*m = binary.LittleEndian.AppendUint64(*m, v)
}

func (m *message) bytes(field int, b []byte) {
	m.key(field, 2)
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

func (m *message) text(field int, s string) {
	m.bytes(field, []byte(strings.ToValidUTF8(s, "\uFFFD")))
}

// scopeName is what the spans say made them.
const scopeName = "lilac"

// encode writes an ExportTraceServiceRequest.
func encode(resource []Attr, spans []*Span) []byte {
	var described, scope, scopeSpans, resourceSpans, request message
	for _, a := range resource {
		described.bytes(1, attribute(a))
	}
	scope.text(1, scopeName)
	scopeSpans.bytes(1, scope)
	for _, s := range spans {
		scopeSpans.bytes(2, s.encode())
	}
	resourceSpans.bytes(1, described)
	resourceSpans.bytes(2, scopeSpans)
	request.bytes(1, resourceSpans)
	return request
}

func (s *Span) encode() []byte {
	const statusError = 2
	s.mu.Lock()
	defer s.mu.Unlock()
	var m message
	m.bytes(1, s.context.Trace[:])
	m.bytes(2, s.context.Span[:])
	if s.parent != [8]byte{} {
		m.bytes(4, s.parent[:])
	}
	m.text(5, s.name)
	m.varint(6, uint64(s.kind))
	m.fixed64(7, uint64(s.start.UnixNano()))
	m.fixed64(8, uint64(s.end.UnixNano()))
	for _, a := range s.attrs {
		m.bytes(9, attribute(a))
	}
	if s.failed != "" {
		var status message
		status.text(2, s.failed)
		status.varint(3, statusError)
		m.bytes(15, status)
	}
	return m
}

func attribute(a Attr) []byte {
	var m message
	m.text(1, a.Key)
	m.bytes(2, value(a.Value))
	return m
}

func value(v any) []byte {
	var m message
	switch v := v.(type) {
	case string:
		m.text(1, v)
	case bool:
		n := uint64(0)
		if v {
			n = 1
		}
		m.varint(2, n)
	case int64:
		m.varint(3, uint64(v))
	case float64:
		m.fixed64(4, math.Float64bits(v))
	case []string:
		var list message
		for _, s := range v {
			list.bytes(1, value(s))
		}
		m.bytes(5, list)
	}
	return m
}

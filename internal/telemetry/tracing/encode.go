package tracing

import (
	"encoding/binary"
	"math"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
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

// encode writes an ExportTraceServiceRequest. All spans of a batch have the same
// resource and scope, because one provider made them.
func encode(spans []sdktrace.ReadOnlySpan) []byte {
	var described, scope, scopeSpans, resourceSpans, request message
	for _, a := range spans[0].Resource().Attributes() {
		described.bytes(1, encodeAttribute(a))
	}
	scope.text(1, scopeName)
	scopeSpans.bytes(1, scope)
	for _, s := range spans {
		scopeSpans.bytes(2, encodeSpan(s))
	}
	resourceSpans.bytes(1, described)
	resourceSpans.bytes(2, scopeSpans)
	request.bytes(1, resourceSpans)
	return request
}

func encodeSpan(s sdktrace.ReadOnlySpan) []byte {
	const statusError = 2
	trace, span := s.SpanContext().TraceID(), s.SpanContext().SpanID()
	var m message
	m.bytes(1, trace[:])
	m.bytes(2, span[:])
	if parent := s.Parent().SpanID(); parent.IsValid() {
		m.bytes(4, parent[:])
	}
	m.text(5, s.Name())
	m.varint(6, uint64(s.SpanKind())) // the API's numbers are those of OTLP
	m.fixed64(7, uint64(s.StartTime().UnixNano()))
	m.fixed64(8, uint64(s.EndTime().UnixNano()))
	for _, a := range s.Attributes() {
		m.bytes(9, encodeAttribute(a))
	}
	if s.Status().Code == codes.Error {
		var status message
		status.text(2, s.Status().Description)
		status.varint(3, statusError)
		m.bytes(15, status)
	}
	return m
}

func encodeAttribute(a attribute.KeyValue) []byte {
	var m message
	m.text(1, string(a.Key))
	m.bytes(2, encodeValue(a.Value))
	return m
}

// encodeValue writes an AnyValue. Lilac sets only attributes of these types.
func encodeValue(v attribute.Value) []byte {
	var m message
	switch v.Type() {
	case attribute.BOOL:
		n := uint64(0)
		if v.AsBool() {
			n = 1
		}
		m.varint(2, n)
	case attribute.INT64:
		m.varint(3, uint64(v.AsInt64()))
	case attribute.FLOAT64:
		m.fixed64(4, math.Float64bits(v.AsFloat64()))
	case attribute.STRINGSLICE:
		var list message
		for _, s := range v.AsStringSlice() {
			list.bytes(1, encodeValue(attribute.StringValue(s)))
		}
		m.bytes(5, list)
	default:
		m.text(1, v.String())
	}
	return m
}

package tracing

import (
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

// Environment reads the variables of OpenTelemetry's OTLP exporter: its endpoints,
// headers and timeouts, and the switches OTEL_TRACES_EXPORTER=none and
// OTEL_SDK_DISABLED. on is false if nothing asks for traces. The SDK itself reads
// the other variables (resource, sampler, batches, limits).
func Environment(getenv func(string) string) (o Options, on bool, err error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return o, false, nil
	}
	name, target := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	path := ""
	if target == "" {
		name, target, path = "OTEL_EXPORTER_OTLP_ENDPOINT", getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "/v1/traces"
	}
	if target == "" {
		return o, false, nil
	}
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return o, false, fault.InvalidField(name, "%s is not the URL of a collector; it looks like http://127.0.0.1:4318.", name)
	}
	if p := getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); p == "grpc" {
		return o, false, fault.InvalidField("OTEL_EXPORTER_OTLP_PROTOCOL", "Traces are sent as http/protobuf, not as grpc; use the collector's port for HTTP (4318).")
	}
	if path != "" {
		u.Path = strings.TrimRight(u.Path, "/") + path
	}
	o.URL = u.String()
	o.Headers = pairs(getenv("OTEL_EXPORTER_OTLP_HEADERS"))
	for name, value := range pairs(getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS")) {
		o.Headers[name] = value
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"} {
		if ms, err := strconv.Atoi(getenv(name)); err == nil && ms > 0 {
			o.Timeout = time.Duration(ms) * time.Millisecond
			break
		}
	}
	return o, true, nil
}

// environmentMillis returns the variable's value in milliseconds, or otherwise.
func environmentMillis(name string, otherwise time.Duration) time.Duration {
	if ms, err := strconv.Atoi(os.Getenv(name)); err == nil && ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return otherwise
}

// pairs parses a=b,c=d with percent-encoded values.
func pairs(list string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			continue
		}
		value = strings.TrimSpace(value)
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		out[name] = value
	}
	return out
}

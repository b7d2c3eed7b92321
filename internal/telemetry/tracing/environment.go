package tracing

import (
	"net/url"
	"strings"

	"lilac/internal/foundation/fault"
)

// Environment reads OpenTelemetry's variables: OTEL_EXPORTER_OTLP_ENDPOINT and
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, their HEADERS, OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_EXPORTER=none and OTEL_SDK_DISABLED.
// on is false when nothing asks for traces.
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
	service := getenv("OTEL_SERVICE_NAME")
	for name, value := range pairs(getenv("OTEL_RESOURCE_ATTRIBUTES")) {
		if name == "service.name" && service == "" {
			service = value
		} else if name != "service.name" {
			o.Resource = append(o.Resource, Attr{name, value})
		}
	}
	if service == "" {
		service = "lilac"
	}
	o.Resource = append(o.Resource, Attr{"service.name", service})
	return o, true, nil
}

// pairs reads a=b,c=d with percent-encoded values.
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

package event

import (
	"strings"

	"lilac/internal/foundation/fault"
)

// RequestID is a parsed request id of the form <surface>:<session_id>:<specific id>. The
// surface ends at the first colon; the specific id starts after the last one.
type RequestID struct {
	Surface  string
	Session  string
	Specific string
}

// ParseRequestID parses a request id.
func ParseRequestID(id string) (RequestID, error) {
	first, last := strings.IndexByte(id, ':'), strings.LastIndexByte(id, ':')
	if first <= 0 || last == len(id)-1 || last == first+1 {
		return RequestID{}, fault.InvalidField("requestId", "%q is not a request id.", id)
	}
	r := RequestID{Surface: id[:first], Specific: id[last+1:]}
	if last > first {
		r.Session = id[first+1 : last]
	}
	return r, nil
}

// String returns the request id.
func (r RequestID) String() string {
	if r.Session == "" {
		return r.Surface + ":" + r.Specific
	}
	return r.Surface + ":" + r.Session + ":" + r.Specific
}

// ElseRequest returns the default id of the new request that a message starts if its request
// has already ended: the same id with the message id as the specific id. It replaces colons
// in the message id, because the last colon is the separator.
func ElseRequest(requestID, messageID string) string {
	messageID = strings.ReplaceAll(messageID, ":", "-")
	r, err := ParseRequestID(requestID)
	if err != nil {
		return requestID + ":" + messageID
	}
	r.Specific = messageID
	return r.String()
}

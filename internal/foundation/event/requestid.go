package event

import (
	"strings"

	"lilac/internal/foundation/fault"
)

// RequestID is a request id taken apart: <surface>:<session_id>:<specific id>.
// The surface ends at the first colon, the specific id starts after the last.
type RequestID struct {
	Surface  string
	Session  string
	Specific string
}

// ParseRequestID takes a request id apart.
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

// String joins the parts.
func (r RequestID) String() string {
	if r.Session == "" {
		return r.Surface + ":" + r.Specific
	}
	return r.Surface + ":" + r.Session + ":" + r.Specific
}

// ElseRequest is the request that a message becomes by default when the one
// it was meant for is over: the same id with the message's id as its specific
// id. A colon in the message id is replaced, since the last one separates.
func ElseRequest(requestID, messageID string) string {
	messageID = strings.ReplaceAll(messageID, ":", "-")
	r, err := ParseRequestID(requestID)
	if err != nil {
		return requestID + ":" + messageID
	}
	r.Specific = messageID
	return r.String()
}

package program

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

const (
	// firstPause is the pause before a program that ended is started again. It doubles
	// with each failure in a row, up to maxPause.
	firstPause = time.Second
	maxPause   = time.Minute
	// stableTime is the time after which a program counts as started: the failures before
	// are forgotten, and the source has no trouble any more.
	stableTime = 10 * time.Second
)

// idForm matches the id of a line. It has no spaces, because it is a word of the
// acknowledgment.
var idForm = lazyregexp.New(`^[!-~]{1,128}$`)

// Line is an event as a program prints it.
type Line struct {
	ID string `json:"id"`
	// Type is source.received by default.
	Type event.Type `json:"type,omitempty"`
	// Session is the id of the session that the event belongs to, or "".
	Session string `json:"session,omitempty"`
	// Timestamp is the time of the event in Unix milliseconds. Default: the time at
	// which the line is read.
	Timestamp int64           `json:"timestamp,omitempty"`
	Payload   json.RawMessage `json:"payload,omitempty"`
}

// Parse returns the environment event of a line of the source name. id is the id of the
// line if it can be read, also with an error; otherwise it is "". An error means that the
// line can never become an event.
func Parse(name string, line []byte, now time.Time) (e event.EnvEvent, id string, err error) {
	var in Line
	if err := json.Unmarshal(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), &in); err != nil {
		var partial struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(line, &partial) == nil && idForm().MatchString(partial.ID) {
			id = partial.ID
		}
		return e, id, fault.Wrap(fault.Invalid, err, "The line is not an event in JSON, such as {\"id\": \"1\", \"payload\": {}}.")
	}
	if !idForm().MatchString(in.ID) {
		return e, "", fault.InvalidField("id", "The event needs an id of 1 to 128 printable ASCII characters without spaces.")
	}
	e = event.EnvEvent{
		ID: "source:" + name + ":" + in.ID, Type: in.Type, Timestamp: in.Timestamp, Payload: in.Payload,
		Metadata: event.EnvMetadata{TriggerSessionID: in.Session, EnvName: name, Source: "env"},
	}
	if e.Type == "" {
		e.Type = event.SourceReceived
	}
	if e.Timestamp == 0 {
		e.Timestamp = now.UnixMilli()
	}
	if err := e.Validate(); err != nil {
		return e, in.ID, err
	}
	if environment.IsReserved(e.Type) || e.Type != event.SourceReceived && slices.Contains(event.EnvTypes(), e.Type) {
		return e, in.ID, fault.InvalidField("type", "Only Lilac itself publishes events of the type %s. Use a type of your own.", e.Type)
	}
	return environment.FromProgram(e), in.ID, nil
}

// Pause returns the time until a program that has failed so many times in a row is started
// again.
func Pause(failures int) time.Duration {
	pause := firstPause
	for range failures - 1 {
		if pause *= 2; pause >= maxPause {
			return maxPause
		}
	}
	return pause
}

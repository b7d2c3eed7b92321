package pairing

import "time"

const (
	// CodeTTL limits the time for which a code may be approved.
	CodeTTL = 7 * 24 * time.Hour
	// MaxPending bounds the strangers who wait.
	MaxPending = 100
	// repeatAfter is the time after which the same stranger gets a further answer.
	repeatAfter = time.Hour
)

// State is the state of a person: pending -> approved <-> denied, pending -> denied.
type State string

// The states. A person without a row is a stranger.
const (
	Pending  State = "pending"
	Approved State = "approved"
	Denied   State = "denied"
)

// Row is a person who asked to be paired. Times are Unix milliseconds.
type Row struct {
	Platform string `json:"platform"`
	UserID   string `json:"userId"`
	Name     string `json:"name"`
	Code     string `json:"code"`
	State    State  `json:"state"`
	// CreatedAt is when the code was made, DecidedAt when the operator decided.
	CreatedAt int64 `json:"createdAt"`
	DecidedAt int64 `json:"decidedAt,omitempty"`
	// AskedAt is the time of the last message that is to be answered, ToldAt that of the
	// last answer.
	AskedAt int64 `json:"askedAt,omitempty"`
	ToldAt  int64 `json:"toldAt,omitempty"`
}

// Due reports whether the person has to be told the code.
func (r Row) Due() bool { return r.State == Pending && r.AskedAt > r.ToldAt }

// needsCode reports whether the person has no code that can be approved.
func (r Row) needsCode(now time.Time) bool { return r.State == "" || r.Expired(now) }

// Expired reports whether the code is too old to be approved.
func (r Row) Expired(now time.Time) bool {
	return r.State == Pending && now.Sub(time.UnixMilli(r.CreatedAt)) >= CodeTTL
}

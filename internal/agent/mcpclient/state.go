package mcpclient

import "time"

// State is the state of a server.
type State string

// The states. A server is starting until it first works or fails; then it is ready, or
// waits for its next start. Legal transitions: starting → ready, starting → waiting,
// ready → waiting, waiting → starting.
const (
	Starting State = "starting"
	Ready    State = "ready"
	Waiting  State = "waiting"
	Disabled State = "disabled"
)

// Status describes a server.
type Status struct {
	// Name is the name in callables, and Key the one in the configuration.
	Name string `json:"name"`
	Key  string `json:"key"`
	// Transport is stdio, http, or sse.
	Transport string `json:"transport"`
	State     State  `json:"state"`
	// Trouble says why the server does not work, or what of it is left out.
	Trouble string `json:"trouble,omitempty"`
	// Product and Protocol are what the server says of itself.
	Product  string `json:"product,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Tools    int    `json:"tools"`
	// Resources and Prompts report that the server has some.
	Resources bool `json:"resources"`
	Prompts   bool `json:"prompts"`
	// Restarts counts the failures since the start of the program or of the entry.
	Restarts int `json:"restarts"`
	// Since is the time of the last change of the state, in Unix milliseconds.
	Since int64 `json:"since"`
}

const (
	firstPause = time.Second
	maxPause   = 5 * time.Minute
	// healthyAfter is the time after which the failures of a working server are forgotten.
	healthyAfter = time.Minute
	// maxTimeouts is the number of calls in a row that time out before a server counts as
	// hung and is restarted.
	maxTimeouts = 2
)

// Backoff returns the number of failures in a row, and the pause before the next start. A
// server that worked for a minute begins again at one second; otherwise, the pause doubles,
// up to five minutes. lived is the time for which the server was ready.
func Backoff(failures int, lived time.Duration) (next int, pause time.Duration) {
	if lived >= healthyAfter {
		failures = 0
	}
	return failures + 1, min(firstPause<<min(failures, 16), maxPause)
}
